"""Quotients and square roots that round to any format as the exact value does.

The leading bits are kept and one more, the sticky bit, says whether anything
is left behind them: to a rounding of fewer bits that is all there is to know.
"""

from __future__ import annotations

import math

from tcu.formats.scalar import Number

__all__ = ["quotient", "square_root"]

_KEPT = 64
"""Bits kept in front of the sticky bit; the widest format needs 54."""


def quotient(number: Number, divisor: int) -> Number:
    """``number`` / ``divisor``, for a divisor from 1 up; inf and NaN stay what they are."""
    if number.kind != "finite":
        return number
    shift = max(0, _KEPT + divisor.bit_length() - number.significand.bit_length())
    whole, left = divmod(number.significand << shift, divisor)
    return _with_sticky(number, whole, left > 0, number.exponent - shift)


def square_root(number: Number, divisor: int = 1) -> Number:
    """The square root of a number that is not negative over a divisor from 1 up; inf and NaN stay what they are."""
    if number.kind != "finite":
        return number
    shift = max(0, 2 * _KEPT + divisor.bit_length() - number.significand.bit_length())
    shift += (number.exponent - shift) % 2
    square, left = divmod(number.significand << shift, divisor)
    root = math.isqrt(square)
    return _with_sticky(number, root, left > 0 or root * root != square, (number.exponent - shift) // 2)


def _with_sticky(number: Number, kept: int, sticky: bool, exponent: int) -> Number:
    return Number("finite", number.negative, kept << 1 | sticky, exponent - 1)
