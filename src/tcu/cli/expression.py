"""The little language of ``tcu explain``: sums of numbers and of products.

    expression = [sign] term {sign term}
    term       = factor [("*" | "·" | "×") factor]
    factor     = number | "(" sum of numbers ")"
    number     = decimal | 2^n | decimal*2^n | hexadecimal float | inf | nan

``**`` may stand for ``^``.  ``1.5*2^-3`` is one number; ``1.5×2^-3`` is a
product of two.  Everything is exact until it is rounded to a format; -0 is 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from tcu.errors import ParameterError

__all__ = ["Given", "Value", "parse_expression", "parse_list", "parse_number"]

Value = Fraction | float
"""An exact number; a float only for inf, -inf and NaN."""

_MAX_EXPONENT = 5000
_MAX_LENGTH = 4000
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_POWER = r"2\s*(?:\^|\*\*)\s*(?:[+-]?\d+|\(\s*[+-]?\s*\d+\s*\))"
_NUMBER = re.compile(
    rf"(?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)"
    rf"|(?:(?P<scale>{_DECIMAL})\s*\*\s*)?(?P<power>{_POWER})"
    rf"|(?P<decimal>{_DECIMAL}(?:e[+-]?\d+)?)"
    r"|(?P<special>infinity|inf|nan)",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True)
class Given:
    """A number as the user wrote it."""

    text: str
    value: Value

    def negated(self) -> Given:
        return Given(f"-({self.text})" if " " in self.text else f"-{self.text}", -self.value)


ONE = Given("1", Fraction(1))
ZERO = Given("0", Fraction(0))


def parse_expression(text: str) -> list[tuple[Given, Given | None]]:
    """The terms in order: a number and None, or the two factors of a product."""
    parser = _Parser(text)
    terms = []
    negative = parser.sign(first=True)
    while True:
        left, right = parser.factor(), None
        if parser.take("*·×"):
            right = parser.factor()
        terms.append((left.negated() if negative else left, right))
        if parser.at_end():
            return terms
        negative = parser.sign(first=False)


def parse_number(text: str) -> Given:
    """One number, or a sum of numbers."""
    parser = _Parser(text)
    value = parser.sum_of_numbers()
    parser.expect_end()
    return Given(text.strip(), value)


def parse_list(text: str) -> list[Given]:
    """Numbers separated by commas."""
    return [parse_number(piece) for piece in text.split(",")]


def _add(p: Value, q: Value) -> Value:
    if isinstance(p, Fraction) and isinstance(q, Fraction):
        return p + q
    # A Fraction may be too large for a float, and does not matter beside inf and NaN.
    return sum((each for each in (p, q) if isinstance(each, float)), 0.0)


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise ParameterError(f"an expression of {len(text)} characters: give at most {_MAX_LENGTH}")
        self.text = text.replace("−", "-")
        self.at = 0
        self._skip()

    def _skip(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at

    def at_end(self) -> bool:
        return self.at == len(self.text)

    def take(self, characters: str) -> bool:
        """Step over the next character if it is one of these."""
        if self.at_end() or self.text[self.at] not in characters:
            return False
        self.at += 1
        self._skip()
        return True

    def sign(self, *, first: bool) -> bool:
        """Whether a minus comes next; a sign may be missing only before the first term."""
        if self.take("-"):
            return True
        if not self.take("+") and not first:
            raise self.error("+ or -")
        return False

    def factor(self) -> Given:
        start = self.at
        if self.take("("):
            value = self.sum_of_numbers()
            if not self.take(")"):
                raise self.error("+, - or a closing parenthesis")
            return Given(self.text[start : self.at].strip()[1:-1].strip(), value)
        value = self.number()
        return Given(self.text[start : self.at].strip(), value)

    def sum_of_numbers(self) -> Value:
        negative = self.sign(first=True)
        total: Value = self._signed(negative)
        while not self.at_end() and self.text[self.at] in "+-":
            total = _add(total, self._signed(self.sign(first=False)))
        return total

    def _signed(self, negative: bool) -> Value:
        value = self.number()
        return -value if negative else value

    def number(self) -> Value:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.error("a number")
        self.at = match.end()
        self._skip()
        parts = match.groupdict()
        if parts["special"]:
            return math.nan if parts["special"].lower() == "nan" else math.inf
        if parts["hex"]:
            return self._hexadecimal(parts["hex"].lower())
        if parts["power"]:
            exponent = int(re.sub(r"[\s()]", "", re.split(r"\^|\*\*", parts["power"])[1]))
            return Fraction(parts["scale"] or 1) * self._power(2, exponent)
        mantissa, _, exponent_text = parts["decimal"].lower().partition("e")
        return Fraction(mantissa) * self._power(10, int(exponent_text or 0))

    def _hexadecimal(self, text: str) -> Fraction:
        digits, _, exponent = text[2:].partition("p")
        whole, _, fraction = digits.partition(".")
        return int(whole + fraction, 16) * self._power(2, int(exponent or 0) - 4 * len(fraction))

    def _power(self, base: int, exponent: int) -> Fraction:
        if abs(exponent) > _MAX_EXPONENT:
            raise ParameterError(
                f"{self.text!r}: the exponent {exponent} is out of range: "
                f"choose -{_MAX_EXPONENT} to {_MAX_EXPONENT}"
            )
        return Fraction(base) ** exponent

    def expect_end(self) -> None:
        if not self.at_end():
            raise self.error("the end")

    def error(self, expected: str) -> ParameterError:
        found = repr(self.text[self.at :][:12]) if not self.at_end() else "the end"
        return ParameterError(
            f"cannot read {self.text!r}: {expected} expected at character {self.at + 1}, not {found}; "
            "numbers are written 1.5, 2^-24, 1.5*2^-3, 1e-5, 0x1.8p-3, inf, nan, products 0.5*3"
        )
