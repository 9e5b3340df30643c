"""Decode, encode and round one number, written to be read.

These functions are the definition; :mod:`tcu.formats.array` does the same for
arrays and is tested against them.  A finite number is (-1)^negative ·
significand · 2^exponent with Python integers, so nothing here ever rounds
unless it says so.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Literal, NamedTuple

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format

__all__ = ["Number", "Overflow", "Rounding", "decode", "encode", "round_shift", "round_to"]

Rounding = Literal["RNE", "RZ", "RU", "RD", "RO"]
"""To nearest with ties to even, toward zero, toward +inf, toward -inf, to odd: what is cut sets the last bit kept."""
ROUNDINGS: tuple[Rounding, ...] = ("RNE", "RZ", "RU", "RD", "RO")

Overflow = Literal["infinity", "saturate"]
"""What becomes of a number that after rounding exceeds the largest finite one.

"infinity" gives inf under every rounding, as tensor cores do (NaN in formats
without inf); "saturate" gives the largest finite number, also for inf itself.
"""
OVERFLOWS: tuple[Overflow, ...] = ("infinity", "saturate")


class Number(NamedTuple):
    """An exact binary number, an infinity or a NaN."""

    kind: Literal["finite", "inf", "nan"]
    negative: bool = False
    significand: int = 0
    """Magnitude as an integer; of a NaN, its payload with the quiet bit first, 52 bits wide."""
    exponent: int = 0

    @classmethod
    def of(cls, value: int | float | Fraction) -> Number:
        """The number that equals ``value`` exactly; a Fraction needs a power of two below the line."""
        if isinstance(value, float):
            if math.isnan(value):
                return cls("nan", math.copysign(1.0, value) < 0, 1 << 51)
            if math.isinf(value):
                return cls("inf", value < 0)
            if value == 0:
                return cls("finite", math.copysign(1.0, value) < 0)
        fraction = Fraction(value)
        low = fraction.denominator.bit_length() - 1
        if fraction.denominator != 1 << low:
            raise ParameterError(f"{value} is not a binary number: its denominator must be a power of two")
        return cls("finite", fraction < 0, abs(fraction.numerator), -low)

    @property
    def value(self) -> Fraction:
        """The exact value; raises ParameterError for inf and NaN."""
        if self.kind != "finite":
            raise ParameterError(f"{self.kind} has no rational value: test .kind first")
        signed = -self.significand if self.negative else self.significand
        return Fraction(signed << max(self.exponent, 0), 1 << max(-self.exponent, 0))

    def __float__(self) -> float:
        if self.kind == "nan":
            return math.copysign(math.nan, -1.0 if self.negative else 1.0)
        magnitude = math.inf if self.kind == "inf" else float(abs(self.value))
        return -magnitude if self.negative else magnitude


def decode(code: int, fmt: str | Format) -> Number:
    """The number that ``code`` stands for.

    Subnormals keep the exponent emin of their format and a significand below
    2^fraction_bits: that is how tensor cores align them.
    """
    return _decode(index(code), get_format(fmt))


@lru_cache(maxsize=1 << 16)
def _decode(code: int, fmt: Format) -> Number:
    if not 0 <= code < 1 << fmt.bits:
        raise ParameterError(f"code {code:#x} does not fit the {fmt.bits} bits of {fmt.name}")
    if not fmt.is_float:
        value = code - (1 << fmt.bits) if fmt.signed and code & fmt.sign_code else code
        return Number("finite", value < 0, abs(value), 0)
    negative = bool(code & fmt.sign_code)
    magnitude = code & ~fmt.sign_code
    field, fraction = magnitude >> fmt.fraction_bits, magnitude & ((1 << fmt.fraction_bits) - 1)
    if fmt.specials == "negative zero" and code == fmt.nan_code:
        return Number("nan", negative)
    if magnitude > fmt.max_finite_code:
        if fmt.has_infinity and fraction == 0:
            return Number("inf", negative)
        return Number("nan", negative, fraction << (52 - fmt.fraction_bits))
    significand = fraction if field < fmt.least_field else fraction | 1 << fmt.fraction_bits
    exponent = max(field, fmt.least_field) - fmt.bias - fmt.fraction_bits
    return Number("finite", negative, significand, exponent)


def round_shift(magnitude: int, shift: int, rounding: Rounding, negative: bool) -> int:
    """``magnitude`` · 2^-shift as an integer, rounded; the sign matters to RU and RD."""
    if shift <= 0:
        return magnitude << -shift
    quotient, remainder = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    if rounding == "RNE":
        up = remainder > half or (remainder == half and quotient & 1 == 1)
    elif rounding == "RZ":
        up = False
    elif rounding == "RO":
        up = remainder > 0 and quotient & 1 == 0
    else:
        up = remainder > 0 and negative == (rounding == "RD")
    return quotient + up


def encode(
    number: Number, fmt: str | Format, rounding: Rounding = "RNE", overflow: Overflow = "infinity"
) -> int:
    """The code of ``number`` rounded once to ``fmt``, subnormals included.

    Zero keeps its sign, if the format has it.  A NaN keeps its sign and the
    leading bits of its payload and becomes quiet, unless the format has one
    NaN.  Formats without NaN, integers among them, saturate; NaN raises
    ParameterError, and so does inf for integers.  A format without a sign gives
    NaN for what is below zero, and for zero where it has none.
    """
    fmt = get_format(fmt)
    if rounding not in ROUNDINGS:
        raise ParameterError(f"rounding {rounding!r}: choose one of {', '.join(ROUNDINGS)}")
    if overflow not in OVERFLOWS:
        raise ParameterError(f"overflow {overflow!r}: choose one of {', '.join(OVERFLOWS)}")
    if not fmt.is_float:
        return _encode_integer(number, fmt, rounding)
    zero = number.kind == "finite" and number.significand == 0
    if not fmt.signed and number.kind != "nan" and not (zero and fmt.has_zero) and (number.negative or zero):
        return fmt.nan_code
    sign = fmt.sign_code if number.negative else 0
    if number.kind == "nan":
        if not fmt.has_nan:
            raise ParameterError(f"{fmt.name} has no NaN: remove it, or use a format that has one")
        if not fmt.has_infinity:
            return sign | fmt.nan_code
        payload = number.significand >> (52 - fmt.fraction_bits)
        return sign | fmt.infinity_code | 1 << (fmt.fraction_bits - 1) | payload
    overflowed = fmt.max_finite_code
    if overflow == "infinity" and fmt.has_nan:
        overflowed = fmt.infinity_code if fmt.has_infinity else fmt.nan_code
    if number.kind == "inf":
        return sign | overflowed
    if zero:
        return _signed(0, sign, fmt)
    leading = number.significand.bit_length() - 1 + number.exponent
    exponent = max(leading, fmt.emin)
    shift = exponent - fmt.fraction_bits - number.exponent
    rounded = round_shift(number.significand, shift, rounding, number.negative)
    # A significand that rounds up to the next power of two carries into the
    # exponent field by itself, and a subnormal into the first normal.
    code = (exponent - fmt.emin << fmt.fraction_bits) + rounded
    if (
        not fmt.has_zero
    ):  # every number has its leading bit in front, and the smallest stands for all below it
        code = max(code - (1 << fmt.fraction_bits), 0)
    return _signed(code if code <= fmt.max_finite_code else overflowed, sign, fmt)


def _signed(code: int, sign: int, fmt: Format) -> int:
    """The code with its sign; zero without one where -0 means NaN."""
    return code if code == 0 and fmt.specials == "negative zero" else sign | code


def _encode_integer(number: Number, fmt: Format, rounding: Rounding) -> int:
    if number.kind != "finite":
        raise ParameterError(f"{fmt.name} has no {number.kind}: remove it, or use a floating-point format")
    magnitude = round_shift(number.significand, -number.exponent, rounding, number.negative)
    lowest = -(1 << fmt.fraction_bits) if fmt.signed else 0
    value = min(max(-magnitude if number.negative else magnitude, lowest), fmt.max_finite_code)
    return value & ((1 << fmt.bits) - 1)


def round_to(
    value: int | float | Fraction,
    fmt: str | Format,
    rounding: Rounding = "RNE",
    overflow: Overflow = "infinity",
) -> float:
    """``value`` rounded once to ``fmt``, as a Python float (exact for every format here)."""
    return float(decode(encode(Number.of(value), fmt, rounding, overflow), fmt))
