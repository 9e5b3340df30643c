"""Contract: in tcu.torch.reproducible, PyTorch's own operators are executed by tcu's, and so are their gradients.

Each covered operator, called as programs call it, gives what PyTorch gives up to rounding, without an operator that is
named as uncovered; a row has the same bits in every batch, forward and backward.  What is not covered is named,
and raises where the mode is strict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import pytest
from bits import same

import tcu
from tcu.errors import ParameterError
from tcu.ops import OPERATIONS

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
import tcu.torch  # noqa: E402  after PyTorch was found
from tcu.surfaces.torch import replacements  # noqa: E402

functional = torch.nn.functional
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, w, b: x.sum(-1) + x.sum() * 0,
    "mean": lambda x, w, b: x.mean(-1, keepdim=True),
    "var": lambda x, w, b: x.var(-1) + torch.var_mean(x, -1)[1],
    "std": lambda x, w, b: x.std(-1, correction=0) + torch.std_mean(x, -1)[0],
    "norm": lambda x, w, b: torch.linalg.vector_norm(x, dim=-1) + torch.norm(x, dim=1),
    "cumsum": lambda x, w, b: x.cumsum(-1),
    "softmax": lambda x, w, b: x.softmax(-1),
    "log_softmax": lambda x, w, b: x.log_softmax(-1),
    "logsumexp": lambda x, w, b: x.logsumexp(-1) + torch.logsumexp(x, dim=1),
    "layer_norm": lambda x, w, b: functional.layer_norm(x, (24,), w[0], w[1]),
    "rms_norm": lambda x, w, b: functional.rms_norm(x, (24,), w[0]),
    "linear": lambda x, w, b: functional.linear(x, w, b),
    "matmul": lambda x, w, b: x @ w.t(),
    "bmm": lambda x, w, b: torch.bmm(x.unsqueeze(1), w.t().expand(len(x), 24, 10)),
    "addmm": lambda x, w, b: torch.addmm(x[:, :10], x, w.t(), beta=2, alpha=3),
    "attention": lambda x, w, b: functional.scaled_dot_product_attention(*[x.view(-1, 1, 3, 8)] * 3, is_causal=True),
    "square": lambda x, w, b: x.pow(2) * (x * x + 1).rsqrt(),
}  # fmt: skip


def drawn(dtype: Any) -> tuple[Any, ...]:
    rng = torch.Generator().manual_seed(2)
    shapes = ((32, 24), (10, 24), (10,))
    return tuple(torch.randn(shape, generator=rng).to(dtype).requires_grad_() for shape in shapes)


def result_and_gradient(function: Any, x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    x = x.detach().clone().requires_grad_()
    found = function(x, w, b)
    return found.detach(), torch.autograd.grad(found, x, torch.ones_like(found) * 0.5)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_has_the_same_bits_in_every_batch(name: str, dtype: Any) -> None:
    x, w, b = drawn(dtype)
    expected = result_and_gradient(FUNCTIONS[name], x.double(), w.double(), b.double())
    with tcu.torch.reproducible(strict=True):
        whole = result_and_gradient(FUNCTIONS[name], x, w, b)
        for rows in (slice(7, 8), slice(3, 5), slice(0, 31)):
            part = result_and_gradient(FUNCTIONS[name], x[rows], w, b)
            for found, all_rows in zip(part, whole, strict=True):
                if name != "sum" or found.dim() == 2:
                    same(found.contiguous(), all_rows[rows].contiguous(), name, rows)
    for found, wanted in zip(whole, expected, strict=True):
        assert found.dtype == dtype
        tolerance = 1e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=5 * tolerance)


def test_operators_of_the_same_names_are_those_of_the_table() -> None:
    assert {"sum", "mean", "var", "std", "var_mean", "std_mean"} <= replacements.OPERATORS.keys()
    moments = [each.name for each in OPERATIONS.values() if each.moments and not each.exact]
    x = drawn(torch.float32)[0].detach()
    with tcu.torch.reproducible(strict=True):
        for name, unbiased, keepdim in product(moments, (False, True), (False, True)):
            spread, mean = getattr(torch, f"{name}_mean")(x, 1, unbiased, keepdim)
            same(spread, getattr(tcu, name)(x, 1, correction=float(unbiased), keepdim=keepdim))
            same(mean, tcu.mean(x, 1, keepdim=keepdim))
            same(getattr(torch, f"{name}_mean")(x)[0], getattr(torch, name)(x))


def test_losses_and_gradients_of_weights() -> None:
    """Whose order of the rows has no say, as their sums are exact."""
    x, w, _ = drawn(torch.float32)
    target = torch.arange(32) % 10
    target[5] = -100

    def loss(order: Any, smoothing: float) -> list[Any]:
        normed = functional.layer_norm(x[order], (24,), scale, shift)
        found = functional.cross_entropy(
            functional.linear(normed, w), target[order], label_smoothing=smoothing
        )
        return [found.detach(), *torch.autograd.grad(found, (scale, shift))]

    scale, shift = (torch.randn(24, requires_grad=True) for _ in range(2))
    order = torch.randperm(32)
    for smoothing in (0.0, 0.1):
        plain = loss(torch.arange(32), smoothing)
        with tcu.torch.reproducible(strict=True):
            found = loss(torch.arange(32), smoothing)
            for each, other in zip(found, loss(order, smoothing), strict=True):
                same(each, other)
        for each, wanted in zip(found, plain, strict=True):
            torch.testing.assert_close(each, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cross_entropy_is_that_of_tcu(dtype: Any) -> None:
    """Of classes along the second axis, of one row too; with weights and with shares of classes PyTorch's, of covered parts."""
    x = drawn(dtype)[0].detach().requires_grad_()
    target = torch.arange(32) % 24
    shaped = x.view(4, 8, 24).transpose(1, 2)
    with tcu.torch.reproducible(strict=True):
        for reduction in ("none", "sum", "mean"):
            found = functional.cross_entropy(x, target, reduction=reduction)
            same(found.detach(), tcu.cross_entropy(x, target, reduction=reduction).detach().to(dtype))
        found = functional.cross_entropy(shaped, target.view(4, 8), label_smoothing=0.1)
        same(found.detach(), tcu.cross_entropy(x, target, label_smoothing=0.1).detach().to(dtype))
        same(
            functional.cross_entropy(x[3], target[3]).detach(),
            tcu.cross_entropy(x[3], target[3]).detach().to(dtype),
        )
        shares = x.detach().softmax(1)
        found = functional.cross_entropy(x, shares)
    torch.testing.assert_close(found, functional.cross_entropy(x, shares), rtol=1e-2, atol=1e-3)


