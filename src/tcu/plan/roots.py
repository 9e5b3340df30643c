"""Roots of unity, correctly rounded: the same numbers on every machine, whatever its libraries of functions are.

Angles are fractions of a turn in whole numbers, reduced to an eighth of one.  A sine and a cosine there come from Taylor's
series in fixed point; of a long table, every root is a product of two of a short one, in two binary64 numbers each, whose
error is below 2^-99.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DIGITS", "circle", "roots_at", "rounded", "unit_roots"]

DIGITS = 160
"""Binary digits of the fixed point."""
_DIRECT = 512
"""Roots of an eighth of a turn that are computed one by one, at most."""
_PRECISIONS = {"binary16": 11, "binary32": 24, "binary64": 53}

_Pair = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""A number as the sum of two, the second below half an ulp of the first."""


@lru_cache(maxsize=1)
def _turn() -> int:
    """2π, by Machin's formula."""
    one = 1 << DIGITS + 32

    def arctan_of_inverse(x: int) -> int:
        total, term, k = 0, one // x, 0
        while term:
            total += (term if k % 2 == 0 else -term) // (2 * k + 1)
            term, k = term // (x * x), k + 1
        return total

    return 8 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> 32


@lru_cache(maxsize=1 << 14)
def circle(k: int, n: int) -> tuple[int, int]:
    """Cosine and sine of 2πk/n in fixed point, each within 2^-150."""
    quadrant, rest = divmod(4 * (k % n), n)
    mirrored = 2 * rest > n
    angle = _turn() * (n - rest if mirrored else rest) // (4 * n)
    one = 1 << DIGITS
    square = angle * angle >> DIGITS
    cosine, sine, term, order = one, angle, one, 0
    while term:
        order += 2
        term = (term * square >> DIGITS) // (order * (order - 1))
        sign = -1 if order % 4 else 1
        cosine += sign * term
        sine += sign * ((term * angle >> DIGITS) // (order + 1))
    if mirrored:
        cosine, sine = sine, cosine
    for _ in range(quadrant):
        cosine, sine = -sine, cosine
    return cosine, sine


def rounded(value: int, work: str) -> float:
    """A number of the fixed point, to the nearest normal one of "binary16", "binary32" or "binary64"."""
    if value < 0:
        return -rounded(-value, work)
    dropped = value.bit_length() - _PRECISIONS[work]
    if dropped <= 0:
        return math.ldexp(value, -DIGITS)
    # Nothing of this is a tie but what is exact.
    return math.ldexp((value + (1 << dropped - 1)) >> dropped, dropped - DIGITS)


def unit_roots(n: int, work: str) -> npt.NDArray[Any]:
    """(n, 2) of float16, float32 or float64: real and imaginary parts of exp(-2πik/n), each correctly rounded."""
    return roots_at(np.arange(n, dtype=np.int64), n, work)


def roots_at(k: npt.NDArray[np.int64], n: int, work: str) -> npt.NDArray[Any]:
    """The same of some k, from 0 to n - 1: (..., 2)."""
    quadrant, rest = np.divmod(4 * k, n)
    mirrored = 2 * rest > n
    # Angles up to an eighth of a turn, in steps of 1/4n of one, or of 1/n.
    at, steps = np.where(mirrored, n - rest, rest), 4 * n
    if n % 4 == 0:
        at, steps = at // 4, n
    c, s = (_nearest(part, work) for part in _on_the_eighth(at, steps))
    c, s = np.where(mirrored, s, c), np.where(mirrored, c, s)
    result = np.empty((*k.shape, 2), c.dtype)
    result[..., 0] = np.choose(quadrant, (c, -s, -c, s))
    result[..., 1] = -np.choose(quadrant, (s, c, -s, -c))
    result += 0  # no zero is negative
    return result


def _on_the_eighth(at: npt.NDArray[np.int64], n: int) -> tuple[_Pair, _Pair]:
    """Cosines and sines of 2π·at/n, at up to n/8."""
    most = n // 8
    if most < _DIRECT:
        cosines, sines = _pairs(range(most + 1), n)
        return _taken(cosines, at), _taken(sines, at)
    shift = (most.bit_length() + 1) // 2
    high, low = at >> shift, at & ((1 << shift) - 1)
    a, b = (_taken(part, high) for part in _pairs(range(0, most + 1, 1 << shift), n))
    c, d = (_taken(part, low) for part in _pairs(range(1 << shift), n))
    bd = _product(b, d)
    return _sum(_product(a, c), (-bd[0], -bd[1])), _sum(_product(a, d), _product(b, c))


def _taken(pair: _Pair, at: npt.NDArray[np.int64]) -> _Pair:
    return pair[0][at], pair[1][at]


def _pairs(numbers: range, n: int) -> tuple[_Pair, _Pair]:
    points = [circle(k, n) for k in numbers]
    return _pair_of([x for x, _ in points]), _pair_of([y for _, y in points])


def _pair_of(values: list[int]) -> _Pair:
    high = [rounded(value, "binary64") for value in values]
    low = [
        rounded(value - int(math.ldexp(h, DIGITS)), "binary64") for value, h in zip(values, high, strict=True)
    ]
    return np.array(high), np.array(low)


def _two_sum(a: Any, b: Any) -> _Pair:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Any, b: Any) -> _Pair:
    """T. J. Dekker, A floating-point technique for extending the available precision, 1971."""
    p = a * b
    factor = 134217729.0  # 2^27 + 1
    a1 = a * factor - (a * factor - a)
    b1 = b * factor - (b * factor - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _product(x: _Pair, y: _Pair) -> _Pair:
    high, low = _two_product(x[0], y[0])
    return _two_sum(high, low + (x[0] * y[1] + x[1] * y[0]))


def _sum(x: _Pair, y: _Pair) -> _Pair:
    high, low = _two_sum(x[0], y[0])
    more, rest = _two_sum(x[1], y[1])
    high, low = _two_sum(high, low + more)
    return _two_sum(high, low + rest)


def _nearest(pair: _Pair, work: str) -> npt.NDArray[Any]:
    """Rounded once."""
    high, low = pair
    if work == "binary64":
        return high
    # To odd first: then the second rounding knows on which side of a tie the number lies.
    bits = np.where(low * high < 0, np.nextafter(high, 0), high).view(np.int64)
    odd = (bits | (low != 0)).view(np.float64)
    narrow: npt.NDArray[Any] = odd.astype(np.float16 if work == "binary16" else np.float32)
    return narrow
