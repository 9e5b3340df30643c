"""Contract: running sums of PyTorch tensors give tensors with the bits that NumPy arrays give; their operators
go through torch.compile, autograd and torch.func, with a running sum from the other end as the gradient.

None of it needs a GPU.  The running sums themselves are the business of tests/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import same
from torch_support import compiled

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import host_view

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

DTYPES = ("float16", "bfloat16", "float32", "float64")
DIRECTIONS = [(False, False), (True, False), (False, True), (True, True)]
SMALL = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) / 8
EDGES = [0, 3, 3, 4, 11, 12]

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_direction = pytest.mark.parametrize(("exclusive", "reverse"), DIRECTIONS)


def tensor(dtype: str, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape)).to(getattr(torch, dtype))


@every_direction
@every_dtype
def test_a_tensor_gives_a_tensor_with_the_bits_of_arrays(dtype: str, exclusive: bool, reverse: bool) -> None:
    whole = tensor(dtype, 5, 6, 70)
    options: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}
    for x in (whole, whole.permute(2, 0, 1), whole[::2, 1:], whole[0, 0, 0], whole.requires_grad_()):
        for axis in (None, 0, -1) if x.dim() else (None,):
            for target in (None, torch.float16, "float64"):
                result = tcu.cumsum(x, axis, dtype=target, **options)
                expected = tcu.cumsum(host_view(x), axis, dtype=target, **options)
                assert type(result) is torch.Tensor
                assert str(result.dtype) == f"torch.{expected.dtype}"
                same(result, expected)
                assert result.requires_grad is x.requires_grad
    for x in (tensor(dtype, 12), tensor(dtype, 24)[::2], tensor(dtype, 12).requires_grad_()):
        expected = tcu.segment_cumsum(host_view(x), EDGES, **options)
        for edges in (EDGES, np.array(EDGES), torch.tensor(EDGES), torch.tensor(EDGES, dtype=torch.int32)):
            result = tcu.segment_cumsum(x, edges, **options)
            same(result, expected)
            assert result.requires_grad is x.requires_grad


def test_out_details_and_progress() -> None:
    x = tensor("float32", 4, 50)
    out = torch.zeros(4, 50, dtype=torch.float64)
    before = out._version
    assert tcu.cumsum(x, 1, out=out) is out
    same(out, tcu.cumsum(x, 1, dtype="float64"))
    assert out._version > before
    line = torch.zeros(200)
    assert tcu.segment_cumsum(x.reshape(-1), [0, 7, 200], out=line) is line
    same(line, tcu.segment_cumsum(x.reshape(-1), [0, 7, 200]))
    y = x.clone()
    assert tcu.cumsum(y, 0, out=y) is y
    same(y, tcu.cumsum(x, 0))
    seen: list[int] = []
    for wanting in (False, True):
        result, info = tcu.cumsum(
            x.clone().requires_grad_(wanting), 1, return_info=True, progress=seen.append
        )
        assert (info.rows, info.plan.n, info.plan.input, result.requires_grad) == (4, 50, "binary32", wanting)
    assert sum(seen) == 400


def test_an_out_that_does_not_fit() -> None:
    x = tensor("float32", 4, 50)
    for out, message in (
        (torch.zeros(50, 4), r"out has shape \(50, 4\), the result \(4, 50\): give a tensor, torch\.empty"),
        (np.zeros((4, 50)), "out is a ndarray, x a tensor"),
        (torch.zeros(4, 50, device="meta"), "x is on cpu, out on meta"),
        (torch.zeros(4, 50, requires_grad=True), "out requires grad"),
    ):
        for given in (x, x.clone().requires_grad_()):
            with pytest.raises(ParameterError, match=message):
                tcu.cumsum(given, 1, out=out)
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.cumsum(x, 1, dtype="float32", out=torch.zeros(4, 50, dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"out has dtype torch\.int64"):
        tcu.cumsum(x, 1, out=torch.zeros(4, 50, dtype=torch.int64))
    with pytest.raises(ParameterError, match=r"x requires grad.*torch\.no_grad\(\)"):
        tcu.cumsum(x.clone().requires_grad_(), 1, out=torch.zeros(4, 50))
    with torch.no_grad():
        tcu.cumsum(x.clone().requires_grad_(), 1, out=torch.zeros(4, 50))


def test_tensors_axes_and_offsets_that_are_refused() -> None:
    for x in (SMALL, SMALL.clone().requires_grad_()):
        with pytest.raises(ParameterError, match="axis 3 of an array with 3 axes: choose -3 to 2"):
            tcu.cumsum(x, 3)
        with pytest.raises(ShapeError, match="segments are cut from one line"):
            tcu.segment_cumsum(x, [0, 24])
        line = x.reshape(-1)
        for edges, error, message in (
            ([0, 23], ParameterError, "offsets end at 23, and x has 24 elements"),
            (torch.tensor([0.0, 24.0]), DtypeError, "offsets has dtype float"),
            (torch.tensor([[0, 24]]), ShapeError, r"offsets has shape \(1, 2\)"),
        ):
            with pytest.raises(error, match=message):
                tcu.segment_cumsum(line, edges)
    with pytest.raises(DtypeError, match=r"x has dtype torch\.complex64"):
        tcu.cumsum(SMALL.to(torch.complex64), 0)
    with pytest.raises(DtypeError, match=r"x has dtype torch\.complex64"):
        tcu.segment_cumsum(SMALL.to(torch.complex64).reshape(-1), [0, 24])
    with pytest.raises(ParameterError, match="x is on the meta device and holds no numbers"):
        tcu.cumsum(SMALL.to("meta"), 0)


# Gradients and transformations.


@every_direction
@pytest.mark.parametrize("axis", [0, -1, None])
def test_derivatives(axis: Any, exclusive: bool, reverse: bool) -> None:
    check_derivatives(lambda x: tcu.cumsum(x, axis, exclusive=exclusive, reverse=reverse), SMALL)


@every_direction
def test_derivatives_of_segments(exclusive: bool, reverse: bool) -> None:
    for edges in (EDGES, torch.tensor(EDGES)):
        check_derivatives(
            lambda x, edges=edges: tcu.segment_cumsum(x, edges, exclusive=exclusive, reverse=reverse),
            SMALL.reshape(-1)[:12],
        )


def check_derivatives(function: Callable[[Any], Any], small: Any) -> None:
    x = small.clone().requires_grad_()
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, x)
    assert torch.allclose(torch.func.jvp(function, (small,), (small,))[1], function(small))
    batch = torch.stack([small, 2 * small])
    assert torch.equal(torch.vmap(function)(batch), torch.stack([function(each) for each in batch]))
    last = batch.movedim(0, -1)
    assert torch.equal(torch.vmap(function, in_dims=-1)(last), torch.vmap(function)(batch))
    one = torch.func.jacrev(function)(small)
    assert torch.equal(torch.vmap(torch.func.jacrev(function))(batch)[1], one)
    assert torch.equal(torch.func.jacfwd(function)(small), one)
    assert torch.vmap(function)(batch[:0]).shape[0] == 0


def test_batches_of_offsets() -> None:
    x, edges = tensor("float32", 3, 12), torch.tensor([EDGES, [0, 1, 2, 3, 4, 12], [0, 0, 0, 12, 12, 12]])
    for in_dims, given in (((0, 0), (x, edges)), ((None, 0), (x[0], edges)), ((0, 1), (x, edges.T))):
        found = torch.vmap(tcu.segment_cumsum, in_dims=in_dims)(*given)
        rows = x if in_dims[0] == 0 else x[:1].expand(3, -1)
        assert torch.equal(
            found, torch.stack([tcu.segment_cumsum(a, b) for a, b in zip(rows, edges, strict=True)])
        )
    for wrong, message in (
        ([0, 3], "offsets end at 3, and x has 12 elements"),
        ([1, 12], "offsets start at 1"),
        ([0, 5, 3, 12], "offsets decrease"),
    ):
        with pytest.raises(ParameterError, match=message):
            torch.vmap(lambda x, wrong=wrong: tcu.segment_cumsum(x, torch.tensor(wrong)))(x)
    with pytest.raises(ParameterError, match="offsets end at 3, and x has 12 elements"):
        torch.vmap(tcu.segment_cumsum)(x, torch.tensor([[0, 12], [0, 3], [0, 12]]))


def test_gradients_have_the_dtype_of_x() -> None:
    for dtype in DTYPES:
        x = tensor(dtype, 3, 4).requires_grad_()
        (tcu.cumsum(x, 0) * torch.arange(4)).sum().backward()
        assert x.grad.dtype is x.dtype
        assert (x.grad == torch.arange(3, 0, -1)[:, None] * torch.arange(4)).all()
        line = tensor(dtype, 12).requires_grad_()
        tcu.segment_cumsum(line, EDGES).sum().backward()
        assert line.grad.tolist() == [3, 2, 1, 1, 7, 6, 5, 4, 3, 2, 1, 1]
    empty = torch.zeros(3, 0, requires_grad=True)
    tcu.cumsum(empty, 1).sum().backward()
    assert empty.grad.shape == (3, 0)


# Operators.


@every_dtype
def test_opcheck(dtype: str) -> None:
    tcu.cumsum(SMALL, 0)
    for x in (tensor(dtype, 4, 6), tensor(dtype, 4, 6).T, tensor(dtype, 4, 6).requires_grad_()):
        torch.library.opcheck(torch.ops.tcu.cumsum.default, (x, 0, True))
        torch.library.opcheck(torch.ops.tcu.cumsum.default, (x,), {"dtype": torch.float64, "reverse": True})
    for x in (tensor(dtype, 12), tensor(dtype, 12).requires_grad_()):
        torch.library.opcheck(torch.ops.tcu.segment_cumsum.default, (x, torch.tensor(EDGES)))
        torch.library.opcheck(
            torch.ops.tcu.segment_cumsum.default,
            (x, torch.tensor(EDGES), False, True, True),
            {"dtype": torch.float64},
        )


def test_fake_tensors_have_a_shape_and_a_dtype() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for dtype in DTYPES:
            x = torch.empty(3, 4, dtype=getattr(torch, dtype))
            for axis, shape in ((0, (3, 4)), (None, (12,))):
                result = tcu.cumsum(x, axis)
                assert (result.shape, result.dtype.itemsize) == (shape, max(4, x.dtype.itemsize))
            assert tcu.segment_cumsum(x[0], torch.zeros(3, dtype=torch.int64)).shape == (4,)
    meta = torch.ops.tcu.cumsum(torch.empty(3, 2, device="meta"), 0, dtype=torch.float16)
    assert (meta.device.type, meta.dtype, meta.shape) == ("meta", torch.float16, (3, 2))


def test_compiled_whole() -> None:
    def both(x: Any) -> Any:
        return tcu.cumsum(2 * x, -1, reverse=True) + tcu.cumsum(x, exclusive=True).reshape(x.shape)

    function = compiled(both)
    for shape in ((3, 5), (4, 6), (5, 1003)):  # the second makes lengths symbols
        x = tensor("float32", *shape).requires_grad_()
        result = function(x)
        assert torch.equal(result, both(x))
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient, torch.autograd.grad(both(x).sum(), x)[0])


def test_compiled_segments() -> None:
    def segments(x: Any, edges: Any) -> Any:
        return 2 * tcu.segment_cumsum(x, edges, reverse=True)

    function = compiled(segments)
    for edges in (EDGES, [0, 1, 12], [0, 5, 5, 5, 30]):
        x, given = tensor("float16", edges[-1]).requires_grad_(), torch.tensor(edges)
        result = function(x, given)
        assert torch.equal(result, segments(x, given))
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient, torch.autograd.grad(segments(x, given).sum(), x)[0])
    x = tensor("float32", 12)
    assert torch.equal(compiled(lambda x: tcu.segment_cumsum(x, EDGES))(x), tcu.segment_cumsum(x, EDGES))


def test_compiled_with_out_and_vmap() -> None:
    x, out = tensor("float16", 4, 300), torch.zeros(4, 300, dtype=torch.float16)
    result = compiled(lambda x, out: tcu.cumsum(x, 1, out=out))(x, out)
    same(result, tcu.cumsum(x, 1, dtype=torch.float16))
    same(out, tcu.cumsum(x, 1, dtype=torch.float16))
    batch = tensor("float32", 3, 4, 5)
    function = torch.vmap(lambda x: tcu.cumsum(x, 0))
    assert torch.equal(compiled(function)(batch), function(batch))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: tcu.cumsum(x, 0, return_info=True),
            "return_info and progress do not go through torch.compile",
        ),
        (lambda x: tcu.cumsum(x, 5), "axis 5 of an array with 3 axes"),
        (
            torch.func.jacrev(lambda x: tcu.cumsum(x, 0)),
            "under torch.func.grad or in forward mode does not go through",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_does_not_compile_says_why(function: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(function)(SMALL)
