"""Contract of ``tcu.var``, ``std``, ``fvar`` and ``fstd``.

The planned ones have the bits of a literal reading of the plan of a dot product
about the first element; the correctly rounded ones those of rational
arithmetic, whatever the order.  A bound holds on families built to hurt.
Several chunks of a Dask array merge exactly.  That every layout and surface
gives the same is in test_operations.py.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from literal_plan import interpret
from operations import names_of

import tcu
from tcu.errors import DtypeError, ParameterError, UnknownOptionError
from tcu.formats import decode, encode, format_of, get_format
from tcu.formats.scalar import Number
from tcu.plan import Plan, make_dot_plan

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
every_variance = pytest.mark.parametrize("name", names_of(moments=True))
FAMILIES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "far from zero": lambda rng, n: 1000 + rng.standard_normal(n),
    "first far away": lambda rng, n: np.r_[3e4, rng.standard_normal(n - 1)],
    "wide": lambda rng, n: rng.standard_normal(n) * 2.0 ** rng.integers(-14, 15, n),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.5, 1.0, 1.0078125),
    "equal": lambda rng, n: np.full(n, 0.1),
    "tiny": lambda rng, n: rng.standard_normal(n) * 2.0**-24,
}


def drawn(family: str, n: int, dtype: Any) -> Any:
    return np.asarray(FAMILIES[family](np.random.default_rng(n), n)).astype(dtype)


def exact(x: Any, correction: float = 0) -> Fraction:
    numbers = [Fraction(float(each)) for each in np.asarray(x).ravel()]
    mean = sum(numbers) / len(numbers)
    return sum(((each - mean) ** 2 for each in numbers), Fraction(0)) / (len(numbers) - Fraction(correction))


def literal(plan: Plan, x: Any, correction: float) -> float:
    """The variance by binary64 operations one after another, in the order of the docstring."""
    deviations = x.astype(np.float64) - float(x[0])
    one = encode(Number.of(1), "binary64")
    d = codes(deviations).tolist()
    wide = Plan(plan.n, "binary64", plan.variant, None, plan.block, plan.parts, plan.final, plan.result)
    first, second = (
        float(decode(interpret(wide, list(zip(d, others, strict=True)), "H100"), "binary64"))
        for others in ([one] * len(d), d)
    )
    return max(second - first * (first / len(d)), 0.0) / (len(d) - correction)


@pytest.mark.some(2)
@pytest.mark.slow
@every_dtype
@pytest.mark.parametrize("block", [32, 96])
def test_a_variance_has_the_bits_of_a_literal_reading(dtype: Any, block: int) -> None:
    for n, family in itertools.product((1, 2, 9, 65, 800), ("normal", "first far away", "wide")):
        x = drawn(family, n, dtype)
        plan = make_dot_plan(n, format_of(np.dtype(dtype)), block)
        for correction in (0, 0.5):
            expected = literal(plan, x, correction)
            assert tcu.var(x, correction=correction, block=block, dtype="float64") == expected
            assert tcu.std(x, correction=correction, block=block, dtype="float64") == math.sqrt(expected)


def test_another_pivot_or_order_would_be_noticed() -> None:
    x = drawn("wide", 800, np.float64)
    expected = tcu.var(x)
    assert tcu.var(np.r_[x[1:], x[:1]]) != expected
    assert tcu.var(x, block=32) != expected


@every_dtype
@pytest.mark.parametrize("family", FAMILIES)
def test_the_correctly_rounded_ones_are_those_of_rational_arithmetic(dtype: Any, family: str) -> None:
    for n, correction in itertools.product((2, 3, 50, 333), (0, 1, 0.5)):
        x = drawn(family, n, dtype)
        wanted = exact(x, correction)
        rng = np.random.default_rng(n)
        for target in ("float16", "bfloat16", "float32", "float64"):
            found = tcu.fvar(x, correction=correction, dtype=target)
            assert is_nearest(found, wanted, lambda value: value), (found, float(wanted))
            root = tcu.fstd(x, correction=correction, dtype=target)
            assert is_nearest(root, wanted, lambda value: value * value), (root, float(wanted))
            same(tcu.fvar(rng.permutation(x), correction=correction, dtype=target), found)


def is_nearest(found: Any, wanted: Fraction, back: Any) -> bool:
    """Whether a number is nearest to ``wanted`` brought ``back``: between the midpoints to its neighbours."""
    fmt = format_of(found.dtype)
    if not np.isfinite(found):
        largest = Fraction(fmt.max_finite)
        return bool(np.isinf(found)) and wanted >= back(
            largest + Fraction(fmt.max_finite) * Fraction(fmt.unit_roundoff) / 4
        )
    code = int(codes(np.asarray(found)))
    value = decode(code, fmt).value
    above = decode(code + 1, fmt)
    high = back((value + above.value) / 2) if above.kind == "finite" else None
    low = back((value + decode(code - 1, fmt).value) / 2) if code else Fraction(0)
    return low <= wanted and (high is None or wanted <= high)


def test_a_planted_error_of_one_ulp_is_noticed() -> None:
    x = drawn("normal", 50, np.float64)
    right = tcu.fvar(x)
    assert is_nearest(right, exact(x), lambda value: value)
    assert not is_nearest(np.nextafter(right, 2), exact(x), lambda value: value)
    assert not is_nearest(np.nextafter(right, 0), exact(x), lambda value: value)


@every_dtype
@pytest.mark.parametrize("family", FAMILIES)
def test_the_bounds_hold(dtype: Any, family: str) -> None:
    for n, correction, target in itertools.product((2, 17, 1025), (0, 1), (None, "float64")):
        x = drawn(family, n, dtype)
        given = {"correction": correction, "dtype": target}
        wanted = exact(x, correction)
        bound = tcu.var_error_bound(x, **given)
        assert abs(Fraction(float(tcu.var(x, **given))) - wanted) <= Fraction(bound)
        found, bound = Fraction(float(tcu.std(x, **given))), Fraction(tcu.std_error_bound(x, **given))
        assert max(found - bound, 0) ** 2 <= wanted <= (found + bound) ** 2


def test_bounds_say_where_there_is_none() -> None:
    for name in names_of(moments=True, exact=False):
        bound = getattr(tcu, f"{name}_error_bound")
        assert math.isnan(bound([]))
        assert math.isnan(bound([1.0, math.inf]))
        assert math.isnan(bound([1.0, math.nan]))
        assert math.isinf(bound([1.0, 2.0], correction=2))
        assert math.isinf(bound([-1e308, 1e308]))
        assert math.isinf(bound([1.0, 1e200]))
        assert bound([3.0, 3.0, 3.0]) == 0
    assert tcu.var_error_bound(np.array([0, 6e4], np.float16), dtype="float16") == math.inf


SPECIAL = [
    ([], 0, math.nan), ([5.0], 0, 0.0), ([5.0], 1, math.nan), ([5.0, 5.0], 2, math.nan), ([5.0, 6.0], 2, math.inf),
    ([5.0, 6.0], 3, math.inf), ([1.0, math.inf], 0, math.nan), ([math.inf, 1.0], 0, math.nan),
    ([math.inf, math.inf], 0, math.nan), ([math.inf, -math.inf], 0, math.nan), ([1.0, math.nan], 0, math.nan),
    ([-0.0, 0.0], 0, 0.0), ([2.0, 4.0], -1, 2 / 3),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "correction", "expected"), SPECIAL)
@every_variance
def test_special_values(name: str, numbers: list[float], correction: float, expected: float) -> None:
    expected = math.sqrt(expected) if "std" in name else expected
    x = np.array(numbers)
    found = [
        getattr(tcu, name)(x, correction=correction), *getattr(tcu, name)(np.stack([x, x]), axis=1, correction=correction),
        *getattr(tcu, f"segment_{name}")(x, [0, x.size], correction=correction),
    ]  # fmt: skip
    for each in found:
        assert each == pytest.approx(expected, rel=1e-15, nan_ok=True)
        assert math.isnan(each) or math.copysign(1, each) == 1
        if math.isnan(each):
            assert int(codes(each)) == get_format("binary64").nan_code


def test_nothing_overflows_or_underflows_where_it_is_correctly_rounded() -> None:
    x = np.array([-1e300, 1e300])
    assert tcu.fstd(x) == 1e300
    assert tcu.fvar(x) == math.inf
    assert tcu.fstd(x * 1e-300 * 5e-324) == 5e-324
    assert tcu.var(x) == math.inf


def test_options() -> None:
    for name in names_of(moments=True):
        function = getattr(tcu, name)
        for correction in ("1", math.nan, math.inf, None, True):
            with pytest.raises(ParameterError, match=r"correction=.*: give a finite number, such as 1"):
                function([1.0], correction=correction)
        with pytest.raises(
            UnknownOptionError,
            match=rf"{name} has no option 'ddof': did you mean correction\? its options are correction",
        ):
            function([1.0], ddof=1)
        with pytest.raises(DtypeError, match="x has dtype int64"):
            function(np.arange(3))
    with pytest.raises(UnknownOptionError, match="fvar has no option 'block'"):
        tcu.fvar([1.0], block=32)
    with pytest.raises(ParameterError, match=r"block \(B\) = 33"):
        tcu.var([1.0], block=33)


@pytest.mark.some(3)
@every_variance
def test_chunks_of_a_dask_array_merge_exactly(name: str) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    x = drawn("far from zero", 6 * 400, np.float64).reshape(6, 400)
    function = getattr(tcu, name)
    for chunks in ((6, 400), (6, 150), (2, 400), (1, 7)):
        lazy = da.from_array(x, chunks=chunks)
        for axis in (None, 0, 1, (0, 1)):
            found = function(lazy, axis, correction=1).compute()
            expected = function(x, axis, correction=1)
            whole = all(lazy.numblocks[i] == 1 for i in ((0, 1) if axis is None else np.atleast_1d(axis)))
            if name[0] == "f" or whole:
                same(np.asarray(found), np.asarray(expected), chunks, axis)
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-13)
    for special in (math.inf, math.nan):
        x[3, 100] = special
        assert math.isnan(function(da.from_array(x, chunks=(2, 100))).compute())


@pytest.mark.parametrize("name", ["var", "std"])
def test_chunks_whose_squares_underflow_have_a_result(name: str) -> None:
    """The squares of deviations come out as 0, and what is left of the variance would be below it."""
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    x = np.random.default_rng(0).integers(0, 1 << 52, 300).view(np.float64)  # subnormal
    result = getattr(tcu, name)(da.from_array(x, chunks=70)).compute()
    assert 0 <= result <= getattr(tcu, f"{name}_error_bound")(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's of torch.jit.script, in forward mode
@every_variance
def test_gradients_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    theirs = torch.std if name.endswith("std") else torch.var
    ours, segments = getattr(tcu, name), getattr(tcu, f"segment_{name}")
    x = torch.from_numpy(np.random.default_rng(3).standard_normal((4, 5))).requires_grad_()
    for axis, keepdims, correction in ((None, False, 0), (0, True, 1), ((0, 1), False, 1), (-1, False, 0.5)):

        def along(x: Any, axis: Any = axis, keepdims: bool = keepdims, correction: float = correction) -> Any:
            return ours(x, axis, keepdims=keepdims, correction=correction)

        expected = theirs(x, dim=axis, keepdim=keepdims, correction=correction)
        torch.testing.assert_close(along(x), expected)
        (found,), (wanted,) = (torch.autograd.grad(each.sum(), x) for each in (along(x), expected))
        torch.testing.assert_close(found, wanted)
        assert torch.autograd.gradcheck(along, (x,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(along, (x,))

    def ragged(x: Any) -> Any:
        return torch.nan_to_num(segments(x.reshape(-1), [0, 3, 3, 20], correction=0.5))

    assert torch.autograd.gradcheck(ragged, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(ragged, (x,))
    half = x.detach().half().requires_grad_()
    ours(half).backward()
    assert half.grad is not None
    assert half.grad.dtype == torch.float16
    flat = torch.ones(5, requires_grad=True)
    ours(flat).backward()
    assert flat.grad is not None
    assert (
        flat.grad.tolist() == [0.0] * 5
    )  # also of a standard deviation, whose gradient is a subgradient there


def test_gradients_are_made_of_the_sums_of_the_plan() -> None:
    """Not of PyTorch's, whose order differs from the CPU's to a GPU's."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.randn(3, 1001, requires_grad=True)
    (found,) = torch.autograd.grad(tcu.var(x, 1).sum(), x)
    plain = x.detach()
    wanted = 2 * ((plain - tcu.mean(plain, 1, keepdims=True)) / 1001)
    assert torch.equal(found, wanted)
