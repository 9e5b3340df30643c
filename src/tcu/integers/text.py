"""Decimal text of integers, there and back."""

from __future__ import annotations

import builtins
from typing import Any

from tcu.errors import ParameterError
from tcu.integers.numbers import multiply, square
from tcu.integers.operands import each
from tcu.model import gmp

__all__ = ["from_text", "to_text"]

_TEXT, _DIGITS = 750, 550
"""Bits from which GMP makes text faster, and digits from which it reads it faster: see tcu/integers/numbers.py."""
_TEXT_BITS = 2000
"""Bits that Python itself turns into text: a program may forbid it more than 640 digits."""
_TEXT_DIGITS = 600


def to_text(a: Any) -> Any:
    """The decimal digits of an integer, of any number of them, behind a "-" where it is negative.

    Python's own ``str`` refuses more than 4,300 digits, and before Python 3.12 its time grows as their square.

    Examples
    --------
    >>> import tcu
    >>> len(tcu.integers.to_text(-(7**20000)))
    16903
    """
    if type(a) is not int:
        return each(to_text, a=a)
    if a.bit_length() < _TEXT:
        return str(a)
    library = gmp.library or gmp.load()
    if library is not None:
        return str(library.digits(a))
    digits = _digits(abs(a), {})
    return ("-" if a < 0 else "") + digits.lstrip("0")


def from_text(text: str) -> int:
    """The integer that decimal digits name, behind "+", "-" or nothing; spaces around it are skipped.

    Raises ParameterError for any other text.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.from_text("-1" + 5000 * "0") == -(10**5000)
    True
    """
    if not isinstance(text, str):
        raise _no_number(text)
    if len(text) < _DIGITS and text.isascii() and "_" not in text:
        try:
            return int(text)
        except ValueError:
            raise _no_number(text) from None
    line = text.strip()
    digits = line[1:] if line[:1] in ("+", "-") else line
    if not (digits.isascii() and digits.encode().isdigit()):  # of bytes it takes a tenth of the time of text
        raise _no_number(text)
    library = gmp.library or gmp.load()
    number = _from_digits(digits, {}) if library is None else int(library.mpz(digits, 10))
    return -number if line[0] == "-" else number


def _no_number(text: object) -> ParameterError:
    shown = repr(text) if len(repr(text)) < 40 else repr(text)[:36] + "..."
    return ParameterError(f"{shown} is no decimal integer: give digits, behind + or - or nothing")


def _digits(a: int, powers: dict[int, int]) -> str:
    """The decimal digits of a number, zeros in front where halves have them."""
    if a.bit_length() <= _TEXT_BITS:
        return str(a)
    length = (
        1 << ((a.bit_length() * 3 // 10) - 1).bit_length() - 1
    )  # at most half of the digits or a few more
    high, low = builtins.divmod(a, _power_of_ten(length, powers))
    return _digits(high, powers) + _digits(low, powers).rjust(length, "0")


def _from_digits(digits: str, powers: dict[int, int]) -> int:
    if len(digits) <= _TEXT_DIGITS:
        return int(digits)
    length = 1 << (len(digits) - 1).bit_length() - 1
    high, low = digits[:-length], digits[-length:]
    return int(multiply(_from_digits(high, powers), _power_of_ten(length, powers))) + _from_digits(
        low, powers
    )


def _power_of_ten(n: int, powers: dict[int, int]) -> int:
    """10 to a power of two."""
    if n not in powers:
        powers[n] = 10**n if n <= _TEXT_DIGITS else square(_power_of_ten(n // 2, powers))
    return powers[n]
