"""Exact numbers by the rules of IEEE 754 for signs, inf and NaN, for the definition."""

from __future__ import annotations

from collections.abc import Sequence

from tcu.formats.format import Format
from tcu.formats.scalar import Number

__all__ = ["add", "in_units", "multiply", "special_sum"]


def multiply(p: Number, q: Number) -> Number:
    """The exact product; a NaN without sign and payload."""
    negative = p.negative != q.negative
    if p.kind == q.kind == "finite":
        return Number("finite", negative, p.significand * q.significand, p.exponent + q.exponent)
    if "nan" in (p.kind, q.kind):
        return Number("nan")
    zero = any(n.kind == "finite" and n.significand == 0 for n in (p, q))
    return Number("nan") if zero else Number("inf", negative)


def special_sum(numbers: Sequence[Number], output: Format) -> int | None:
    """The code of a sum in which inf or NaN takes part, NaN with all fraction bits set; else None."""
    kinds = {number.kind for number in numbers}
    if kinds == {"finite"}:
        return None
    signs = {number.negative for number in numbers if number.kind == "inf"}
    if "nan" in kinds or len(signs) == 2:
        return output.nan_code
    return output.infinity_code | (output.sign_code if True in signs else 0)


def in_units(number: Number, exponent: int) -> int:
    """A finite number in units of 2^exponent, which is at most its own exponent."""
    magnitude = number.significand << (number.exponent - exponent)
    return -magnitude if number.negative else magnitude


def add(p: Number, q: Number) -> Number:
    """The exact sum; of zero it is -0 where both are, else +0."""
    signs = {number.negative for number in (p, q) if number.kind == "inf"}
    if "nan" in (p.kind, q.kind) or len(signs) == 2:
        return Number("nan")
    if signs:
        return Number("inf", True in signs)
    lowest = min(p.exponent, q.exponent)
    total = in_units(p, lowest) + in_units(q, lowest)
    if total:
        return Number("finite", total < 0, abs(total), lowest)
    return Number("finite", p.negative and q.negative and p.significand == q.significand == 0)
