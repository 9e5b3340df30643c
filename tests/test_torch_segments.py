"""Contract: sums of ragged segments of PyTorch tensors, and exact sums along axes, give tensors with the bits
that NumPy arrays give; their operators go through torch.compile, autograd and torch.func.

None of it needs a GPU.  The sums themselves are the business of tests/test_segment_sums.py and test_exact_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import same
from test_segments import REFUSED
from torch_support import compiled

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import host_view

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

SEGMENTS: dict[str, Callable[..., Any]] = {
    "sum": tcu.segment_sum, "mean": tcu.segment_mean, "fsum": tcu.segment_fsum, "fmean": tcu.segment_fmean,
}  # fmt: skip
ROWS: dict[str, Callable[..., Any]] = {"fsum": tcu.fsum, "fmean": tcu.fmean}
DTYPES = ("float16", "bfloat16", "float32", "float64")
OFFSETS = torch.tensor([0, 3, 3, 40, 41, 60])
CUTS = torch.tensor([0, 2, 5, 6])
"""Without empty segments, whose mean is NaN, of which no difference can be taken."""
SMALL = torch.arange(6, dtype=torch.float64) / 8

every_operation = pytest.mark.parametrize("name", SEGMENTS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def tensor(dtype: str, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(shape)).to(getattr(torch, dtype))


@every_operation
@every_dtype
def test_a_tensor_gives_a_tensor_with_the_bits_of_arrays(name: str, dtype: str) -> None:
    function, wide = SEGMENTS[name], tensor(dtype, 60, 2)
    for x in (wide[:, 0], wide[:, 1].contiguous(), tensor(dtype, 60).requires_grad_()):
        for offsets in (OFFSETS, OFFSETS.int(), OFFSETS.tolist()):
            result = function(x, offsets)
            expected = function(host_view(x), OFFSETS.numpy())
            assert type(result) is torch.Tensor
            assert str(result.dtype) == f"torch.{expected.dtype}"
            same(result, expected)
            assert result.requires_grad is x.requires_grad


@pytest.mark.parametrize("name", ROWS)
@every_dtype
def test_exact_sums_along_axes(name: str, dtype: str) -> None:
    whole = tensor(dtype, 5, 6, 70)
    for x in (whole, whole.permute(2, 0, 1), whole[::2, 1:], whole.clone().requires_grad_()):
        for axis in (0, -1, (0, 2), ()):
            for keepdims in (False, True):
                result = ROWS[name](x, axis, keepdims=keepdims)
                same(result, ROWS[name](host_view(x), axis, keepdims=keepdims))
                assert result.requires_grad is x.requires_grad
    out = torch.zeros(5, 6, dtype=torch.float64)
    assert ROWS[name](whole, axis=2, out=out) is out
    same(out, ROWS[name](host_view(whole), axis=2, dtype="float64"))


def test_options_reach_the_plan() -> None:
    x = tensor("float16", 500)
    options: dict[str, Any] = {"unit": "V100", "variant": "single-pass", "chain": 2, "block": 64}
    for given in (x, x.clone().requires_grad_()):
        result = tcu.segment_sum(given, [0, 100, 500], dtype=torch.float16, **options)
        same(result, tcu.segment_sum(host_view(x), [0, 100, 500], dtype="float16", **options))


@every_operation
def test_out(name: str) -> None:
    x = tensor("float32", 60)
    for offsets in (OFFSETS, OFFSETS.tolist()):
        out = torch.zeros(5, dtype=torch.float64)
        before = out._version
        assert SEGMENTS[name](x, offsets, out=out) is out
        same(out, SEGMENTS[name](host_view(x), OFFSETS.numpy(), dtype="float64"))
        assert out._version > before
        with pytest.raises(ParameterError, match=r"out has shape \(4,\), the result \(5,\)"):
            SEGMENTS[name](x, offsets, out=torch.zeros(4))
    with pytest.raises(ParameterError, match="x requires grad"):
        SEGMENTS[name](x.requires_grad_(), OFFSETS, out=torch.zeros(5))


def test_tensors_and_offsets_that_are_refused() -> None:
    for x in (SMALL, SMALL.clone().requires_grad_()):
        with pytest.raises(ShapeError, match="segments are cut from one line"):
            tcu.segment_sum(x.reshape(2, 3), CUTS)
        with pytest.raises(ParameterError, match="offsets end at 6, and x has 5 elements"):
            tcu.segment_sum(x[:5], CUTS)
        with pytest.raises(DtypeError, match="offsets has dtype float64"):
            tcu.segment_sum(x, CUTS.double())
    with pytest.raises(ShapeError, match=r"offsets has shape \(2, 2\): give one line of them"):
        tcu.segment_sum(SMALL, CUTS.reshape(2, 2), out=torch.zeros(3))
    with pytest.raises(DtypeError, match=r"x has dtype torch\.complex64"):
        tcu.segment_sum(SMALL.to(torch.complex64), CUTS)
    with pytest.raises(ParameterError, match="x is on the meta device and holds no numbers"):
        tcu.segment_sum(SMALL.to("meta"), CUTS)


@pytest.mark.parametrize(("offsets", "error", "message"), REFUSED)
def test_whoever_looks_at_offsets_refuses_the_same(
    offsets: Any, error: type[Exception], message: str
) -> None:
    x, count = SMALL[:5], len(offsets) - 1 if error is ParameterError else 1
    for call in (
        lambda: tcu.segment_sum(x, offsets),
        lambda: tcu.segment_sum(x, offsets, out=torch.zeros(count)),
        lambda: tcu.segment_sum(x.clone().requires_grad_(), offsets),
        lambda: tcu.segment_cumsum(x, offsets, out=torch.zeros(5)),
        lambda: tcu.segment_cumsum(x.clone().requires_grad_(), offsets),
    ):
        with pytest.raises(error, match=message):
            call()


def test_offsets_of_numpy_that_tensors_cannot_share() -> None:
    offsets = np.array([5, 2, 0])[::-1]
    offsets.flags.writeable = False
    for x in (SMALL[:5], SMALL[:5].clone().requires_grad_()):
        assert torch.equal(tcu.segment_sum(x, offsets), tcu.segment_sum(SMALL[:5], [0, 2, 5]))


def test_offsets_that_hold_no_numbers_or_lie_elsewhere_in_memory() -> None:
    far, x = torch.zeros(2, dtype=torch.int64, device="meta"), SMALL.clone().requires_grad_()
    for call in (
        lambda: tcu.segment_cumsum(x, far),
        lambda: tcu.segment_sum(x, far),
        lambda: tcu.segment_fsum(SMALL, far, out=torch.zeros(1, dtype=torch.float64)),
        lambda: torch.ops.tcu.segment_sum(SMALL, far),
        lambda: torch.ops.tcu.segment_cumsum(SMALL, far),
        lambda: torch.vmap(lambda line: tcu.segment_cumsum(line, far))(SMALL[None]),
    ):
        with pytest.raises(ParameterError, match="offsets is on the meta device and holds no numbers"):
            call()
    assert torch.ops.tcu.segment_sum(SMALL.to("meta"), far).shape == (1,)
    for given in (SMALL, x):
        with pytest.raises(DtypeError, match=r"offsets is a torch\.sparse_coo tensor: make it dense"):
            tcu.segment_sum(given, CUTS.to_sparse())
        with pytest.raises(DtypeError, match="offsets is a nested tensor"):
            tcu.segment_sum(given, torch.nested.nested_tensor([CUTS], layout=torch.jagged))


@pytest.mark.parametrize("function", [tcu.segment_sum, tcu.segment_fmean, tcu.segment_cumsum])
def test_batches_refuse_what_lines_refuse(function: Any) -> None:
    lines = torch.arange(8.0).reshape(2, 4)
    for edges, error, message in (
        (torch.tensor([0, 1, 4], dtype=torch.int8), DtypeError, "offsets has dtype int8"),
        (torch.tensor([[0, 1, 4], [0, 2, 4]]), ShapeError, r"offsets has shape \(2, 3\)"),
        (torch.tensor([0, 1, 5]), ParameterError, "offsets end at 5, and x has 4 elements"),
        (torch.tensor([0.0, 4.0]), DtypeError, "offsets has dtype float32"),
    ):
        for batch in (lines, lines[:0]):
            if error is ParameterError and not len(batch):
                continue  # nobody's numbers
            with pytest.raises(error, match=message):
                torch.vmap(lambda line: function(line, edges))(batch)  # noqa: B023


def test_lengths_that_16_bits_do_not_have() -> None:
    for dtype, length in ((torch.float16, 70_000), (torch.bfloat16, 257)):
        for function in (tcu.segment_mean, tcu.segment_fmean):
            x = torch.ones(2 * length, requires_grad=True)
            function(x, [0, length, 2 * length], dtype=dtype).sum().backward()
            assert torch.equal(x.grad, torch.full_like(x, 1 / length))


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_masked_tensors_are_refused() -> None:
    masked = torch.masked.masked_tensor(SMALL, SMALL > 0.2)
    for call in (
        lambda: tcu.segment_sum(masked, CUTS), lambda: tcu.cumsum(masked), lambda: tcu.fsum(masked),
        lambda: tcu.sum(masked, axis=0),
    ):  # fmt: skip
        with pytest.raises(DtypeError, match=r"x is a masked tensor: sum x\.to_tensor\(0\)"):
            call()


def test_an_out_that_negates_its_memory() -> None:
    out = torch.zeros(3, dtype=torch.complex64).conj().imag
    for call in (
        lambda: tcu.cumsum(torch.ones(3), out=out),
        lambda: tcu.sum(torch.ones(3, 2), axis=1, out=out),
        lambda: tcu.fsum(torch.ones(3, 2), axis=1, out=out),
        lambda: tcu.segment_sum(torch.ones(3), [0, 1, 2, 3], out=out),
        lambda: tcu.sum(torch.ones(3), out=out[0]),
    ):
        with pytest.raises(ParameterError, match="out is a view that negates the numbers in memory"):
            call()


# Gradients and transformations.


@every_operation
def test_derivatives(name: str) -> None:
    def function(x: Any) -> Any:
        return SEGMENTS[name](x, CUTS)

    x = SMALL.clone().requires_grad_()
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, x)
    assert torch.allclose(torch.func.jvp(function, (SMALL,), (SMALL,))[1], function(SMALL))
    batch = torch.stack([SMALL, 2 * SMALL])
    assert torch.equal(torch.vmap(function)(batch), torch.stack([function(each) for each in batch]))
    assert torch.equal(torch.vmap(function, in_dims=1)(batch.T), torch.vmap(function)(batch))
    one = torch.func.jacrev(function)(SMALL)
    assert torch.equal(torch.vmap(torch.func.jacrev(function))(batch)[1], one)


@every_operation
def test_no_derivative_flows_through_an_empty_segment(name: str) -> None:
    """Its mean is NaN whatever x is; one NaN among derivatives would reach every element."""

    def function(x: Any) -> Any:
        return SEGMENTS[name](x, torch.tensor([0, 0, 2, 2, 5, 6, 6]))

    def without_nan(x: Any) -> Any:
        return function(x).nan_to_num() ** 3

    x = SMALL.clone().requires_grad_()
    assert torch.autograd.gradcheck(without_nan, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(without_nan, x)
    forward, backward = torch.func.jacfwd(function)(SMALL), torch.func.jacrev(function)(SMALL)
    assert torch.equal(forward, backward)
    assert torch.equal(backward[[0, 2, 5]], torch.zeros(3, 6, dtype=torch.float64))


@every_operation
def test_vmap_over_offsets_and_over_nothing(name: str) -> None:
    function = SEGMENTS[name]
    both = torch.stack([CUTS, torch.tensor([0, 1, 1, 6])])
    alone = torch.stack([function(SMALL, each) for each in both])
    same(torch.vmap(function, in_dims=(None, 0))(SMALL, both), alone)
    batch = torch.stack([SMALL, SMALL])
    same(torch.vmap(function)(batch, both), alone)
    assert torch.vmap(function, in_dims=(0, None))(batch[:0], CUTS).shape == (0, 3)
    assert torch.vmap(function)(batch[:0], both[:0]).shape == (0, 3)


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_along_axes(name: str) -> None:
    x = (torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) / 8).requires_grad_()
    for axis in (1, (0, 2)):
        assert torch.autograd.gradcheck(lambda x, axis=axis: ROWS[name](x, axis), x, check_forward_ad=True)
    batch = torch.stack([x.detach(), 2 * x.detach()])
    function = lambda x: ROWS[name](x, 1)  # noqa: E731
    assert torch.equal(torch.vmap(function)(batch)[1], function(batch[1]))


@every_operation
def test_gradients_have_the_dtype_of_x_and_go_to_every_element(name: str) -> None:
    for dtype in DTYPES:
        x = tensor(dtype, 60).requires_grad_()
        weights = torch.tensor([1.0, 50, 4, 2, 8])
        result, lengths = SEGMENTS[name](x, OFFSETS), OFFSETS.diff()
        weights = weights.to(result.dtype)
        (result * weights)[[0, 2, 3, 4]].sum().backward()
        expected = weights / lengths if "mean" in name else weights
        assert x.grad.dtype is x.dtype
        assert torch.equal(x.grad, expected.to(x.dtype).repeat_interleave(lengths))


# Operators.


@every_operation
def test_opcheck(name: str) -> None:
    tcu.segment_sum(SMALL, CUTS)
    operator = getattr(torch.ops.tcu, f"segment_{name}").default
    for x in (tensor("float16", 6), tensor("float64", 6), tensor("float32", 6).requires_grad_()):
        torch.library.opcheck(operator, (x, CUTS))
        torch.library.opcheck(operator, (x, CUTS, False), {"dtype": torch.float64})


@pytest.mark.parametrize("name", ROWS)
def test_opcheck_along_axes(name: str) -> None:
    tcu.fsum(SMALL, axis=0)
    operator = getattr(torch.ops.tcu, f"{name}_along").default
    for x in (tensor("float16", 4, 6, 5), tensor("float32", 4, 6).T.requires_grad_()):
        torch.library.opcheck(operator, (x, [0]))
        torch.library.opcheck(operator, (x, [1], True), {"dtype": torch.float64})


def test_fake_tensors_have_a_shape_and_a_dtype() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for name, function in SEGMENTS.items():
            result = function(torch.empty(60, dtype=torch.float16), torch.empty(6, dtype=torch.int64))
            assert (result.shape, result.dtype) == ((5,), torch.float32), name
    meta = torch.ops.tcu.segment_sum(
        torch.empty(3, device="meta"), torch.empty(2, dtype=torch.int64, device="meta"), dtype=torch.float16
    )
    assert (meta.device.type, meta.dtype, meta.shape) == ("meta", torch.float16, (1,))


@every_operation
def test_compiled_whole(name: str) -> None:
    def plain(x: Any, offsets: Any) -> Any:
        return SEGMENTS[name](2 * x, offsets) + SEGMENTS[name](x, offsets)

    function = compiled(plain)
    for cuts in (
        CUTS,
        torch.tensor([0, 4, 9]),
        torch.tensor([0, 10, 100, 101, 1000]),
    ):  # lengths become symbols
        x = tensor("float32", int(cuts[-1])).requires_grad_()
        result = function(x, cuts)
        assert torch.equal(result, plain(x, cuts))
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient, torch.autograd.grad(plain(x, cuts).sum(), x)[0])


def test_compiled_with_out_and_along_axes() -> None:
    x, out = tensor("float16", 60), torch.zeros(5, dtype=torch.float16)
    result = compiled(lambda x, out: tcu.segment_sum(x, OFFSETS, out=out, unit="V100"))(x, out)
    expected = tcu.segment_sum(x, OFFSETS, dtype=torch.float16, unit="V100")
    same(result, expected)
    same(out, expected)
    y = tensor("float32", 6, 10)
    assert torch.equal(compiled(lambda y: tcu.fsum(y, axis=0))(y), tcu.fsum(y, axis=0))