def grid(index: Any) -> Any:
    """Not expanded: PyTorch 2.13 adds to all columns of a wider tensor then."""
    return index[:, None].repeat(1, 24)


BY_INDEX: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, index: torch.ones(7, 24, dtype=x.dtype).index_add(0, index, x),
    "index_add_ along columns": lambda x, index: torch.ones(24, 7, dtype=x.dtype).index_add_(1, index, x.t()),
    "scatter_add": lambda x, index: torch.ones(7, 30, dtype=x.dtype).scatter_add(0, grid(index), x),
    "scatter_add of a part": lambda x, index: torch.ones(9, 24, dtype=x.dtype).scatter_add_(
        0, grid(index)[:20, :5], x
    ),
    "scatter_add along rows": lambda x, index: torch.ones(30, 7, dtype=x.dtype).scatter_add(
        1, grid(index).t(), x.t()
    ),
    "index_put": lambda x, index: torch.ones(7, 24, dtype=x.dtype).index_put((index,), x, accumulate=True),
    "index_put of pairs": lambda x, index: torch.ones(7, 3, dtype=x.dtype).index_put_(
        (index - 7, index % 3), x[:, 0], accumulate=True
    ),
    "gradient of an embedding": lambda x, index: gradient_of(
        lambda table: functional.embedding(index, table, padding_idx=2), torch.zeros(7, 24, dtype=x.dtype), x
    ),
    "gradient of rows": lambda x, index: gradient_of(
        lambda table: table[index], torch.zeros(7, 24, dtype=x.dtype), x
    ),
    "gradient of index_select": lambda x, index: gradient_of(
        lambda table: table.index_select(0, index), torch.zeros(7, 24, dtype=x.dtype), x
    ),
    "gradient of gather": lambda x, index: gradient_of(
        lambda table: table.gather(0, grid(index)), torch.zeros(7, 24, dtype=x.dtype), x
    ),
}


def gradient_of(function: Any, table: Any, upstream: Any) -> Any:
    table.requires_grad_()
    return torch.autograd.grad(function(table), table, upstream)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", BY_INDEX)
