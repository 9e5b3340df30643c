"""What becomes of a total: itself, a mean, a root; of binary64 totals and of exact numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.inexact import quotient, square_root
from tcu.formats.scalar import Number
from tcu.ops.operation import Operation

__all__ = ["NAN", "finish_exactly", "finish_totals"]

NAN = Number("nan", False, (1 << 52) - 1)


def finish_totals(operation: Operation, totals: npt.NDArray[np.float64], n: Any) -> npt.NDArray[np.float64]:
    """The results of totals of ``n`` elements each, a number or one for each; a result of zero is +0."""
    if operation.finish == "sum":
        return totals
    with np.errstate(all="ignore"):
        if operation.finish == "mean":
            return np.asarray(totals / np.asarray(n, np.float64) + 0.0)  # 0/0, of nothing, is NaN
        return np.asarray(np.sqrt(totals))


def finish_exactly(operation: Operation, number: Number, n: int) -> Number:
    """The same, not yet rounded, of an exact sum."""
    if operation.finish == "mean":
        return quotient(number, n) if n else NAN
    return square_root(number) if operation.finish == "root" else number
