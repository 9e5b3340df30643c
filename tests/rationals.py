"""Exact sums, for tests: of integers, since every number of binary64 is a multiple of 2**-1074.

Fractions would look for a common divisor at each addition, which takes far longer.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["exact_dot", "exact_sum", "in_units"]

_SMALLEST = 1074
"""2 to the power of minus this."""


def in_units(value: Any) -> int:
    """A number of binary64 as a multiple of the smallest."""
    numerator, denominator = float(value).as_integer_ratio()
    return numerator << _SMALLEST + 1 - denominator.bit_length()


def exact_sum(x: Any) -> Fraction:
    return Fraction(sum(map(in_units, np.asarray(x).ravel().tolist())), 1 << _SMALLEST)


def exact_dot(x: Any, y: Any) -> Fraction:
    pairs = zip(np.asarray(x).ravel().tolist(), np.asarray(y).ravel().tolist(), strict=True)
    return Fraction(sum(in_units(p) * in_units(q) for p, q in pairs), 1 << 2 * _SMALLEST)