def test_sums_by_index_know_no_order(name: str, dtype: Any) -> None:
    x = drawn(dtype)[0].detach()
    index = torch.arange(32) ** 2 % 7
    wanted = BY_INDEX[name](x.double(), index)
    order = torch.arange(32) if name.endswith("part") else torch.randperm(32)
    with tcu.torch.reproducible(strict=True):
        found = BY_INDEX[name](x, index)
        same(BY_INDEX[name](x[order], index[order]), found)
    assert found.dtype == dtype
    # Rounded once: what PyTorch finds in binary64 errs far less.
    same(found, wanted.to(dtype))


def test_infinities_that_meet_make_nan_as_in_pytorch() -> None:
    x = torch.ones(4, 3)
    x[0, 2], x[1, 2], x[3, 1] = float("inf"), -float("inf"), float("inf")
    index = torch.tensor([0, 0, 1, 1])
    with tcu.torch.reproducible(strict=True):
        found = torch.zeros(2, 3).index_add(0, index, x)
        rows = gradient_of(lambda table: functional.embedding(index, table), torch.zeros(2, 3), x)
    inf = float("inf")
    assert found.isnan().tolist() == rows.isnan().tolist() == [[False, False, True], [False] * 3]
    assert found[~found.isnan()].tolist() == [2, 2, 2, inf, 2]


TRANSFORMS: dict[str, tuple[Any, Any]] = {
    **{
        f"{name}, {norm}": (partial(getattr(torch.fft, name), norm=norm), partial(getattr(tcu.fft, name), norm=norm))
        for name in tcu.fft.__all__
        if name.endswith(("fft", "fft2", "fftn"))
        for norm in ("backward", "ortho", "forward")
    },
    "fft of a longer axis": (partial(torch.fft.fft, n=12, dim=0), partial(tcu.fft.fft, n=12, axis=0)),
    "irfft of odd length": (partial(torch.fft.irfft, n=7), partial(tcu.fft.irfft, n=7)),
    "fftn of two axes": (partial(torch.fft.fftn, dim=(0, 2)), partial(tcu.fft.fftn, axes=(0, 2))),
    "fftshift": (torch.fft.fftshift, tcu.fft.fftshift),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_those_of_tcu(name: str, dtype: Any) -> None:
    theirs, own = TRANSFORMS[name]
    if dtype.is_complex and name.startswith(("rfft", "ihfft")):
        dtype = torch.float64
    x = torch.randn(3, 10, 8, dtype=dtype, generator=torch.Generator().manual_seed(4))
    found, wanted = [], []
    for function, results in ((theirs, found), (own, wanted)):
        given = x.clone().requires_grad_()
        with tcu.torch.reproducible(strict=True) if function is theirs else nullcontext():
            y = function(given)
            results += [y.detach(), torch.autograd.grad(y, given, torch.ones_like(y))[0]]
    assert found[0].dtype == theirs(x).dtype
    torch.testing.assert_close(found[0], theirs(x))
    bits = [
        torch.view_as_real(each.resolve_conj()) if each.is_complex() else each
        for each in (found[0], wanted[0])
    ]
    if name.startswith("ifft,") and not dtype.is_complex:
        bits = [each + 0.0 for each in bits]  # PyTorch mirrors the forward one, and zeros have another sign
    same(*bits)
    torch.testing.assert_close(found[1], wanted[1])


def test_windows_of_a_signal_are_transformed_alone() -> None:
    x, window = torch.randn(1000), torch.hann_window(64)
    with tcu.torch.reproducible(strict=True):
        found = torch.stft(x, 64, 16, window=window, center=False, return_complex=True)
    rows = x.unfold(0, 64, 16) * window
    same(torch.view_as_real(found), torch.view_as_real(tcu.fft.rfft(rows).t()).contiguous())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_quotient_by_one_number_is_rounded_once(dtype: Any) -> None:
    x = torch.randn(300).to(dtype)
    wanted = (x.double() / 49).to(dtype)
    with tcu.torch.reproducible(strict=True):
        same(x / 49, wanted)
        same(x / torch.tensor(49.0), wanted)
        same(x.clone().div_(49), wanted)
        assert (torch.ones(2, dtype=torch.int64) / 2).dtype == torch.float32


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x // y, lambda x, y: torch.div(x, y, rounding_mode="trunc"), torch.fmod, torch.remainder,
        lambda x, y: torch.div(x, 0.5, rounding_mode="floor"),
    ],
    ids=["floor_divide", "trunc", "fmod", "remainder", "floor"],
)  # fmt: skip
def test_quotients_that_are_whole_are_named(function: Callable[..., Any]) -> None:
    """PyTorch computes them otherwise in the last numbers of a tensor: 9 of 64 of bfloat16 had other bits alone."""
    x, y = torch.randn(2, 64)
    for kind in (torch.bfloat16, torch.float32):
        with tcu.torch.reproducible() as mode:
            function(x.to(kind), y.to(kind))
        assert len(mode.uncovered) == 1
    with tcu.torch.reproducible(strict=True), pytest.raises(ParameterError, match="its bits may depend"):
        function(x, y)


