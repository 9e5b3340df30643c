"""Polynomials with integer coefficients, exactly."""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import Any

import numpy as np

from tcu.errors import ShapeError
from tcu.integers.numbers import multiply
from tcu.integers.operands import integers_of

__all__ = ["multiply_polynomials", "taylor_shift"]

_DIVIDED = 64
"""Coefficients of which repeated division is faster than convolutions."""


def multiply_polynomials(a: Any, b: Any) -> Any:
    """The coefficients of the product of two polynomials with integer coefficients, of any size and sign, a_0 first.

    An exact convolution, by one product of two long integers.

    Parameters
    ----------
    a, b:
        Lines of integers, at least one each.

    Returns
    -------
    An array of Python integers, of len(a) + len(b) - 1.

    Raises
    ------
    DtypeError, ShapeError:
        Anything but integers; what is no line, or has no coefficient.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.multiply_polynomials([1, -(10**20)], [1, 10**20])
    array([1, 0, -10000000000000000000000000000000000000000], dtype=object)
    """
    return np.array(_convolved(_line("a", a), _line("b", b)), object)


def taylor_shift(a: Any, c: Any) -> Any:
    """The coefficients of p(x + c), where a has those of p, a_0 first; the k-th is p's k-th derivative at c, divided by k!.

    Halves of p are shifted, and that of the higher powers is multiplied by a power of x + c: by exact convolutions, so that the
    time of n coefficients is that of products of n²/4 bits, where repeated division by x - c takes n²/2 additions of n bits.

    J. von zur Gathen and J. Gerhard, Fast algorithms for Taylor shifts and certain difference equations, ISSAC 1997.

    Parameters
    ----------
    a:
        A line of integers, of any size and sign, at least one.
    c:
        An integer.

    Returns
    -------
    An array of Python integers, as many as a has.

    Raises
    ------
    DtypeError, ShapeError:
        Anything but integers; an a that is no line, or has no coefficient; a c that is no single integer.

    Examples
    --------
    >>> import tcu
    >>> tcu.integers.taylor_shift([1, 2, 3], 10)  # 1 + 2·(x + 10) + 3·(x + 10)²
    array([321, 62, 3], dtype=object)
    """
    line, shift = _line("a", a), integers_of("c", c)
    if shift.ndim:
        raise ShapeError(f"c has shape {shift.shape}: give one integer")
    return np.array(_shifted(line, shift.item(), {}), object)


def _line(label: str, value: Any) -> list[int]:
    line = integers_of(label, value)
    if line.ndim != 1 or not line.size:
        raise ShapeError(f"{label} has shape {line.shape}: give a line of coefficients, at least one")
    return list(line)


def _shifted(a: list[int], c: int, powers: dict[int, list[int]]) -> list[int]:
    """Of p(x + c); ``powers`` keeps those of x + c."""
    if len(a) <= _DIVIDED:
        return _divided(a, c)
    half = 1 << (len(a) - 1).bit_length() - 1
    if half not in powers:
        powers[half] = _power_of_binomial(c, half)
    high = _convolved(_shifted(a[half:], c, powers), powers[half])
    low = _shifted(a[:half], c, powers)
    return [*map(operator.add, low, high), *high[half:]]


def _divided(a: list[int], c: int) -> list[int]:
    """Of p(x + c), by Horner's rule again and again: what is left of p divided by x - c is the next coefficient."""
    line, found = a[::-1], []
    step = None if c == 1 else lambda total, each: total * c + each
    while line:
        line = [*accumulate(line, step)]
        found.append(line.pop())
    return found


def _power_of_binomial(c: int, n: int) -> list[int]:
    """Of (x + c)^n."""
    binomial, power, found = 1, 1, [1]
    for k in range(n):
        binomial = binomial * (n - k) // (k + 1)
        power *= c
        found.append(binomial * power)
    return found[::-1]


def _convolved(a: list[int], b: list[int]) -> list[int]:
    """The coefficients of a product of polynomials, none of them empty, by one product of two numbers (Kronecker).

    A polynomial's value at a power of two has its coefficients side by side.  One of the product has at most as many terms
    as the shorter factor has coefficients, and a bit more for its sign.
    """
    largest = [max(1, max(map(abs, x))) for x in (a, b)]
    width = -(-((min(len(a), len(b)) * largest[0] * largest[1]).bit_length() + 1) // 8)
    count, half = len(a) + len(b) - 1, 1 << 8 * width - 1
    value = multiply(_packed(a, width), _packed(b, width)) + _halves(count, width)
    text = value.to_bytes(count * width, "little")
    return [int.from_bytes(text[i : i + width], "little") - half for i in range(0, len(text), width)]


def _packed(x: list[int], width: int) -> int:
    """The value at 2^(8·width): half of it more for each coefficient, that none is negative, and less again for all together."""
    half = 1 << 8 * width - 1
    text = b"".join([(each + half).to_bytes(width, "little") for each in x])
    return int.from_bytes(text, "little") - _halves(len(x), width)


def _halves(count: int, width: int) -> int:
    return int.from_bytes(count * (bytes(width - 1) + b"\x80"), "little")
