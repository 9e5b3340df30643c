"""Rows over the root of their mean square, and rows of mean 0 and variance 1, whose bits depend on nothing but the row's numbers.

The sums are of whole numbers, as those of :mod:`tcu.model.exponentials`: a row's numbers, or their squares, times the power of
two that brings the largest below 2^44 (2^80 in binary64), each rounded.  Powers of two keep all bits, so nothing overflows, and
the rounding is at most n·2^-43 of the mean square.

1. Of rows that are centred: the mean of the numbers in binary64, as the sum of two of the row's format; d = (x - its
   high part) - its low part.  Else d = x.
2. v, the mean of d², in binary64.
3. d · r, with r = 1 / sqrt(v + eps) in binary64, rounded once to the row's format.

Rows whose numbers are so small or so large that a step would leave the format are multiplied by a power of two before (LIFTS).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model import compiled
from tcu.model.exponentials import SCALE, SCALE64

__all__ = ["LIFTS", "LIFTS64", "lift_of", "of_rows"]

Rows = npt.NDArray[Any]
LIFTS, LIFTS64 = (-60, 80, 1 << 20, 0, -100), (-500, 600, 500, -600, -900)
"""Exponents: below the first rows are multiplied by two to the second, above the third by two to the fourth; and the lowest
that a row's largest deviation is taken for."""
_NO_EPS, _HALFWAY = 2.0**-900, 300
"""Of binary64: an eps that is not below the first would overflow; it hides variances that need more than the second."""


def lift_of(eps: float, is_wide: bool) -> int:
    """The exponent of what rows of small numbers are multiplied by."""
    return LIFTS[1] if not is_wide else LIFTS64[1] if eps < _NO_EPS else _HALFWAY


def of_rows(x: Rows, eps: float, centred: bool) -> Rows:
    """Of rows (r, n) of binary32 or binary64.

    Where a row is not finite: NaN everywhere if it is centred or has NaN; else 0, and NaN in place of inf, as in PyTorch.
    """
    if not x.size:
        return x.copy()
    kernels: Any = compiled.load("whole_sums")
    is_wide = x.dtype == np.float64
    kind: Any = x.dtype.type
    sums = kernels.whole_sums64 if is_wide else kernels.whole_sums
    scale, n = SCALE64 if is_wide else SCALE, x.shape[1]
    small, _, large, down, lowest = LIFTS64 if is_wide else LIFTS
    up = lift_of(eps, is_wide)

    def exponents(largest: Rows) -> Rows:
        return np.asarray(np.maximum(np.frexp(largest)[1], lowest))

    def means(rows: Rows, shift: Rows) -> Rows:
        """The mean of rows of terms that were multiplied by two to the ``shift``."""
        totals = np.empty(len(rows))
        sums(rows, totals)
        return np.asarray(np.ldexp(totals / n, -shift))

    with np.errstate(all="ignore"):
        largest = np.abs(x).max(1)
        usual = np.isfinite(largest)
        exponent = np.frexp(np.where(usual, largest, 0))[1]
        lift = np.where((exponent < small) & (largest > 0), up, np.where(exponent > large, down, 0)).astype(
            np.int32
        )
        d = x * np.ldexp(kind(1), lift)[:, None]
        if centred:
            shift = scale - exponents(np.abs(d).max(1))
            mean = means(d * np.ldexp(kind(1), shift)[:, None], shift)
            high = mean.astype(kind)
            d = (d - high[:, None]) - (mean - high).astype(kind)[:, None]
        shift = scale // 2 - exponents(np.abs(d).max(1))
        scaled = d * np.ldexp(kind(1), shift)[:, None]
        square = np.ldexp(means(scaled * scaled, shift), -shift)
        over = 1 / np.sqrt(square + np.ldexp(eps, 2 * lift))
        over[~usual] = np.nan
        if not centred:
            over[np.isposinf(largest)] = 0
        return np.asarray(d * over.astype(kind)[:, None])
