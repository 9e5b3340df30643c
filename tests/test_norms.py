"""Contract: rows over the root of their mean square, and rows of mean 0 and variance 1, depend on the row alone.

Errors are a few units in the last place of the largest result, against rational sums, also where PyTorch's squares overflow or
its deviations cancel; bits have nothing to do with order, batch, layout and threads; what is not finite has what PyTorch says.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from bits import same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownOptionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

names = pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "normalize"])


def exact(x: Any, name: str, eps: float) -> list[Any]:
    """Of one row, to 200 bits."""
    numbers = [Fraction(each) for each in x.astype(np.float64).tolist()]
    mean = sum(numbers) / len(numbers) if name == "layer_norm" else Fraction(0)
    square = sum((each - mean) ** 2 for each in numbers)
    if name != "normalize":
        square = square / len(numbers) + Fraction(eps)
    with mpmath.workprec(200):
        root = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
        root = max(root, eps) if name == "normalize" else root
        return [mpmath.mpf((each - mean).numerator) / (each - mean).denominator / root for each in numbers]


@names
@pytest.mark.parametrize("eps", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("dtype", "scale", "shift", "units"),
    [
        ("float32", 1, 0, 2), ("float32", 1, 100, 2), ("float32", 1e-3, 1e4, 2), ("float32", 1e-30, 0, 2),
        ("float32", 1e30, 0, 2), ("float32", 1e-42, 0, 3), ("float64", 1, 0, 2), ("float64", 1e250, 0, 2),
        ("float64", 1e-200, 0, 2), ("float64", 1e-310, 0, 2), ("float64", 1, 100, 3), ("float64", 1, 1e16, 2),
        ("float64", 1e284, 1e300, 2), ("float16", 1, 0, 2**13), ("bfloat16", 1, 3, 2**16),
    ],
)  # fmt: skip
def test_errors(name: str, eps: float, dtype: str, scale: float, shift: float, units: float) -> None:
    """In units of 2^-24 (2^-53) of the largest result, beyond the result's own rounding."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = (scale * np.random.default_rng(3).standard_normal(257) + shift).astype(kind)
    found = getattr(tcu, name)(x, eps=eps)
    assert found.dtype == kind
    wanted = exact(x, name, eps)
    largest = max(map(abs, wanted))
    smallest = 2.0 ** (-1074 if dtype == "float64" else -149)
    unit = mpmath.mpf(2) ** (-53 if dtype == "float64" else -24)
    for each, value in zip(found.astype(np.float64).tolist(), wanted, strict=True):
        assert abs(each - value) <= units * unit * largest + smallest


def far_from_zero(n: int) -> dict[str, Any]:
    """Rows of float64 whose mean is far larger than their deviations, which are units in its last place."""
    ups, one_up = np.zeros(n), np.zeros(n)
    ups[::2], one_up[-1] = 1, 1
    drawn = np.random.default_rng(n).integers(-3, 4, n)
    line = 2.0**53 - np.arange(n)  # the unit changes on the way
    line[::3] += 2 * n
    return {
        **{f"{name} at {at:g}": at + (1 + (at > 1e15)) * step for at in (1e16, -3e15, 1.5) for name, step in (("drawn", drawn), ("ups", ups), ("one", one_up))},
        "large": 1e300 + 2.0**944 * drawn, "small": (1e15 + drawn) * 2.0**-1070, "line": line,
        "one far": np.where(one_up == 1, -1e16, 1e16), "cancelling": np.where(ups == 1, 1e16, -1e16 + 2 * drawn),
    }  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 10, 257, 4099])
def test_binary64_far_from_zero(n: int) -> None:
    """In units of 2^-53 of the largest result, as of any other row; a row of equal numbers is 0 throughout."""
    for name, x in far_from_zero(n).items():
        if (x == x[0]).all():
            continue
        for shift in (0, 17):
            found, wanted = (
                tcu.layer_norm(np.roll(x, shift), eps=0),
                exact(np.roll(x, shift), "layer_norm", 0),
            )
            largest = max(map(abs, wanted))
            for each, value in zip(found.tolist(), wanted, strict=True):
                assert abs(each - value) <= 3 * mpmath.mpf(2) ** -53 * largest, (name, each, value)
    for value in (1e16, 0.1, -1 / 3, 5e-324, 1.7e308):
        same(tcu.layer_norm(np.full(n, value)), np.zeros(n))


