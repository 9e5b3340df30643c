"""Polynomials with integer coefficients, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcu.errors import ShapeError
from tcu.integers.numbers import multiply
from tcu.integers.operands import integers_of

__all__ = ["multiply_polynomials"]


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
    lines = []
    for label, value in (("a", a), ("b", b)):
        line = integers_of(label, value)
        if line.ndim != 1 or not line.size:
            raise ShapeError(f"{label} has shape {line.shape}: give a line of coefficients, at least one")
        lines.append(line.tolist())
    return np.array(_convolved(*lines), object)


def _convolved(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """The coefficients of a product of polynomials, none of them empty, by one product of two numbers (Kronecker).

    A polynomial's value at a power of two has its coefficients side by side.  One of the product has at most as many terms
    as the shorter factor has coefficients, and a bit more for its sign.
    """
    largest = [max(1, max(map(abs, x))) for x in (a, b)]
    width = -(-((min(len(a), len(b)) * largest[0] * largest[1]).bit_length() + 1) // 8)
    value = multiply(_packed(a, width), _packed(b, width))
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
