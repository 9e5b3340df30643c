"""Rows over the root of their mean square, rows of mean 0 and variance 1, and rows of norm 1, whose bits depend on nothing but the row's numbers.

The sums are of whole numbers, as those of :mod:`tcu.model.exponentials`: a row's numbers, or their squares, times the power of
two that brings the largest below 2^44 (2^80 in binary64), each rounded.  Powers of two keep all bits, so nothing overflows, and
the rounding is at most n·2^-43 of the mean square.

1. Of rows that are centred: the mean as the sum of two numbers of the row's format; d = (x - its high part) - its low part.
   The high part is the mean in binary64, rounded.  The low part is, of binary32, what that left; of binary64, the mean of
   what the whole numbers' sum leaves when as many high parts are taken off.  Else d = x.
2. v, the mean of d², in binary64; of rows of norm 1 their sum.
3. d · r, with r = 1 / sqrt(v + eps) in binary64, or of rows of norm 1 1 / max(sqrt(v), eps), rounded once to the row's format.

Rows whose numbers are so small or so large that a step would leave the format are multiplied by a power of two before (LIFTS).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.model.row_words import totals_of, words_of
from tcu.plan.whole_sums import LIFTS, LIFTS64, SCALE, SCALE64, lift_of

__all__ = ["What", "of_rows"]

What = Literal["unit", "standard", "direction"]
Rows = npt.NDArray[Any]


def of_rows(x: Rows, eps: float, what: What) -> Rows:
    """Of rows (r, n) of binary32 or binary64.

    Where a row is not finite: NaN everywhere if it is centred or has NaN; else 0, and NaN in place of inf, as in PyTorch.
    """
    if not x.size:
        return x.copy()
    is_wide = x.dtype == np.float64
    kind: Any = x.dtype.type
    scale, n = SCALE64 if is_wide else SCALE, x.shape[1]
    centred, is_direction = what == "standard", what == "direction"
    small, _, large, down, lowest = LIFTS64 if is_wide else LIFTS
    up = lift_of(eps, is_wide)

    def exponents(largest: Rows) -> Rows:
        return np.asarray(np.maximum(np.frexp(largest)[1], lowest))

    def means(words: Rows, shift: Rows, count: int = n) -> Rows:
        """The mean of rows of terms that were multiplied by two to the ``shift``; with a count of 1 their sum."""
        return np.asarray(np.ldexp(totals_of(words) / count, -shift))

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
            unit = np.ldexp(kind(1), shift)[:, None]
            words = words_of(d * unit)
            mean = means(words, shift)
            high = mean.astype(kind)
            if is_wide:
                low = means(words - n * words_of(high[:, None] * unit), shift)
            else:
                low = (mean - high).astype(kind)
            d = (d - high[:, None]) - low[:, None]
        shift = scale // 2 - exponents(np.abs(d).max(1))
        scaled = d * np.ldexp(kind(1), shift)[:, None]
        square = np.ldexp(means(words_of(scaled * scaled), shift, 1 if is_direction else n), -shift)
        if is_direction:
            over = 1 / np.maximum(np.sqrt(square), np.ldexp(eps, lift))
        else:
            # The least number in place of an underflow, which would make NaN of large numbers that are all the same.
            over = 1 / np.sqrt(square + np.maximum(np.ldexp(eps, 2 * lift), np.nextafter(0, eps)))
        over[~usual] = np.nan
        if not centred:
            over[np.isposinf(largest)] = 0
        return np.asarray(d * over.astype(kind)[:, None])
