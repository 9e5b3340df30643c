"""Arithmetic of Python's integers, of any size and sign, by the fastest way at hand: GMP's, a transform of its own, Python's.

Lengths from which GMP is the faster, conversions included, were measured with Python 3.11 and gmpy2 2.3 on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tcu.errors import InvalidOperationError, ParameterError
from tcu.model import ntt
from tcu.model.gmp import gmp

__all__ = [
    "convolved",
    "divided",
    "from_digits",
    "isqrt",
    "power",
    "powmod",
    "product",
    "product_of_all",
    "to_text",
]

_MULTIPLY = 700
"""Bits of the shorter factor from which GMP multiplies faster than Python."""
_DIVIDE = 700
"""Bits of the divisor and of the quotient, likewise."""
_ROOT = 64
_POWMOD = 32
"""Bits of the modulus, likewise."""
_TRANSFORM = 60_000
"""Bits of the shorter factor from which the transform is faster than Python, where GMP is not there."""
_UNEVEN = 8
"""The longer factor is at most so many times as long then: Python cuts it into parts otherwise."""
_TEXT_BITS = 2000
"""Bits that Python itself turns into text: a program may forbid it more than 640 digits."""
_TEXT_DIGITS = 600
_MOST_BITS = 1 << 36
"""Of a power: GMP ends the process where memory does not suffice."""


def product(a: int, b: int) -> int:
    """a·b."""
    bits = min(a.bit_length(), b.bit_length())
    if bits < _MULTIPLY:
        return a * b
    library = gmp()
    if library is not None:
        x = library.mpz(a)
        return int(x * x if a is b else x * library.mpz(b))
    if bits < _TRANSFORM or max(a.bit_length(), b.bit_length()) > _UNEVEN * bits:
        return a * b
    return _transformed(a, b)


def _transformed(a: int, b: int) -> int:
    x = _halves(a)
    found = ntt.convolve(x, x if a is b else _halves(b))
    number = int.from_bytes(found.astype("<u2", copy=False).tobytes(), "little")
    return number if (a < 0) == (b < 0) else -number


def _halves(a: int) -> Any:
    """The digits of 16 bits of its magnitude, as a row."""
    length = -(-a.bit_length() // 16)
    line = np.frombuffer(abs(a).to_bytes(2 * length, "little"), "<u2")
    return line.astype(np.uint16, copy=False)[None]


def product_of_all(numbers: Sequence[int]) -> int:
    """Neighbours first, then pairs of pairs, so that factors are of like lengths."""
    level: list[Any] = list(numbers)
    library = gmp()
    multiplied: Callable[[Any, Any], Any] = product
    if library is not None and sum(map(int.bit_length, level)) >= 2 * _MULTIPLY:
        level, multiplied = [*map(library.mpz, level)], library.mul
    while len(level) > 1:
        level = [reduce(multiplied, level[i : i + 2]) for i in range(0, len(level), 2)]
    return int(level[0]) if level else 1


def convolved(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """The coefficients of a product of polynomials, none of them empty, by one product of two numbers (Kronecker).

    A polynomial's value at a power of two has its coefficients side by side.  One of the product has at most as many terms
    as the shorter factor has coefficients, and a bit more for its sign.
    """
    largest = [max(1, max(map(abs, x))) for x in (a, b)]
    width = -(-((min(len(a), len(b)) * largest[0] * largest[1]).bit_length() + 1) // 8)
    value = product(_packed(a, width), _packed(b, width))
    count = len(a) + len(b) - 1
    text = abs(value).to_bytes((count + 1) * width, "little")
    found, borrowed, half, whole = [], 0, 1 << 8 * width - 1, 1 << 8 * width
    for i in range(count):
        digit = int.from_bytes(text[i * width : (i + 1) * width], "little") + borrowed
        borrowed = int(digit >= half)
        found.append(digit - whole * borrowed if value >= 0 else whole * borrowed - digit)
    return found


def _packed(x: Sequence[int], width: int) -> int:
    """The value at 2^(8·width)."""
    return sum(
        sign * int.from_bytes(b"".join(max(sign * c, 0).to_bytes(width, "little") for c in x), "little")
        for sign in (1, -1)
    )


def power(a: int, n: int) -> int:
    """a to the n-th.  Raises ParameterError."""
    if n < 0:
        raise ParameterError(f"n={n}: give an exponent of 0 or more, or take powmod")
    bits = max(abs(a) - 1, 0).bit_length() * n  # none of -1, 0 and 1
    if bits > _MOST_BITS:
        raise ParameterError(
            f"the power has more than 2^36 bits, as n={n} and a has {a.bit_length()}: take powmod"
        )
    library = gmp() if bits >= _MULTIPLY else None
    if library is not None:
        return int(library.mpz(a) ** n)
    if bits < _TRANSFORM:
        return int(a**n)
    result = 1
    for bit in bin(n)[2:]:
        result = product(result, result)
        if bit == "1":
            result = product(result, a)
    return result


def divided(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder, rounded downwards.  Raises InvalidOperationError."""
    if b == 0:
        raise InvalidOperationError("b is 0, by which nothing can be divided: leave it out")
    library = gmp() if b.bit_length() >= _DIVIDE and a.bit_length() - b.bit_length() >= _DIVIDE else None
    if library is None:
        return divmod(a, b)
    quotient, remainder = library.f_divmod(library.mpz(a), library.mpz(b))
    return int(quotient), int(remainder)


