"""Powers of two by which the numbers of whole rows are multiplied before they are added up as whole numbers, without an order."""

from __future__ import annotations

__all__ = ["LIFTS", "LIFTS64", "SCALE", "SCALE64", "lift_of"]

SCALE, SCALE64 = 44, 80
"""Exponents of what terms reach at most, in binary32 and in binary64."""
LIFTS, LIFTS64 = (-60, 80, 80, -60, -100), (-500, 600, 500, -600, -900)
"""Exponents: below the first rows are multiplied by two to the second, above the third by two to the fourth; and the lowest
that a row's largest deviation is taken for."""
_NO_EPS, _HALFWAY = 2.0**-900, 300
"""Of binary64: an eps that is not below the first would overflow; it hides variances that need more than the second."""


def lift_of(eps: float, is_wide: bool) -> int:
    """The exponent of what rows of small numbers are multiplied by."""
    return LIFTS[1] if not is_wide else LIFTS64[1] if eps < _NO_EPS else _HALFWAY