def test_quotients_of_whole_numbers_that_are_whole_are_exact() -> None:
    x, y = torch.arange(-4, 5), torch.full((9,), 3)
    with tcu.torch.reproducible(strict=True):
        assert (x // y).tolist() == [-2, -1, -1, -1, 0, 0, 0, 1, 1]
        assert torch.fmod(x, y).tolist() == [-1, 0, -2, -1, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("name", ["i0", "erfcx", "ndtri", "zeta", "bessel_j0", "log_ndtr", "expit"])
def test_functions_of_whole_numbers_that_a_library_computes_are_named(name: str) -> None:
    function, whole = getattr(torch.special, name), torch.arange(1, 5)
    given = (whole, whole) if name == "zeta" else (whole,)
    with tcu.torch.reproducible() as mode:
        found = function(*given)
    assert found.is_floating_point()
    assert len(mode.uncovered) == 1
    with tcu.torch.reproducible(strict=True), pytest.raises(ParameterError, match="its bits may depend"):
        function(*given)


def test_what_is_not_covered_of_complex_numbers_is_named() -> None:
    x = torch.randn(4, 3, dtype=torch.complex64)
    with tcu.torch.reproducible() as mode:
        x + x, x - 1, x.conj().resolve_conj(), x.real * x.imag, x * 2, x * x.real
        assert not mode.uncovered
        x * x, x.abs(), x.sum()
    assert mode.uncovered == {"aten.mul.Tensor", "aten.abs.default", "aten.sum.default"}


def _written(function: Callable[..., Any], out: Any) -> tuple[Any, set[str]]:
    with tcu.torch.reproducible() as mode:
        result = function(out)
    assert result is out
    return out, mode.uncovered


@pytest.mark.parametrize("name", ["sum", "mean", "cumsum", "var", "logsumexp"])
def test_results_go_to_out(name: str) -> None:
    """As PyTorch has it, also of another shape, or where it is x."""
    x = torch.randn(4, 4)
    with tcu.torch.reproducible():
        wanted = getattr(torch, name)(x, 0)
    for out in (torch.empty_like(wanted), torch.empty(0)):
        found, uncovered = _written(lambda out: getattr(torch, name)(x, 0, out=out), out)
        assert torch.equal(found, wanted)
        assert uncovered <= {"aten.resize_.default"}
    if wanted.shape == x.shape:
        found, _ = _written(lambda out: getattr(torch, name)(out, 0, out=out), x.clone())
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, **out: torch.mm(x, x, **out),
        lambda x, **out: torch.matmul(x, x, **out),
        lambda x, **out: torch.addmm(x, x, x, **out),
        lambda x, **out: torch.linalg.vector_norm(x, **out),
        lambda x, **out: torch.div(x, 3.0, **out),
        lambda x, **out: torch.index_add(x, 0, torch.tensor([0, 1]), x[:2], **out),
    ],
)
def test_products_and_others_go_to_out(function: Callable[..., Any]) -> None:
    x = torch.randn(4, 4)
    with tcu.torch.reproducible():
        wanted = function(x)
    found, uncovered = _written(lambda out: function(x, out=out), torch.empty_like(wanted))
    assert torch.equal(found, wanted)
    assert not uncovered


def test_out_of_another_dtype_is_left_to_pytorch() -> None:
    x = torch.randn(4, 4)
    found, uncovered = _written(lambda out: torch.sum(x, 0, out=out), torch.empty(4, dtype=torch.float64))
    assert torch.allclose(found, x.double().sum(0))
    assert uncovered == {"aten.sum.IntList_out"}