def powmod(a: int, n: int, m: int) -> int:
    """a to the n-th modulo m.  Raises ParameterError, InvalidOperationError."""
    if m < 1:
        raise ParameterError(f"m={m}: give a modulus of 1 or more")
    if n < 0 and math.gcd(a, m) != 1:
        raise InvalidOperationError(
            "n is negative, and a has a divisor in common with m: a has no inverse modulo m, so take n of 0 or more"
        )
    library = gmp() if m.bit_length() >= _POWMOD else None
    return pow(a, n, m) if library is None else int(library.powmod(a, n, m))


def isqrt(a: int) -> int:
    """The root, rounded downwards.  Raises InvalidOperationError."""
    if a < 0:
        raise InvalidOperationError("a is negative, and has no square root among the integers: take -a")
    library = gmp() if a.bit_length() >= _ROOT else None
    return math.isqrt(a) if library is None else int(library.isqrt(library.mpz(a)))


def to_text(a: int) -> str:
    """Decimal digits, any number of them."""
    if a.bit_length() <= _TEXT_BITS:
        return str(a)
    library = gmp()
    if library is not None:
        return str(library.mpz(a).digits())
    digits = _digits(abs(a), {})
    return ("-" if a < 0 else "") + digits.lstrip("0")


def from_digits(digits: str) -> int:
    """The number that a line of decimal digits names."""
    library = gmp() if len(digits) > _TEXT_DIGITS else None
    return int(library.mpz(digits)) if library is not None else _from_digits(digits, {})


def _digits(a: int, powers: dict[int, int]) -> str:
    """The decimal digits of a number, zeros in front where halves have them."""
    if a.bit_length() <= _TEXT_BITS:
        return str(a)
    length = (
        1 << ((a.bit_length() * 3 // 10) - 1).bit_length() - 1
    )  # at most half of the digits or a few more
    high, low = divmod(a, _power_of_ten(length, powers))
    return _digits(high, powers) + _digits(low, powers).rjust(length, "0")


def _from_digits(digits: str, powers: dict[int, int]) -> int:
    if len(digits) <= _TEXT_DIGITS:
        return int(digits)
    length = 1 << (len(digits) - 1).bit_length() - 1
    high, low = digits[:-length], digits[-length:]
    return product(_from_digits(high, powers), _power_of_ten(length, powers)) + _from_digits(low, powers)


def _power_of_ten(n: int, powers: dict[int, int]) -> int:
    """10 to a power of two."""
    if n not in powers:
        powers[n] = 10**n if n <= _TEXT_DIGITS else product(*2 * (_power_of_ten(n // 2, powers),))
    return powers[n]
