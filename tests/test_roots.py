"""Contract of tcu.plan.roots: every root of unity, in binary32 and binary64, is the exact number rounded once, and no zero
is negative.  The reference is mpmath, with 300 binary digits, and Python's own rounding of whole numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tcu.plan.fft import chirp_of, fft_plan, level_twiddles, pass_twiddles
from tcu.plan.roots import DIGITS, circle, roots_at, rounded, unit_roots

mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")

WORKS = ("binary32", "binary64")
PRECISION = 300


def nearest(value: Any, work: str) -> float:
    """An mpmath number to the nearest of a format, ties to even; none of them is subnormal."""
    with mpmath.workprec(2 * PRECISION):
        whole = int(mpmath.nint(value * mpmath.mpf(2) ** PRECISION))
    spare = max(abs(whole).bit_length() - (24 if work == "binary32" else 53), 0)
    quotient, rest = divmod(abs(whole), 1 << spare)
    half = 1 << spare >> 1
    quotient += rest > half or (rest == half != 0 and quotient % 2)
    return math.copysign(math.ldexp(quotient, spare - PRECISION), whole)


def root(k: int, n: int, work: str) -> tuple[float, float]:
    """exp(-2πik/n), rounded; where a part is 0 it is said to be so by whole numbers."""
    with mpmath.workprec(PRECISION + 20):
        angle = 2 * mpmath.pi * k / n
        c = 0.0 if 4 * k % n == 0 and (4 * k // n) % 2 else nearest(mpmath.cos(angle), work)
        s = 0.0 if 2 * k % n == 0 else nearest(-mpmath.sin(angle), work)
    return c, s


def wrong(table: Any, n: int, work: str, where: Any) -> list[int]:
    return [k for k in where if tuple(map(float, table[k])) != root(k, n, work)]


@pytest.mark.parametrize("work", WORKS)
def test_all_roots_of_short_circles_are_correctly_rounded(work: str) -> None:
    for n in range(1, 81):
        table = unit_roots(n, work)
        assert table.dtype == (np.float32 if work == "binary32" else np.float64)
        assert table.shape == (n, 2)
        assert not wrong(table, n, work, range(n)), n
        assert not np.signbit(table[table == 0]).any()


LONG = [4096, 4104, 5040, 10007, 16384, 3**9, 5**7, 7**6, 1 << 17, 3 << 16, 1000003, 1 << 20]
"""On both sides of where roots become products of two."""


@pytest.mark.slow(1)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("n", LONG)
def test_roots_of_long_circles_are_correctly_rounded(n: int, work: str) -> None:
    table = unit_roots(n, work)
    edges = [k % n for eighth in range(9) for k in range(eighth * n // 8 - 3, eighth * n // 8 + 4)]
    drawn = np.random.default_rng(n).integers(0, n, 400).tolist()
    assert not wrong(table, n, work, [*edges, *drawn])


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_roots_of_the_longest_circles_are_correctly_rounded(work: str) -> None:
    for n in (1 << 31, (1 << 32) - 2, 3 << 29, 7**11, 2 * 1000000007):
        k = np.random.default_rng(7).integers(0, n, 200)
        for at, found in zip(k.tolist(), roots_at(k, n, work), strict=True):
            assert tuple(map(float, found)) == root(at, n, work), (at, n)


def test_a_root_that_is_off_by_one_unit_is_noticed() -> None:
    table = unit_roots(60, "binary64")
    table[7, 1] = np.nextafter(table[7, 1], 0)
    assert wrong(table, 60, "binary64", range(60)) == [7]


def test_what_is_rounded_twice_is_noticed() -> None:
    """For binary32, roots go to binary64 to odd first; to the nearest would round some twice."""
    one = 1 << DIGITS
    tie = one + (one >> 24)  # half-way between 1 and its successor
    assert rounded(tie - 1, "binary32") == 1.0
    assert rounded(tie + 1, "binary32") == 1.0 + 2.0**-23
    assert np.float32(rounded(tie + 1, "binary64")) == 1.0
    assert rounded(-tie - 1, "binary32") == -1.0 - 2.0**-23


def test_the_fixed_point_is_off_by_less_than_it_says() -> None:
    with mpmath.workprec(PRECISION):
        for n in (3, 7, 16, 127, 4096, 1 << 31):
            for k in {0, 1, n // 8, n // 3, n // 2, n - 1}:
                for found, exact in zip(circle(k, n), (mpmath.cos, mpmath.sin), strict=True):
                    error = mpmath.mpf(found) / mpmath.mpf(2) ** DIGITS - exact(2 * mpmath.pi * k / n)
                    assert abs(error) < mpmath.mpf(2) ** -150, (k, n)


def test_tables_of_a_transform_are_such_roots() -> None:
    for work in WORKS:
        table = level_twiddles(60, 5, work)
        assert table.shape == (12, 4, 2)
        for q in range(12):
            assert [tuple(map(float, each)) for each in table[q]] == [
                root(q * k, 60, work) for k in range(1, 5)
            ]
        n = 210
        shift, high, low = pass_twiddles(n, work)
        assert [tuple(map(float, each)) for each in low] == [root(k % n, n, work) for k in range(1 << shift)]
        assert [tuple(map(float, each)) for each in high] == [
            root(k, n, work) for k in range(0, n, 1 << shift)
        ]
        chirp = chirp_of(97, work)
        assert [tuple(map(float, each)) for each in chirp] == [
            root(j * j % 194, 194, work) for j in range(97)
        ]
    assert fft_plan(97, "binary32").chirp is not None