def test_sums_by_index_lie_as_pytorch_has_them() -> None:
    index, x = torch.tensor([0, 1, 0, 2]), torch.randn(4, 6)
    with tcu.torch.reproducible():
        assert torch.zeros(3, 6).index_add(0, index, x).is_contiguous()
        assert torch.zeros(6, 3).index_add(1, index, x.T).is_contiguous()


def test_what_is_not_covered_is_named() -> None:
    x = torch.randn(5)
    with tcu.torch.reproducible() as mode:
        same(x.exp(), torch.exp(x))
        torch.zeros(3).index_add(0, torch.tensor([0, 0, 1, 2, 2]), x, alpha=3)
        torch.add(x, x, alpha=3)
        x.long().sum(), x + x, x[None].sum(1), x.norm(p=2)
    assert mode.uncovered == {"aten.exp.default", "aten.index_add.default", "aten.add.Tensor"}
    with tcu.torch.reproducible() as mode:
        x.norm(p=3)
    assert mode.uncovered == {"aten.linalg_vector_norm.default"}
    with (
        tcu.torch.reproducible(strict=True),
        pytest.raises(
            ParameterError,
            match=r"aten\.exp\.default is not among the operators that tcu\.torch\.reproducible covers",
        ),
    ):
        x.exp()


# What moves numbers, selects them, compares them, or makes one operation of each


def _assigned(x: Any, places: Any, values: Any) -> Any:
    found = x.clone()
    found[places] = values
    return found


