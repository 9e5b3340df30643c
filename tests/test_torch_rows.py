"""Contract: sums and means of PyTorch tensors along axes give tensors with the bits that NumPy arrays give;
their operators go through torch.compile, autograd and torch.func.

None of it needs a GPU.  The rows themselves are the business of tests/test_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import same
from torch_support import compiled

import tcu
from tcu.errors import DtypeError, ParameterError
from tcu.formats.tensor import host_view

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

OPERATIONS: dict[str, Callable[..., Any]] = {"sum": tcu.sum, "mean": tcu.mean}
DTYPES = ("float16", "bfloat16", "float32", "float64")
AXES = (0, -1, (0, 2), [2, 0], (), None)
SMALL = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) / 8

both = pytest.mark.parametrize("name", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def tensor(dtype: str, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape)).to(getattr(torch, dtype))


@both
@every_dtype
def test_a_tensor_gives_a_tensor_with_the_bits_of_arrays(name: str, dtype: str) -> None:
    function, whole = OPERATIONS[name], tensor(dtype, 5, 6, 70)
    for x in (whole, whole.permute(2, 0, 1), whole[::2, 1:], whole.requires_grad_()):
        for axis in AXES:
            for keepdims in (False, True):
                result = function(x, axis, keepdims=keepdims)
                expected = function(host_view(x), axis, keepdims=keepdims)
                assert type(result) is torch.Tensor
                assert str(result.dtype) == f"torch.{expected.dtype}"
                same(result, expected)
                assert result.requires_grad is x.requires_grad


def test_options_reach_the_plan() -> None:
    x = tensor("float16", 4, 500)
    options: dict[str, Any] = {"unit": "V100", "variant": "single-pass", "chain": 2, "block": 64}
    for given in (x, x.clone().requires_grad_()):
        result = tcu.sum(given, axis=1, dtype=torch.float16, **options)
        same(result, tcu.sum(host_view(x), axis=1, dtype="float16", **options))


def test_out_details_and_progress() -> None:
    x = tensor("float32", 4, 50)
    out = torch.zeros(4, dtype=torch.float64)
    before = out._version
    assert tcu.sum(x, axis=1, out=out) is out
    same(out, tcu.sum(x, axis=1, dtype="float64"))
    assert out._version > before
    seen: list[int] = []
    for wanting in (False, True):
        result, info = tcu.sum(x.clone().requires_grad_(wanting), 1, return_info=True, progress=seen.append)
        assert (info.rows, info.plan.n, result.requires_grad) == (4, 50, wanting)
    assert sum(seen) == 400


def test_an_out_that_does_not_fit() -> None:
    x = tensor("float32", 4, 50)
    for out, message in (
        (torch.zeros(50), r"out has shape \(50,\), the result \(4,\): give a tensor, torch\.empty"),
        (np.zeros(4), "out is a ndarray, x a tensor"),
        (torch.zeros(4, device="meta"), "x is on cpu, out on meta"),
        (torch.zeros(4, requires_grad=True), "out requires grad"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.sum(x, axis=1, out=out)
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.sum(x, axis=1, dtype="float32", out=torch.zeros(4, dtype=torch.float64))
    with pytest.raises(ParameterError, match=r"x requires grad.*torch\.no_grad\(\)"):
        tcu.sum(x.clone().requires_grad_(), axis=1, out=torch.zeros(4))


def test_tensors_and_axes_that_are_refused() -> None:
    for x in (SMALL, SMALL.clone().requires_grad_()):
        with pytest.raises(ParameterError, match="axis 3 of an array with 3 axes: choose -3 to 2"):
            tcu.sum(x, axis=3)
        with pytest.raises(ParameterError, match="more than once"):
            tcu.mean(x, axis=(1, -2))
    with pytest.raises(DtypeError, match=r"x has dtype torch\.complex64"):
        tcu.sum(SMALL.to(torch.complex64), axis=0)
    with pytest.raises(ParameterError, match="x is on the meta device and holds no numbers"):
        tcu.sum(SMALL.to("meta"), axis=0)
    with pytest.raises(ParameterError, match=r"return_info=True .*leave it out"):
        torch.func.grad(lambda x: tcu.sum(x, axis=0, return_info=True)[0].sum())(SMALL)


# Gradients and transformations.


@pytest.mark.some(14)
@both
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_derivatives(name: str, axis: Any, keepdims: bool) -> None:
    def function(x: Any) -> Any:
        return OPERATIONS[name](x, axis, keepdims=keepdims)

    x = SMALL.clone().requires_grad_()
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, x)
    assert torch.allclose(torch.func.jvp(function, (SMALL,), (SMALL,))[1], function(SMALL))
    batch = torch.stack([SMALL, 2 * SMALL])
    assert torch.equal(torch.vmap(function)(batch), torch.stack([function(each) for each in batch]))
    last = batch.movedim(0, 3)
    assert torch.equal(torch.vmap(function, in_dims=3)(last), torch.vmap(function)(batch))
    one = torch.func.jacrev(function)(SMALL)
    assert torch.equal(torch.vmap(torch.func.jacrev(function))(batch)[1], one)


def test_gradients_have_the_dtype_of_x() -> None:
    for dtype in DTYPES:
        x = tensor(dtype, 3, 4).requires_grad_()
        (tcu.sum(x, axis=0) * torch.arange(4)).sum().backward()
        assert x.grad.dtype is x.dtype
        assert (x.grad == torch.arange(4)).all()


def test_the_gradient_of_empty_rows() -> None:
    for function in OPERATIONS.values():
        x = torch.zeros(3, 0, requires_grad=True)
        function(x, axis=1).sum().backward()
        assert x.grad.shape == (3, 0)


# Operators.


@both
@every_dtype
def test_opcheck(name: str, dtype: str) -> None:
    tcu.sum(SMALL, axis=0)
    operator = getattr(torch.ops.tcu, f"{name}_along").default
    for x in (
        tensor(dtype, 4, 6, 5),
        tensor(dtype, 4, 6, 5).permute(2, 0, 1),
        tensor(dtype, 4, 6, 5).requires_grad_(),
    ):
        torch.library.opcheck(operator, (x, [0, -1]))
        torch.library.opcheck(operator, (x, [1], True), {"dtype": torch.float64})


def test_operators_take_the_options_by_name_and_by_place() -> None:
    x = tensor("float16", 3, 400)
    choices: list[dict[str, Any]] = [
        {"unit": "V100"},
        {"variant": "two-mma"},
        {"block": 512},
        {"dtype": torch.float64},
    ]
    for named in choices:
        same(torch.ops.tcu.sum_along(x, [1], **named), tcu.sum(x, axis=1, **named))
    same(torch.ops.tcu.sum_along(x, [-1], True, "V100"), tcu.sum(x, 1, keepdims=True, unit="V100"))


def test_fake_tensors_have_a_shape_and_a_dtype() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for dtype in DTYPES:
            result = tcu.mean(torch.empty(3, 4, 5, dtype=getattr(torch, dtype)), (0, 2), keepdims=True)
            assert (result.shape, result.dtype.itemsize) == (
                (1, 4, 1),
                max(4, getattr(torch, dtype).itemsize),
            )
    meta = torch.ops.tcu.sum_along(torch.empty(3, 2, device="meta"), [0], dtype=torch.float16)
    assert (meta.device.type, meta.dtype, meta.shape) == ("meta", torch.float16, (2,))


@both
def test_compiled_whole(name: str) -> None:
    function = compiled(
        lambda x: OPERATIONS[name](2 * x, axis=-1) + OPERATIONS[name](x, (0, 1), keepdims=True)
    )
    for shape in ((3, 5), (4, 6), (5, 1003)):  # the second makes lengths symbols
        x = tensor("float32", *shape).requires_grad_()
        plain = OPERATIONS[name](2 * x, axis=-1) + OPERATIONS[name](x, (0, 1), keepdims=True)
        result = function(x)
        assert torch.equal(result, plain)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient, torch.autograd.grad(plain.sum(), x)[0])


def test_compiled_with_out_and_vmap() -> None:
    x, out = tensor("float16", 4, 300), torch.zeros(4, dtype=torch.float16)
    result = compiled(lambda x, out: tcu.sum(x, axis=1, out=out, unit="V100"))(x, out)
    same(result, tcu.sum(x, axis=1, dtype=torch.float16, unit="V100"))
    same(out, tcu.sum(x, axis=1, dtype=torch.float16, unit="V100"))
    batch = tensor("float32", 3, 4, 5)
    function = torch.vmap(lambda x: tcu.sum(x, axis=0))
    assert torch.equal(compiled(function)(batch), function(batch))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: tcu.sum(x, 0, return_info=True),
            "return_info and progress do not go through torch.compile",
        ),
        (lambda x: tcu.sum(x, 5), "axis 5 of an array with 3 axes"),
        (
            torch.func.jacrev(lambda x: tcu.sum(x, 0)),
            "under torch.func.grad or in forward mode does not go through",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_does_not_compile_says_why(function: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(function)(SMALL)
