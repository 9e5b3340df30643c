"""What becomes of totals: a sum, a mean, a root, a variance; of binary64 totals and of exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.inexact import quotient, square_root
from tcu.formats.scalar import Number
from tcu.ops.exact import SCALE, Tally
from tcu.ops.exact_products import PRODUCT_SCALE
from tcu.ops.operation import Operation

__all__ = ["finish_exactly", "finish_totals", "scale_of"]

_NAN = Number("nan", False, (1 << 52) - 1)
_INFINITY = Number("inf")
Totals = npt.NDArray[np.float64]


def finish_totals(operation: Operation, totals: Totals, n: Any, correction: float = 0.0) -> Totals:
    """The results (m,) of totals (1, m), or of moments (2, m), of ``n`` elements each, a number or one for each.

    A result of zero is +0.
    """
    if operation.finish == "sum":
        return np.asarray(totals[0])
    with np.errstate(all="ignore"):
        count = np.asarray(n, np.float64)
        if operation.finish == "mean":
            return np.asarray(totals[0] / count + 0.0)  # 0/0, of nothing, is NaN
        if not operation.moments:
            return np.asarray(np.sqrt(totals[0]))
        first, second = totals
        # Never below zero: where rounding would have it so, the elements are as good as equal.
        squares = np.maximum(second - first * (first / count), 0.0)
        squares = np.where(np.isinf(second) & np.isfinite(first), second, squares)
        variance = squares / np.maximum(count - correction, 0.0)
        return np.asarray(np.sqrt(variance) if operation.root else variance)


def scale_of(operation: Operation) -> int:
    """The exponent of the unit of an operation's first tally."""
    return PRODUCT_SCALE if operation.product else SCALE


def finish_exactly(operation: Operation, tallies: Sequence[Tally], n: int, correction: float = 0.0) -> Number:
    """The same, not yet rounded, of an exact sum in units of :func:`scale_of`, and of squares in units of products."""
    if operation.moments:
        return _variance(operation, tallies, n, correction)
    number = tallies[0].number(scale_of(operation))
    if operation.finish == "mean":
        return quotient(number, n) if n else _NAN
    return square_root(number) if operation.root else number


def _variance(operation: Operation, tallies: Sequence[Tally], n: int, correction: float) -> Number:
    if not n or any(part[1:] != (0, 0, 0) for part in tallies):
        return _NAN
    first, second = (part.integer for part in tallies)
    # n times the sum of squared deviations, in units of products.  Of moments that were rounded it may come out below 0: squares
    # of subnormal numbers are lost.
    squares = max(n * second - first * first, 0)
    left = Fraction(n) - Fraction(correction)
    if left <= 0:
        return _INFINITY if squares else _NAN
    number = Number("finite", False, squares * left.denominator, PRODUCT_SCALE)
    return (square_root if operation.root else quotient)(number, n * left.numerator)
