"""Softmax and what else is made of a row's sum of exponentials, whose bits depend on nothing but the row's numbers.

1. m, the largest number of the row.
2. For each x: d = x - m, and e = exp(d) by the sequences of :mod:`tcu.model.elementary`, times a power of two.
3. S, the sum of the e, each rounded to a multiple of 2^-44 (2^-80 in binary64): whole numbers, whose sum is exact.
   So their order, the number of threads and the way through memory have no say, and no order need be agreed upon.
4. softmax: e · (1/S); log-softmax: d - log S; log-sum-exp: m + log S, with 1/S and log S in binary64.

The rounding of step 3 is at most n·2^-45 of S, which is 1 or more: 2^-27 for 2^18 numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.model import compiled
from tcu.model.row_words import totals_of
from tcu.plan.whole_sums import SCALE, SCALE64

__all__ = ["What", "logarithms_of", "of_rows", "parts_of", "total_of"]

What = Literal["share", "log_share", "log"]
Rows = npt.NDArray[Any]


def of_rows(x: Rows, what: What) -> Rows:
    """Of rows (r, n) of binary32 or binary64: their softmax, their log-softmax, or their log-sum-exp (r,) in binary64.

    A row with NaN or +inf, or of nothing but -inf, has NaN everywhere, as in PyTorch; its log-sum-exp is NaN, inf, or -inf.
    """
    top = x.max(1, initial=-np.inf)  # NaN where there is one
    scaled, words = parts_of(x, top)
    totals = total_of(words, top)
    with np.errstate(all="ignore"):
        if what == "share":
            scaled *= (1 / totals).astype(x.dtype)[:, None]
            return np.asarray(scaled)
        logs = logarithms_of(totals, x.dtype)
        if what == "log_share":
            return np.asarray((x - top[:, None]) - logs.astype(x.dtype)[:, None])
        return np.asarray(np.where(np.isfinite(top), top + logs, top))


def parts_of(x: Rows, top: Rows) -> tuple[Rows, Rows]:
    """(the exponentials of x - top, scaled; the words of their sums (r, 2) or (r, 4)) of rows, or of parts of rows.

    The words of a row's parts add up to those of the row, where ``top`` is the largest number of all of it.
    """
    kernels: Any = compiled.load("exponential_kernels")
    is_wide = x.dtype == np.float64
    scaled, words = np.empty(x.shape, x.dtype), np.empty((len(x), 4 if is_wide else 2), np.int64)
    with np.errstate(all="ignore"):
        (kernels.add_exponentials64 if is_wide else kernels.add_exponentials)(x, top, scaled, words)
    return scaled, words


def total_of(words: Rows, top: Rows) -> Rows:
    """The sums in binary64; NaN where the largest number is not finite."""
    totals = totals_of(words)
    totals[~np.isfinite(top)] = np.nan
    return totals


def logarithms_of(totals: Rows, dtype: npt.DTypeLike) -> Rows:
    """Of sums of rows of a dtype; NaN of NaN."""
    kernels: Any = compiled.load("exponential_kernels")
    logs = np.empty(len(totals))
    kernels.logarithms(totals * 2.0 ** -(SCALE64 if dtype == np.float64 else SCALE), logs)
    logs[np.isnan(totals)] = np.nan
    return logs