ROW = torch.tensor([2, 0, 1])
MAPS: dict[str, Callable[[Any], Any]] = {
    "scatter": lambda x: torch.zeros_like(x).scatter(1, torch.arange(23, -1, -1).expand(x.shape), x) + x.scatter(1, ROW[None, :1], 2.0),
    "index_put": lambda x: _assigned(x, ROW, x[:3] * 2) + _assigned(x, x > 0, 1.0),
    "topk": lambda x: torch.cat((x.topk(5, -1)[0], x.kthvalue(2, -1, keepdim=True)[0], x.median(-1, keepdim=True)[0]), -1),
    "rsub": lambda x: 1 - x + torch.rsub(x, 2 * x),
    "prelu": lambda x: functional.prelu(x, x.new_tensor([0.25])) + functional.leaky_relu(x) + functional.relu6(x),
    "shrinking": lambda x: functional.hardshrink(x) + functional.threshold(x, 0.5, 2.0) + torch.frac(x),
    "pixel_shuffle": lambda x: functional.pixel_unshuffle(functional.pixel_shuffle(x.view(-1, 4, 2, 3), 2), 2),
    "chunks": lambda x: torch.cat(torch.unsafe_chunk(x, 3, -1)[::-1], -1) + torch.cat(x.unsafe_split(5, -1), -1),
    "dropout": lambda x: functional.dropout(x, 0.5) + torch.native_dropout(x, 0.5, True)[0],
}  # fmt: skip
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "unique": lambda x: torch.cat((x.unique(), x.unique(dim=0).ravel(), x.ravel().unique_consecutive())),
    "max_pool": lambda x: torch.cat(
        (functional.max_pool2d(x.view(-1, 1, 4, 6), 3, 1).ravel(), functional.adaptive_max_pool1d(x, 12).ravel())
    ),
    "interpolate": lambda x: torch.cat(
        [functional.interpolate(x.view(-1, 1, 4, 6), scale_factor=1.5, mode=each) for each in ("nearest", "nearest-exact")]
    ),
    "pad": lambda x: functional.pad(x.view(-1, 1, 4, 6), (1, 1, 1, 1), mode="reflect"),
    "unfold": lambda x: functional.unfold(x.view(-1, 1, 4, 6), 2),
    "mode": lambda x: x.round().mode(-1)[0] + x.aminmax(dim=-1)[0],
    "take": lambda x: x.take(ROW) + x.put(ROW, x[0, :3])[0, :3],
    "in place": lambda x: x.clone().abs_().floor_().add_(x).masked_fill_(x > 1, 2.0).clamp_(-2, 2).rot90().signbit(),
}  # fmt: skip
"""Of whose gradients some add numbers up."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MAPS)
def test_what_moves_or_selects_numbers_is_pytorchs_own_with_its_gradient(name: str, dtype: Any) -> None:
    x, given = (each.detach() for each in drawn(dtype)[:1] * 2)
    found = []
    for context in (nullcontext(), tcu.torch.reproducible(strict=True)):
        x = x.clone().requires_grad_()
        torch.manual_seed(3)
        with context:
            result = MAPS[name](x)
            found.append(
                (
                    result.detach(),
                    torch.autograd.grad(result, x, given.view(-1)[: result.numel()].view(result.shape))[0],
                )
            )
    for plain, mine in zip(*found, strict=True):
        same(mine, plain, name)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", SELECTIONS)
def test_what_selects_numbers_is_pytorchs_own(name: str, inference: bool) -> None:
    x = drawn(torch.float32)[0].detach()
    with tcu.torch.reproducible(strict=True), torch.inference_mode(inference):
        found = SELECTIONS[name](x)
    same(found, SELECTIONS[name](x), name)


ADDING: dict[str, Callable[[Any], Any]] = {
    "aten.scatter.reduce": lambda x: x.scatter(0, ROW[None, :1], x, reduce="add"),
    "aten.scatter_.value_reduce": lambda x: x.clone().scatter_(0, ROW[None, :1], 2.0, reduce="add"),
    "aten.scatter_reduce.two": lambda x: x.scatter_reduce(0, ROW[None, :1], x, "mean"),
    "aten.put.default": lambda x: x.put(ROW, x[0, :3], accumulate=True),
    "aten.index_put.default": lambda x: x.index_put((x > 0,), x.new_tensor(1.0), accumulate=True),
    "aten.rsub.Tensor": lambda x: torch.rsub(x, x, alpha=3),
    "aten.add_.Tensor": lambda x: x.clone().add_(x, alpha=3),
    "aten.avg_pool2d.default": lambda x: functional.avg_pool2d(x.view(-1, 1, 4, 6), 2),
    "aten.upsample_bilinear2d.default": lambda x: functional.interpolate(x.view(-1, 1, 4, 6), scale_factor=2, mode="bilinear"),
    "aten.col2im.default": lambda x: functional.fold(x.view(-1, 4, 6), (3, 4), 2),
    "aten.sigmoid_.default": lambda x: x.clone().sigmoid_(),
    "aten.max_pool2d_with_indices_backward.default": lambda x: _gradient(lambda x: functional.max_pool2d(x.view(-1, 1, 4, 6), 3, 1), x),
    "aten.upsample_nearest2d_backward.default": lambda x: _gradient(
        lambda x: functional.interpolate(x.view(-1, 1, 4, 6), scale_factor=2), x
    ),
    "aten.reflection_pad1d_backward.default": lambda x: _gradient(lambda x: functional.pad(x, (1, 1), mode="reflect"), x),
}  # fmt: skip


def _gradient(function: Callable[[Any], Any], x: Any) -> Any:
    x = x.clone().requires_grad_()
    found = function(x)
    return torch.autograd.grad(found, x, torch.ones_like(found))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_squares_and_largest_magnitudes_are_exact(dtype: torch.dtype) -> None:
    """Of every place of a vector: as many products, or numbers chosen; other powers and norms are none."""
    for n in (1, 7, 64, 1003):
        x = torch.randn(n, dtype=torch.float64).to(dtype).requires_grad_()
        with tcu.torch.reproducible(strict=True):
            assert torch.equal(x.pow(2), x * x)
            assert torch.equal(x.square(), x * x)
            assert torch.equal(x**1, x)
            assert torch.equal(x**0, torch.ones_like(x))
            assert torch.equal(x.detach().clone().pow_(2), x * x)
            assert torch.linalg.vector_norm(x, math.inf) == x.abs().max()
            assert torch.linalg.vector_norm(x, -math.inf) == x.abs().min()
            (slope,) = torch.autograd.grad(x.pow(2).sum(), x)
            assert torch.equal(slope, x + x)
    for call in (
        lambda: x**4,
        lambda: x.pow(x),
        lambda: 2**x,
        lambda: torch.linalg.vector_norm(x, 3),
        lambda: (x.float() + 0j) ** 2,
    ):
        with (
            tcu.torch.reproducible(strict=True),
            pytest.raises(ParameterError, match="not among the operators"),
        ):
            call()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 1.0, 2.0, 3.0])
def test_powers_have_the_formats_of_pytorch(exponent: float) -> None:
    for x in (
        torch.arange(5),
        torch.arange(5, dtype=torch.uint8),
        torch.tensor([True, False]),
        torch.arange(5.0).half(),
    ):
        wanted = x**exponent
        with tcu.torch.reproducible(strict=True):
            same(x**exponent, wanted)
            if torch.can_cast(wanted.dtype, x.dtype):
                same(x.clone().pow_(exponent), wanted.to(x.dtype))
            else:
                with pytest.raises(RuntimeError, match="can't be cast"):
                    x.clone().pow_(exponent)


def test_what_pytorch_refuses_it_says_itself() -> None:
    x = torch.randn(4, 5)
    with tcu.torch.reproducible(strict=True), pytest.raises(RuntimeError, match="same dtype"):
        x.double() @ x.T
    before = x.clone()
    with tcu.torch.reproducible(strict=True), pytest.raises(ParameterError, match="not among the operators"):
        x.tan_()
    assert torch.equal(x, before)


@pytest.mark.filterwarnings(
    "ignore:The reduce argument of torch.scatter"
)  # which PyTorch will have no longer
@pytest.mark.parametrize("name", ADDING)
def test_operators_that_add_are_named_beside_those_that_do_not(name: str) -> None:
    x = drawn(torch.float32)[0].detach()
    with tcu.torch.reproducible() as mode:
        ADDING[name](x)
    assert mode.uncovered == {name}
    with tcu.torch.reproducible(strict=True), pytest.raises(ParameterError, match="not among the operators"):
        ADDING[name](x)


def test_marks_of_an_optimizer_are_not_named() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    with tcu.torch.reproducible() as mode:
        torch.optim.SGD([weight], lr=0.5).step()
    assert mode.uncovered == {"aten.add_.Tensor"}, "its sum of a weight and a product, which may be an FMA"


def test_it_is_switched_on_and_off() -> None:
    x = torch.randn(4, 100)
    plain = x.sum(1)
    mode = tcu.torch.set_reproducible(True)
    try:
        same(x.sum(1), tcu.sum(x, 1))
        x.exp()
        assert mode is not None
        assert mode.uncovered == {"aten.exp.default"}
        again = tcu.torch.set_reproducible(True, strict=True)
        assert again is not mode
        with pytest.raises(ParameterError, match="leave strict out"):
            x.exp()
    finally:
        assert tcu.torch.set_reproducible(False) is None
    x.exp()
    same(x.sum(1), plain)


# What strides, batches of vmap and inference mode take apart


def encoder() -> Any:
    torch.manual_seed(0)
    found = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    for name, each in found.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(each)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_linear_layer_rounds_its_bias_once_however_rows_lie(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    layer, x = torch.nn.Linear(33, 17).to(dtype), torch.randn(7, 12, 33).to(dtype)
    with tcu.torch.reproducible(strict=True):
        whole = layer(x)
        assert torch.equal(layer(x.transpose(0, 1)).transpose(0, 1), whole)
        assert torch.equal(torch.func.vmap(layer)(x), whole)
        assert torch.equal(torch.func.vmap(torch.func.vmap(layer))(x), whole)
        assert torch.equal(layer(x[3, 5]), whole[3, 5])
        assert layer(x[:0]).shape == (0, 12, 17)
    if dtype is torch.float32:
        exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
        assert torch.equal(whole, exact.to(dtype)), "one rounding"


def test_gradients_of_a_linear_layer_do_not_depend_on_strides() -> None:
    torch.manual_seed(1)
    layer, x, g = torch.nn.Linear(33, 17), torch.randn(7, 12, 33), torch.randn(7, 12, 17)
    found = []
    for way in (lambda x: x, lambda x: x.transpose(0, 1)):
        leaf = x.clone().requires_grad_()
        with tcu.torch.reproducible(strict=True):
            found.append(torch.autograd.grad((way(layer(way(leaf))) * g).sum(), [leaf, *layer.parameters()]))
    assert torch.equal(found[0][0], found[1][0])
    assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True)), (
        "weights, whose rows have another order"
    )


def test_attention_and_an_encoder_have_the_same_bits_in_every_batch() -> None:
    layer, x = encoder(), torch.randn(7, 12, 32, generator=torch.Generator().manual_seed(2))
    with tcu.torch.reproducible(strict=True) as mode:
        assert torch.equal(layer(x)[2:3], layer(x[2:3]))
        assert torch.equal(layer.self_attn(x, x, x)[0][4:6], layer.self_attn(x[4:6], x[4:6], x[4:6])[0])
    assert not mode.uncovered
    assert torch.allclose(layer.eval()(x), layer.train()(x), atol=1e-5)


def test_inference_mode_has_the_same_bits() -> None:
    layer = torch.nn.Sequential(torch.nn.LayerNorm(48), torch.nn.Linear(48, 10), torch.nn.LogSoftmax(-1))
    rows, net = torch.randn(33, 48, generator=torch.Generator().manual_seed(3)), encoder()
    x = torch.randn(3, 12, 32, generator=torch.Generator().manual_seed(4))
    with tcu.torch.reproducible(strict=True):
        wanted = layer(rows), net(x)
    with tcu.torch.reproducible(strict=True) as mode, torch.inference_mode():
        assert torch.equal(layer(rows), wanted[0])
        assert torch.equal(layer(rows[5:6]), wanted[0][5:6])
        assert torch.equal(net(x), wanted[1])
    assert not mode.uncovered
    with tcu.torch.reproducible() as mode, torch.inference_mode():
        rows.exp()
    assert mode.uncovered == {"aten.exp.default"}


WHOLE = torch.arange(1, 31).reshape(5, 6)
COMPLEX = torch.complex(WHOLE.float(), WHOLE.float())
UNCOVERED: dict[str, Callable[[], Any]] = {
    "aten.sum.dim_IntList": lambda: WHOLE.sum(-1, dtype=torch.float32),
    "aten.mean.dim": lambda: WHOLE.mean(-1, dtype=torch.float32),
    "aten.exp.default": lambda: WHOLE.exp(),
    "aten.sqrt.default": lambda: WHOLE.sqrt(),
    "aten.pow.Tensor_Scalar": lambda: COMPLEX**2,
    "aten.arange.start_step": lambda: torch.arange(0, 10.0, 0.1),
}


@pytest.mark.parametrize("name", UNCOVERED)
def test_floats_of_whole_numbers_and_complex_squares_are_named(name: str) -> None:
    with tcu.torch.reproducible() as mode:
        UNCOVERED[name]()
    assert mode.uncovered == {name}
    with tcu.torch.reproducible(strict=True), pytest.raises(ParameterError, match="not among the operators"):
        UNCOVERED[name]()


def test_whole_numbers_are_covered() -> None:
    with tcu.torch.reproducible(strict=True):
        for found in (
            WHOLE.sum(-1),
            WHOLE @ WHOLE.mT,
            WHOLE.float(),
            WHOLE / 3,
            torch.arange(0, 10, 2).float(),
            torch.arange(0.0, 9.0),
            WHOLE.cumsum(0),
        ):
            assert found.numel()  # fmt: skip


def test_what_pytorch_takes_is_taken() -> None:
    x, one = torch.randn(3, 4, generator=torch.Generator().manual_seed(5)), torch.tensor(2.0)
    with tcu.torch.reproducible():
        assert torch.equal(torch.logsumexp(input=x, dim=1), torch.logsumexp(x, 1))
        assert torch.equal(functional.rms_norm(input=x, normalized_shape=[4]), functional.rms_norm(x, (4,)))
        assert torch.logsumexp(x, axis=1).shape == (3,), "as NumPy calls it"
        for found in (one.sum(0), one.mean(0), one.logsumexp(0), torch.linalg.vector_norm(one, dim=0)):
            assert found == 2
        assert one.std(0, correction=0) == one.var(-1, correction=0) == 0
        assert functional.layer_norm(torch.zeros(0, 4), (4,)).shape == (0, 4)
        assert torch.cumsum(x, 0, dtype=torch.int64).dtype == torch.int64
        assert not (x / 1e300).any()


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: functional.layer_norm(x, (3,)),
        lambda x: functional.layer_norm(x, (2, 3, 4)),
        lambda x: functional.rms_norm(x, (3,)),
        lambda x: torch.bmm(x.expand(1, 3, 4), x.mT.expand(2, 4, 3)),
    ],
)
def test_what_pytorch_refuses_is_refused(refused: Callable[[Any], Any]) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    with pytest.raises(RuntimeError) as wanted:
        refused(x)
    with tcu.torch.reproducible(), pytest.raises(RuntimeError) as found:
        refused(x)
    assert str(found.value) == str(wanted.value)
