"""Exact numbers by the rules of IEEE 754 for signs, inf and NaN, for the definition."""

from __future__ import annotations

from collections.abc import Sequence

from tcu.formats.format import Format
from tcu.formats.scalar import Number

__all__ = ["add", "multiply", "multiply_special", "special_sum"]


def multiply_special(p: Number, q: Number) -> Number:
    """The kind and sign of a product, as far as inf and NaN are concerned."""
    negative = p.negative != q.negative
    if "nan" in (p.kind, q.kind):
        return Number("nan")
    if "inf" in (p.kind, q.kind):
        zero = any(n.kind == "finite" and n.significand == 0 for n in (p, q))
        return Number("nan") if zero else Number("inf", negative)
    return Number("finite")


def special_sum(numbers: Sequence[Number], output: Format) -> int | None:
    """The code of a sum in which inf or NaN takes part, NaN with all fraction bits set; else None."""
    signs = {number.negative for number in numbers if number.kind == "inf"}
    if any(number.kind == "nan" for number in numbers) or len(signs) == 2:
        return output.nan_code
    if signs:
        return output.infinity_code | (output.sign_code if True in signs else 0)
    return None


def multiply(p: Number, q: Number) -> Number:
    """The exact product."""
    special = multiply_special(p, q)
    if special.kind != "finite":
        return special
    return Number("finite", p.negative != q.negative, p.significand * q.significand, p.exponent + q.exponent)


def add(p: Number, q: Number) -> Number:
    """The exact sum; of zero it is -0 where both are, else +0."""
    signs = {number.negative for number in (p, q) if number.kind == "inf"}
    if "nan" in (p.kind, q.kind) or len(signs) == 2:
        return Number("nan")
    if signs:
        return Number("inf", True in signs)
    total = Number.of(p.value + q.value)
    if total.significand:
        return total
    return Number("finite", p.negative and q.negative and p.significand == q.significand == 0)
