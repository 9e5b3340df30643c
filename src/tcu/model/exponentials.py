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

__all__ = ["SCALE", "SCALE64", "What", "of_rows"]

SCALE, SCALE64 = 44, 80
"""As in :mod:`tcu.model.elementary`, which Numba compiles and is imported late."""
What = Literal["share", "log_share", "log"]
Rows = npt.NDArray[Any]


def of_rows(x: Rows, what: What) -> Rows:
    """Of rows (r, n) of binary32 or binary64: their softmax, their log-softmax, or their log-sum-exp (r,) in binary64.

    A row with NaN or +inf, or of nothing but -inf, has NaN everywhere, as in PyTorch; its log-sum-exp is NaN, inf, or -inf.
    """
    kernels: Any = compiled.load("exponential_kernels")
    is_wide = x.dtype == np.float64
    top = x.max(1, initial=-np.inf)  # NaN where there is one
    scaled, totals = np.empty(x.shape, x.dtype), np.empty(len(x))
    with np.errstate(all="ignore"):
        (kernels.add_exponentials64 if is_wide else kernels.add_exponentials)(x, top, scaled, totals)
        usual = np.isfinite(top)
        totals[~usual] = np.nan
        if what == "share":
            scaled *= (1 / totals).astype(x.dtype)[:, None]
            return np.asarray(scaled)
        logs = np.empty(len(x))
        kernels.logarithms(totals * 2.0 ** -(SCALE64 if is_wide else SCALE), logs)
        if what == "log_share":
            logs[~usual] = np.nan
            return np.asarray((x - top[:, None]) - logs.astype(x.dtype)[:, None])
        return np.asarray(np.where(usual, top + logs, top))
