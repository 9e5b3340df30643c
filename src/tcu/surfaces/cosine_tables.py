"""What cosine and sine transforms multiply by, correctly rounded or by single roundings of NumPy's."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import get_format
from tcu.ops.fft import FftCall, plan_of
from tcu.plan.roots import roots_at

__all__ = ["tables"]


@lru_cache(maxsize=32)
def tables(n: int, kind: int, scale: str, dtype: str) -> tuple[npt.NDArray[Any], ...]:
    """Signs in turns; what results of type 2 and numbers of type 3 are multiplied by; cosines and sines of πk/2n, k up to n/2.

    Raises ParameterError for n of which there is no transform.
    """
    work = "binary64" if dtype == "float64" else "binary32"
    plan_of(FftCall(None, "from_real", n, 0), get_format(work))  # says what is too long, before it is tried
    signs = np.where(np.arange(n) % 2, -1, 1).astype(dtype)
    once = 2.0 if kind == 2 else 1.0
    if scale == "ortho":
        weights = np.full(n, math.sqrt((2 if kind == 2 else 0.5) / n))
        weights[0] = math.sqrt(1 / n)
    else:
        weights = np.full(n, once / (2 * n) if scale == "over" else once)
    roots = roots_at(np.arange(n // 2 + 1, dtype=np.int64), 4 * n, work)
    return signs, weights.astype(dtype), np.ascontiguousarray(roots[:, 0]), 0 - roots[:, 1]
