"""Text of exact binary numbers, as a reader would write them by hand."""

from __future__ import annotations

from fractions import Fraction

from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, decode

__all__ = [
    "ROUGH",
    "bit_fields",
    "enough_digits",
    "hex_bits",
    "hex_float",
    "leading_exponent",
    "show",
    "show_code",
    "show_number",
]

DIGITS, ROUGH = 9, 3
"""Digits of an approximation, and of one that need only say how large an error is."""

_SHORT_DECIMAL = 8
_MAX_TERMS = 3
_MAX_ODD = 64
_HEAD = 23
"""Fraction bits of a short number that stands for one nearby."""


def leading_exponent(value: Fraction) -> int:
    """floor(log2 |value|) of a binary number other than zero."""
    return abs(value.numerator).bit_length() - value.denominator.bit_length()


def show(value: Fraction, limit: int = 20, *, digits: int = DIGITS, hexadecimal: bool = False) -> str:
    """A binary number, exactly, in at most ``limit`` characters; else its first digits after "≈".

    The first that fits of: a short decimal (0.375), 2^-24, 3·2^-25, a sum of
    powers (1 + 2^-23, 1 - 2^-24), a longer decimal, if wanted a hexadecimal float.
    """
    if value == 0:
        return "0"
    sign, magnitude = "-" if value < 0 else "", abs(value)
    exponent = leading_exponent(magnitude)
    odd = magnitude.numerator // (magnitude.numerator & -magnitude.numerator)
    lowest = exponent - odd.bit_length() + 1
    decimal = _decimal(magnitude) if lowest > -60 and exponent < 80 else None
    if decimal is not None and len(decimal) <= _SHORT_DECIMAL:
        return sign + decimal
    if odd == 1:
        return f"{sign}2^{exponent}"
    if odd < _MAX_ODD:
        return f"{sign}{odd}·2^{lowest}"
    for powers in (_plain_digits(odd), _signed_digits(odd)):
        if len(powers) <= max(_MAX_TERMS, limit // 6):
            text = _sum_of_powers([(digit * (-1 if sign else 1), at + lowest) for digit, at in powers])
            if len(text) <= limit:
                return text
    for exact in (decimal, hex_float(magnitude) if hexadecimal else None):
        if exact is not None and len(sign + exact) <= limit:
            return sign + exact
    return _approximate(value, exponent, digits)


def _approximate(value: Fraction, exponent: int, digits: int) -> str:
    """A short number nearby and the distance from it, else the first digits."""
    head = round(value * Fraction(2) ** (_HEAD - exponent)) * Fraction(2) ** (exponent - _HEAD)
    rest = value - head
    text = show(head, 12) if rest else "≈"
    if digits > ROUGH and not text.startswith("≈"):
        return f"≈ {text} {'-' if rest < 0 else '+'} {_scientific(abs(rest), ROUGH)}"
    return f"≈ {_scientific(value, digits)}"


def _scientific(value: Fraction, digits: int) -> str:
    exponent = leading_exponent(value)
    if abs(exponent) < 1000:
        return f"{float(value):.{digits}g}"
    return f"{float(value / Fraction(2) ** exponent):.{digits}g}·2^{exponent}"


def _decimal(magnitude: Fraction) -> str:
    places = magnitude.denominator.bit_length() - 1  # 2^-n has n decimals
    digits = str(magnitude.numerator * 5**places).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def _plain_digits(odd: int) -> list[tuple[int, int]]:
    return [(1, at) for at in reversed(range(odd.bit_length())) if odd >> at & 1]


def _signed_digits(odd: int) -> list[tuple[int, int]]:
    """The non-adjacent form: the fewest powers of two, added and subtracted."""
    digits = []
    at = 0
    while odd:
        if odd & 1:
            digit = 2 - (odd & 3)
            digits.append((digit, at))
            odd -= digit
        odd >>= 1
        at += 1
    return digits[::-1]


def _sum_of_powers(terms: list[tuple[int, int]]) -> str:
    text = ""
    for digit, exponent in terms:
        power = str(2**exponent) if 0 <= exponent <= 6 else f"2^{exponent}"
        if text:
            text += f" {'-' if digit < 0 else '+'} {power}"
        else:
            text = f"{'-' if digit < 0 else ''}{power}"
    return text


def hex_float(value: Fraction) -> str:
    """C's hexadecimal notation, exact for a binary number of any length."""
    if value == 0:
        return "0x0p+0"
    exponent = leading_exponent(value)
    fraction = abs(value) / Fraction(2) ** exponent - 1
    places = -(-(fraction.denominator.bit_length() - 1) // 4)
    digits = f"{int(fraction * 16**places):0{places}x}" if places else ""
    point = f".{digits}" if digits else ""
    return f"{'-' if value < 0 else ''}0x1{point}p{exponent:+d}"


def show_number(number: Number, limit: int = 20, *, digits: int = DIGITS, hexadecimal: bool = False) -> str:
    """The same for a decoded code: also "inf", "-inf" and "NaN"."""
    if number.kind == "nan":
        return "NaN"
    if number.kind == "inf":
        return "-inf" if number.negative else "inf"
    if number.negative and not number.significand:
        return "-0"
    return show(number.value, limit, digits=digits, hexadecimal=hexadecimal)


def show_code(code: int, fmt: str | Format, limit: int = 20) -> str:
    fmt = get_format(fmt)
    return show_number(decode(code, fmt), limit, digits=enough_digits(fmt))


def enough_digits(fmt: Format) -> int:
    """Digits that tell any two numbers of the format apart."""
    return 17 if fmt.bits == 64 else DIGITS


def hex_bits(code: int, fmt: str | Format) -> str:
    """The bit pattern, zero-padded to the width of the format."""
    return f"0x{code:0{-(-get_format(fmt).bits // 4)}x}"


def bit_fields(code: int, fmt: str | Format) -> str:
    """Sign, exponent field and fraction, apart."""
    fmt = get_format(fmt)
    digits = f"{code:0{fmt.bits}b}"
    return f"{digits[0]} {digits[1 : 1 + fmt.exponent_bits]} {digits[1 + fmt.exponent_bits :]}"