@pytest.mark.parametrize("name", ["layer_norm", "var", "std"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_gradients_in_binary64_far_from_zero(name: str, mode: str) -> None:
    """Those of the same deviations around 0, but for the rounding of sums."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    n = 300
    steps = torch.from_numpy(2.0 * np.random.default_rng(1).integers(-3, 4, (5, n)))
    given = torch.randn(5, n, dtype=torch.float64)

    def function(x: Any) -> Any:
        return tcu.layer_norm(x, 1, eps=0) if name == "layer_norm" else getattr(tcu, name)(x, 1)

    def found(x: Any) -> Any:
        if mode == "forward":
            return torch.func.jvp(function, (x,), (given,))[1]
        x = x.clone().requires_grad_()
        result = function(x)
        return torch.autograd.grad(result, x, given if name == "layer_norm" else given[:, 0])[0]

    near = found(steps)
    torch.testing.assert_close(found(steps + 1e16), near, rtol=0, atol=1e-14 * float(near.abs().max()))
    offsets = torch.tensor([0, 7, n])
    if name != "layer_norm":
        line = [(steps[0] + at).requires_grad_() for at in (0, 1e16)]
        grads = [torch.autograd.grad(getattr(tcu, f"segment_{name}")(x, offsets).sum(), x)[0] for x in line]
        torch.testing.assert_close(*grads, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_results_in_binary64_far_from_zero(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = (1000 + 4 * np.random.default_rng(2).integers(-2, 3, 300)).astype(kind)
    wanted = exact(x, "layer_norm", 0)
    for each, value in zip(tcu.layer_norm(x, eps=0, dtype="float64").tolist(), wanted, strict=True):
        assert abs(each - value) <= 2 * mpmath.mpf(2) ** -53 * max(map(abs, wanted))


@pytest.mark.parametrize("n", [2, 3, 257, 5000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_farther_from_the_mean_than_the_format_reaches(dtype: str, n: int) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = np.full((3, n), 3.3e38).astype(kind)
    x[:, -1] *= -1
    x[1] *= -1
    x[2] *= np.float32(2.0**-100)  # a neighbour that is not so far
    found, wanted = tcu.layer_norm(x, eps=0), tcu.layer_norm(x, eps=0, dtype="float64")
    assert np.abs(found / wanted - 1).max() <= (2.0**-22 if dtype == "float32" else 2.0**-8)
    same(found[0], tcu.layer_norm(x[0], eps=0))
    same(found[2], tcu.layer_norm(x, eps=0)[2])
    same(found[0], -found[1])


@pytest.mark.parametrize("name", ["normalize", "rms_norm"])
@pytest.mark.parametrize("exponent", [100, 124, 127])
def test_norms_whose_reciprocal_is_subnormal(name: str, exponent: int) -> None:
    """In binary32 1 over the norm keeps all its digits: rows of large numbers are multiplied by a power of two before."""
    for n in (2, 100, 10_000):
        x = np.random.default_rng(n).uniform(0.5, 1.9, n).astype(np.float32) * np.float32(2.0**exponent)
        wide = x.astype(np.float64)
        norm = np.sqrt((wide * wide).sum() / (1 if name == "normalize" else n))
        assert np.abs(getattr(tcu, name)(x) / (wide / norm) - 1).max() <= 2.0**-22.5
        same(getattr(tcu, name)(x * np.float32(2.0**-30), eps=0), getattr(tcu, name)(x, eps=0))


@names
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_row_depends_on_its_numbers_alone(name: str, dtype: str) -> None:
    rng, function = np.random.default_rng(8), getattr(tcu, name)
    x = (4 * rng.standard_normal((70, 1300)) + 1).astype(dtype)
    found = function(x)
    for row in (0, 33, 69):
        same(function(x[row]), found[row])
    same(function(x.T, 0), found.T)
    same(function(x[::-2, None])[:, 0], found[::-2])
    order = rng.permutation(1300)
    same(function(np.asfortranarray(x)[:, order]), found[:, order])
    same(function(-x), -found)
    if dtype != "float16":
        same(function(x * 2.0**20, eps=0).astype(dtype), function(x, eps=0))
    with pytest.MonkeyPatch.context() as patch:
        for threads in ("1", "3"):
            patch.setenv("TCU_NUM_THREADS", threads)
            same(function(x), found)


def test_long_rows_fill_several_words() -> None:
    for dtype in (np.float32, np.float64):
        x = np.ones(1 << 20, dtype)
        x[::2] = -1
        same(tcu.layer_norm(x, eps=0), x)
        same(tcu.rms_norm(x, eps=0), x)
        same(tcu.normalize(x), x / 1024)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_pytorch_gives_about_the_same(dtype: str) -> None:
    """With its own eps, and where rows are not finite."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    kind, nan, inf = getattr(torch, dtype), float("nan"), float("inf")
    rows = [
        [1, nan, 2],
        [inf, 1, -2],
        [inf, -inf, 0],
        [nan, inf, 1],
        [0, 0, 0],
        [-3, -3, -3],
        [0.1, -0.2, 0.5],
    ]
    x = torch.tensor(rows, dtype=kind)
    tolerance = {"rtol": 4 * torch.finfo(kind).eps, "atol": 4 * torch.finfo(kind).eps, "equal_nan": True}
    functional = torch.nn.functional
    torch.testing.assert_close(tcu.rms_norm(x), functional.rms_norm(x, (3,)), **tolerance)
    torch.testing.assert_close(tcu.layer_norm(x), functional.layer_norm(x, (3,)), **tolerance)
    torch.testing.assert_close(
        tcu.normalize(x), functional.normalize(x.double(), dim=1).to(kind), **tolerance
    )
    assert tcu.rms_norm(x[:, :0]).shape == (7, 0)
    assert tcu.layer_norm(x[:0]).shape == (0, 3)


@pytest.mark.some(2)
@names
def test_gradients(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    function = getattr(tcu, name)
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    for axis in (1, -1):
        if axis == 1 or name != "layer_norm":  # of two numbers, standard ones are 1 and -1
            assert torch.autograd.gradcheck(
                lambda x, a=axis: function(x, a, eps=0.1), x, check_forward_ad=True
            )
            assert torch.autograd.gradgradcheck(lambda x, a=axis: function(x, a, eps=0.1), x)
    y = torch.randn(4, 70, requires_grad=True)
    mine = torch.autograd.grad(function(y).pow(3).sum(), y)[0]
    if name == "normalize":
        theirs = functools.partial(torch.nn.functional.normalize, dim=1)
    else:
        theirs = functools.partial(getattr(torch.nn.functional, name), normalized_shape=(70,))
    torch.testing.assert_close(mine, torch.autograd.grad(theirs(y).pow(3).sum(), y)[0])
    assert torch.equal(torch.vmap(lambda x: function(x, 0, eps=1e-3))(y), function(y, 1, eps=1e-3))
    compiled = torch.compile(lambda x: function(2 * x), backend="eager", fullgraph=True)
    assert torch.equal(compiled(y), function(2 * y))
    torch.library.opcheck(getattr(torch.ops.tcu, name).default, (y, -1, 1e-3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps", [0.0, None, 1e-38, 1.0])
@names
def test_gradients_over_the_whole_range(name: str, eps: float | None, dtype: str) -> None:
    """Right to 8 units of the rounding of the row's largest one, beside PyTorch's formulas in float64 of rows near 1."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    kind, generator = getattr(torch, dtype), torch.Generator().manual_seed(5)
    decades = range(-37, 38) if dtype == "float32" else range(-300, 301, 10)
    scales = torch.tensor([10.0**decade for decade in decades], dtype=torch.float64)[:, None]
    drawn, given = (torch.randn(len(decades), 70, dtype=torch.float64, generator=generator) for _ in range(2))
    x, given = (scales * drawn).to(kind).requires_grad_(), given.to(kind)
    found = torch.autograd.grad(getattr(tcu, name)(x, eps=eps), x, given)[0].double()

    usual = {"rms_norm": torch.finfo(kind).eps, "layer_norm": 1e-5, "normalize": 1e-12}[name]
    near_1 = 2.0 ** -torch.frexp(x.detach().double().abs().amax(1, keepdim=True)).exponent.double()
    near_1 = near_1 if eps == 0 else near_1.clamp(max=2.0**500)
    least = (usual if eps is None else eps) * near_1
    y = (x.detach().double() * near_1).requires_grad_()
    d = y - y.mean(1, keepdim=True) if name == "layer_norm" else y
    squares = (d * d).sum(1, keepdim=True)
    norm = squares.sqrt().maximum(least) if name == "normalize" else (squares / 70 + least * near_1).sqrt()
    wanted = torch.autograd.grad(d / norm, y, given.double())[0]
    largest = wanted.abs().amax(1, keepdim=True)
    there = (largest * near_1 < torch.finfo(kind).max).expand_as(wanted)
    assert there.double().mean() > 0.9
    error = (found / near_1 - wanted).abs()
    bound = (
        4 * torch.finfo(kind).eps * largest
        + torch.finfo(kind).smallest_normal * torch.finfo(kind).eps / near_1
    )
    assert (error <= bound)[there].all(), (error / bound)[there].max()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "normalize"])
def test_gradients_of_rows_that_are_lifted(name: str) -> None:
    """They are those of the same rows near 1, times the power of two; of equal numbers eps alone says them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    function, drawn, given = getattr(tcu, name), torch.randn(4, 33), torch.randn(4, 33)

    def gradient(x: Any, **options: Any) -> Any:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x, **options), x, given)[0]

    near_1 = gradient(drawn, eps=0)
    for exponent in (-110, -60, -40, 38, 60, 100):
        assert torch.equal(gradient(drawn * 2.0**exponent, eps=0), near_1 * 2.0**-exponent)
    jvp = torch.func.jvp(lambda x: function(x, eps=0), (drawn * 2.0**60,), (given,))[1]
    assert torch.equal(jvp, near_1 * 2.0**-60)
    each = torch.func.vmap(torch.func.grad(lambda x, g: (function(x, eps=0) * g).sum()))(
        drawn * 2.0**60, given
    )
    assert torch.equal(each, near_1 * 2.0**-60)
    x = torch.full((4, 64), 2.0**100)
    if name == "layer_norm":
        given = torch.randn(4, 64)
        assert gradient(x * math.inf).isnan().all()
        wanted = (given.double() - given.double().mean(1, keepdim=True)) / 1e-5**0.5
        torch.testing.assert_close(gradient(x).double(), wanted, rtol=1e-5, atol=1e-4)
    empty = torch.empty(4, 0, requires_grad=True)
    function(empty).sum().backward()
    assert empty.grad.shape == (4, 0)


# Weights, biases, residuals.


def by_hand(name: str, x: Any, weight: Any, bias: Any, work: Any, dtype: Any) -> Any:
    """One operation after the other, each rounded."""
    found = getattr(tcu, name)(x, dtype=work)
    found = found if weight is None else found * weight.astype(work)
    return (found if bias is None else found + bias.astype(work)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_weights_multiply_before_the_rounding(dtype: str) -> None:
    kind, rng = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype), np.random.default_rng(5)
    x, residual = (rng.standard_normal((4, 70)).astype(kind) for _ in range(2))
    weight, bias = (rng.standard_normal(70).astype(kind) for _ in range(2))
    work = np.float64 if dtype == "float64" else np.float32
    same(tcu.rms_norm(x, weight=weight), by_hand("rms_norm", x, weight, None, work, kind))
    same(tcu.layer_norm(x, weight=weight, bias=bias), by_hand("layer_norm", x, weight, bias, work, kind))
    same(tcu.layer_norm(x.T, 0, bias=bias), by_hand("layer_norm", x, None, bias, work, kind).T)
    found, total = tcu.rms_norm(x, weight=weight, residual=residual, dtype="float32")
    same(total, (x.astype(np.float64) + residual.astype(np.float64)).astype(kind))
    same(found, by_hand("rms_norm", total, weight, None, work, np.float32))
    found, total = tcu.layer_norm(x, residual=residual)
    same(found, tcu.layer_norm(total))
    wide = weight.astype(np.float64)
    if dtype == "float32":
        same(tcu.rms_norm(x, weight=wide), by_hand("rms_norm", x, wide, None, np.float64, kind))
    out = np.empty_like(x)
    assert tcu.rms_norm(x, weight=weight, out=out) is out
    same(out, tcu.rms_norm(x, weight=weight))
    same(tcu.rms_norm(x[2], weight=weight), out[2])


def test_weights_of_tensors_have_the_bits_of_numpy_and_not_a_number_has_one_code() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    from tcu.surfaces.torch.scaled import _on_gpu

    x, weight, bias = torch.randn(9, 40), torch.randn(40), torch.randn(40)
    x[3, 5] = float("nan")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        given = [each.to(dtype) for each in (x, weight, bias)]
        numpy = [
            each.double().numpy().astype(ml_dtypes.bfloat16) if dtype == torch.bfloat16 else each.numpy()
            for each in given
        ]
        found = tcu.layer_norm(given[0], weight=given[1], bias=given[2])
        wanted = tcu.layer_norm(numpy[0], weight=numpy[1], bias=numpy[2])
        same(found, wanted)
        assert torch.equal(
            tcu.layer_norm(given[0].T, 0, weight=given[1], bias=given[2]).nan_to_num(), found.T.nan_to_num()
        )
    for target in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    ):  # what a GPU does, which takes PyTorch's kernels
        for work in (torch.float32, torch.float64):
            given = [each.to(work) for each in (x, weight, bias)]
            given[0][4, :20] = (1 + 2.0**-8) * (1 + torch.arange(-10, 10) * 2.0**-40)
            given[1][:20], given[2][:20] = 1, 0
            same(_on_gpu(*given, 1, target), torch.ops.tcu.scaled(*given, 1, target))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_weights(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    function, names = getattr(tcu, name), ["weight", "bias"][: 1 + (name == "layer_norm")]

    def call(axis: int) -> Any:
        def with_weights(x: Any, residual: Any, *lines: Any) -> Any:
            given = dict(zip(names, lines, strict=True))
            return function(x, axis, eps=0.1, residual=residual, **given)

        return with_weights

    x, residual = (torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    lines = [torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in names]
    assert torch.autograd.gradcheck(call(1), (x, residual, *lines), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call(1), (x, residual, *lines))
    y, weight = torch.randn(50, 33), torch.randn(33, requires_grad=True)

    def of_weight(y: Any) -> Any:
        return torch.autograd.grad(function(y, weight=weight).square().sum(), weight)[0]

    theirs = getattr(torch.nn.functional, name)(y, (33,), weight=weight).square().sum()
    torch.testing.assert_close(of_weight(y), torch.autograd.grad(theirs, weight)[0], rtol=1e-5, atol=1e-4)
    assert torch.equal(of_weight(y), of_weight(y[torch.randperm(50)]))  # an exact sum has no order
    assert torch.equal(of_weight(y), of_weight(torch.cat([y, torch.zeros(7, 33)])))
    y[3, 4] = float("inf")
    assert of_weight(y)[4].isnan()
    compiled = torch.compile(lambda y: function(2 * y, weight=weight), backend="eager", fullgraph=True)
    assert torch.equal(compiled(y[:3]), function(2 * y[:3], weight=weight))
    plain = weight.detach()
    assert torch.equal(torch.vmap(lambda y: function(y, weight=plain))(y[:3]), function(y[:3], weight=plain))
    several = torch.randn(3, 33)
    found = torch.vmap(lambda y, w: function(y, weight=w))(y[:3], several)
    assert torch.equal(
        found, torch.stack([function(a, weight=b) for a, b in zip(y[:3], several, strict=True)])
    )
    gradient = torch.func.grad(lambda w: function(y[:3], weight=w).sum())
    assert torch.equal(gradient(plain), torch.autograd.grad(function(y[:3], weight=weight).sum(), weight)[0])
    out = torch.empty(3, 33)
    assert function(y[:3], weight=plain, out=out) is out
    assert torch.equal(out, function(y[:3], weight=plain))
    torch.library.opcheck(torch.ops.tcu.scaled.default, (y[:3], weight, None, 1, torch.float32))


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_one_launch_for_a_norm_and_its_weight_has_the_gradients_of_both_steps(
    monkeypatch: pytest.MonkeyPatch, name: str, served: bool
) -> None:
    """Here the CPU stands in for the launches, which serve the gradient of x or do not; tests/test_gpu_row_functions.py has theirs."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    from tcu.ops import LAYER_NORM, RMS_NORM
    from tcu.surfaces.torch import scaled

    function = getattr(tcu, name)
    x = torch.randn(5, 7, 3).bfloat16().requires_grad_()
    weight = torch.randn(7).requires_grad_()
    bias = torch.randn(7).bfloat16().requires_grad_() if name == "layer_norm" else None
    lines = [each for each in (weight, bias) if each is not None]
    given = torch.randn(5, 7, 3).bfloat16()

    def in_steps(wanted: Any, again: bool) -> Any:
        found = function(x, 1, weight=weight, **({} if bias is None else {"bias": bias}))
        return torch.autograd.grad(found, wanted, given, create_graph=again)

    class OnCpu:
        @staticmethod
        def weighted_norm(
            _: Any, x: Any, axis: int, weight: Any, bias: Any, eps: Any, dtype: Any, out: Any
        ) -> Any:
            return function(
                x, axis, weight=weight, eps=eps, dtype=dtype, **({} if bias is None else {"bias": bias})
            )

        @staticmethod
        def row_gradient(*_: Any) -> Any:
            with torch.enable_grad():
                return in_steps([x], False)[0] if served else None

        @staticmethod
        def norms_times(_: Any, x: Any, given: Any, axis: int, eps: Any) -> Any:
            return function(x, axis, eps=eps, dtype="float32") * given

    monkeypatch.setattr(scaled, "load_cuda", lambda: OnCpu)
    operation = {"rms_norm": RMS_NORM, "layer_norm": LAYER_NORM}[name]
    call = scaled._Norm(operation, function, 1, None, torch.bfloat16)
    found = scaled._OfNorm.apply(x, weight, bias, call)
    for wanted in ([x, *lines], [x], lines):
        for again in (False, True):
            mine = torch.autograd.grad(found, wanted, given, retain_graph=True, create_graph=again)
            theirs = in_steps(wanted, again)
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
            if again:
                second = [torch.autograd.grad(each[0].float().square().sum(), x) for each in (mine, theirs)]
                assert torch.equal(second[0][0], second[1][0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "rms_norm", "layer_norm", "normalize"])
def test_gradients_of_a_row_depend_on_the_row_alone(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x, given = torch.randn(40, 300), torch.randn(40, 300)

    def gradient(rows: Any) -> Any:
        part = x[rows].clone().requires_grad_()
        return torch.autograd.grad(getattr(tcu, name)(part), part, given[rows])[0]

    whole = gradient(slice(None))
    for rows in (slice(7, 8), slice(3, 20)):
        assert torch.equal(gradient(rows), whole[rows])


def test_what_weights_may_be() -> None:
    x, weight = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    with pytest.raises(
        ShapeError, match=r"weight has shape \(2,\): give one number for each place of a row, \(3,\)"
    ):
        tcu.rms_norm(x, weight=weight[:2])
    with pytest.raises(DtypeError, match="bias has dtype int64: give floating-point numbers"):
        tcu.layer_norm(x, bias=np.ones(3, np.int64))
    with pytest.raises(ShapeError, match=r"residual has shape \(3,\), x \(2, 3\): give them one"):
        tcu.rms_norm(x, residual=weight)
    for kind in (["float32"], "int32", "no dtype"):
        with pytest.raises(DtypeError, match="a result is rounded to float16, bfloat16, float32 or float64"):
            tcu.rms_norm(x, weight=x[0], dtype=kind)
    with pytest.raises(DtypeError, match="residual has dtype float64, x float32: give them one"):
        tcu.rms_norm(x, residual=x.astype(np.float64))
    with pytest.raises(ParameterError, match="axis=0 and dim=1: give one of them"):
        tcu.rms_norm(x, 0, dim=1, weight=weight)
    with pytest.raises(
        ParameterError, match=r"dim=\(0, 1\): give a whole number, the axis whose rows are mapped"
    ):
        tcu.rms_norm(x, dim=(0, 1), weight=weight)
    same(tcu.rms_norm(x, dim=1, weight=weight), tcu.rms_norm(x, 1, weight=weight))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    with pytest.raises(
        ParameterError, match="rms_norm with weight takes arrays in the host's memory, or tensors: make all"
    ):
        tcu.rms_norm(x, weight=torch.ones(3))
    with pytest.raises(ParameterError, match="x is on cpu, weight is on meta: move all to one device"):
        tcu.rms_norm(torch.ones(2, 3), weight=torch.ones(3, device="meta"))


def test_options_that_there_are_not() -> None:
    x, mask = np.ones(3), np.ones(3, bool)
    with pytest.raises(
        UnknownOptionError,
        match="rms_norm has no option 'where': its options are weight, residual, eps, dtype, beside axis, dim, out",
    ):
        tcu.rms_norm(x, where=mask)  # type: ignore[arg-type]
    with pytest.raises(UnknownOptionError, match=r"layer_norm has no option 'wieght': did you mean weight\?"):
        tcu.layer_norm(x, wieght=x)  # type: ignore[arg-type]
    for function in (tcu.layer_norm, tcu.softmax, tcu.normalize):
        name = function.__name__
        with pytest.raises(UnknownOptionError, match=f"{name} has no option 'keepdims': its options are"):
            function(x, keepdims=True)


def test_what_eps_may_be() -> None:
    x = np.ones(3)
    with pytest.raises(ParameterError, match=r"eps=-1: give a number from 0 up, such as 1e-6"):
        tcu.rms_norm(x, eps=-1)
    with pytest.raises(ParameterError, match=r"eps='a': give a finite number"):
        tcu.layer_norm(x, eps="a")
