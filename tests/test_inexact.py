"""Contract of quotients and square roots: rounding them gives what rounding the exact value would.

Complete for small integers and divisors into E5M2, whose numbers are few enough to look
the answer up: subnormals, ties, overflow, every rounding.  Wide formats by
brackets in rational arithmetic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction

import numpy as np
import pytest

from tcu.formats import Number, decode, encode, get_format
from tcu.formats.inexact import quotient, square_root
from tcu.formats.scalar import ROUNDINGS, Rounding

E5M2 = get_format("e5m2")
VALUES = [decode(code, E5M2).value for code in range(E5M2.max_finite_code + 1)] + [
    Fraction(2) ** (E5M2.emax + 1)  # stands for inf
]
SQUARES = [value**2 for value in VALUES]
EXPONENTS = (-20, -18, -17, -16, -14, -1, 0, 11, 14, 15)


def expected(value: Fraction, values: list[Fraction], rounding: Rounding, middle) -> int:
    """The code by looking it up; ``middle(i)`` lies halfway from values[i] to the next."""
    below = bisect_right(values, value) - 1
    above = bisect_left(values, value)
    if above == len(values):
        return E5M2.infinity_code
    if rounding == "RNE" and below != above:
        half = middle(below)
        return below if value < half or (value == half and below % 2 == 0) else above
    if rounding == "RO" and below != above:
        return below if below % 2 else above
    return above if rounding == "RU" else min(below, above)


def check(number: Number, code_of) -> None:
    for rounding in ROUNDINGS:
        code = code_of("RZ" if rounding == "RD" else rounding)
        got = encode(number, E5M2, rounding)
        if rounding in ("RZ", "RD") and code > E5M2.max_finite_code:
            code = E5M2.infinity_code
        assert got == code, f"{number} {rounding}: {got:#x}, not {code:#x}"


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_every_small_quotient(exponent: int) -> None:
    for integer in range(34):
        for divisor in range(1, 34):
            value = Fraction(integer, divisor) * Fraction(2) ** exponent
            check(
                quotient(Number("finite", False, integer, exponent), divisor),
                lambda rounding, value=value: expected(
                    value, VALUES, rounding, lambda i: (VALUES[i] + VALUES[i + 1]) / 2
                ),
            )


@pytest.mark.parametrize("exponent", [2 * exponent + odd for exponent in EXPONENTS for odd in (0, 1)])
def test_every_small_square_root(exponent: int) -> None:
    for integer in range(400):
        value = integer * Fraction(2) ** exponent
        check(
            square_root(Number("finite", False, integer, exponent)),
            lambda rounding, value=value: expected(
                value, SQUARES, rounding, lambda i: ((VALUES[i] + VALUES[i + 1]) / 2) ** 2
            ),
        )


def test_a_lost_sticky_bit_would_be_noticed() -> None:
    above_a_tie = Fraction(9, 8) + Fraction(1, 2**80)

    def code_of(rounding: Rounding) -> int:
        return expected(above_a_tie, VALUES, rounding, lambda i: (VALUES[i] + VALUES[i + 1]) / 2)

    number = quotient(Number.of(above_a_tie * 3), 3)
    check(number, code_of)
    truncated = number._replace(significand=number.significand >> 20 << 20)
    with pytest.raises(AssertionError, match="RNE"):
        check(truncated, code_of)


@pytest.mark.parametrize("name", ["binary16", "binary32", "binary64"])
def test_wide_numbers_by_brackets(name: str) -> None:
    fmt = get_format(name)
    rng = np.random.default_rng(0)
    for _ in range(300):
        integer = int.from_bytes(rng.bytes(int(rng.integers(1, 200))), "big")
        exponent = int(rng.integers(2 * fmt.quantum_exponent - 800, fmt.emax))
        number = Number("finite", False, integer, exponent)
        divisor = int(rng.integers(1, 1 << 62))
        for rounded, meets in (
            (quotient(number, divisor), lambda v, n=number, d=divisor: v * d <= n.value),
            (square_root(number), lambda v, n=number: v * v <= n.value),
        ):
            down, up = encode(rounded, fmt, "RZ"), encode(rounded, fmt, "RU")
            nearest = encode(rounded, fmt)
            if down == fmt.infinity_code:
                assert meets(Fraction(2) ** (fmt.emax + 1)) or meets(Fraction(fmt.max_finite))
                continue
            assert up - down in (0, 1)
            low = decode(down, fmt).value
            high = Fraction(2) ** (fmt.emax + 1) if up == fmt.infinity_code else decode(up, fmt).value
            assert meets(low)
            assert up == down or not meets(high)
            assert nearest == (up if meets((low + high) / 2) and low != high else down)


def test_signs_and_specials_stay() -> None:
    for special in (Number("inf", True), Number("nan", False, 1)):
        assert quotient(special, 3) == square_root(special) == special
    assert quotient(Number("finite", True, 3, 0), 2).negative
    assert encode(quotient(Number("finite", True, 3, 0), 2), "binary16") == 0xBE00
    assert encode(square_root(Number("finite")), "binary16") == 0
