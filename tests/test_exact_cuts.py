"""Contract: exact sums by cuts are exact on any numbers, and go by bins where the cuts cannot prove it.

The reference adds Python integers.  Stretches of all ranges of magnitude,
near the largest number, subnormal, and with one number that spoils its
stretch alone.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from numbers_of_all_kinds import KINDS, draw

from tcu.formats import format_of
from tcu.model.cuts import STRETCH, add_by_cuts
from tcu.ops.exact import exact_sum

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def integer_of(x: npt.NDArray[Any]) -> int:
    """The sum of the finite numbers in units of 2^-1074."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = x.astype(np.float64)
    mantissas, exponents = np.frexp(wide[np.isfinite(wide)])
    integers = np.ldexp(mantissas, 53).astype(np.int64).tolist()
    shifts = (exponents.astype(np.int64) - 53 + 1074 + 53).tolist()  # 53 more, for subnormals
    return sum(integer << shift for integer, shift in zip(integers, shifts, strict=True)) >> 53


def check(x: npt.NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        tally = exact_sum(x, format_of(x.dtype))
        wide = x.astype(np.float64)
    assert tally.integer == integer_of(x)
    assert tally[1:] == (np.sum(wide == np.inf), np.sum(wide == -np.inf), np.sum(np.isnan(wide)))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("n", [1, 7, 8, 9, STRETCH - 1, STRETCH, STRETCH + 9, 3 * STRETCH + 5])
def test_numbers_of_all_kinds(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    for kind in KINDS:
        check(draw(rng, n, dtype, kind))


@pytest.mark.parametrize("spread", [0, 10, 28, 30, 33, 34, 40, 86, 100, 600])
def test_ranges_up_to_and_beyond_what_cuts_hold(spread: int) -> None:
    rng = np.random.default_rng(spread)
    for top in (-1022, -1000, -950, 0, 900, 970, 971, 975, 1000, 1015, 1023):
        exponents = np.maximum(top - rng.integers(0, spread + 1, 2 * STRETCH + 3), -1074)
        with np.errstate(all="ignore"):
            x = np.ldexp(rng.uniform(-1, 1, exponents.size), exponents)
        check(x)
        x[rng.integers(x.size)] = np.ldexp(1.0, top - 1 if top > -1022 else -1022)
        check(np.abs(x))


def test_the_largest_sums_of_a_stretch() -> None:
    """All of one sign and with all bits set, where the accumulators are fullest."""
    for exponent in (-1074, -1000, -53, 0, 900, 970):
        x = np.full(STRETCH, np.ldexp(1 - 2.0**-53, exponent + 1))
        check(x)
        check(-x)
        halves = np.ldexp(0.5 + 2.0 ** -np.arange(43, 47), exponent)  # ties at the cuts, and beside them
        for each in halves:
            check(np.full(STRETCH, each))
        check(np.resize(halves, STRETCH))
    check(np.full(STRETCH, np.finfo(np.float64).max))
    check(np.full(STRETCH, np.float32(np.finfo(np.float32).max)))


def bins_used(x: npt.NDArray[Any]) -> tuple[bool, bool]:
    """(whether numbers went into the narrow bins one by one, whether sums of cuts into the wide ones)."""
    fmt = format_of(x.dtype)
    narrow, wide = np.zeros((4, 1 << fmt.exponent_bits), np.int64), np.zeros((2, 1 << 11, 2), np.int64)
    codes = x.view(fmt.code_dtype)
    numbers = codes if fmt.bits == 16 else x
    add_by_cuts(
        numbers, codes, fmt.name == "binary16", fmt.fraction_bits, fmt.bits - 1, (1 << fmt.exponent_bits) - 1,
        narrow, wide,
    )  # fmt: skip
    return bool(narrow.any()), bool(wide.any())


def test_which_way_numbers_go() -> None:
    x = np.random.default_rng(1).standard_normal(2 * STRETCH).astype(np.float32)
    assert bins_used(x) == (False, True)
    assert bins_used(x.astype(np.float16)) == (False, True)
    x[0] = 1e-30
    x[1] = 1e30
    assert bins_used(x) == (True, True), "one stretch falls back, the other does not"
    x[STRETCH] = np.inf
    assert bins_used(x) == (True, False)
    assert bins_used(np.ones(STRETCH + 3, np.float32)) == (True, True), (
        "what fills no register goes into bins"
    )
