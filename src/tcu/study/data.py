"""The numbers that studies sum: seeded, and the same on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ALL_DISTRIBUTIONS", "DISTRIBUTIONS", "LOG_NORMAL", "SEED", "draw"]

SEED = 2020
DISTRIBUTIONS = ("normal", "uniform")
"""Normal(0, 1) and uniform over [0, 1), as in paper 000."""
LOG_NORMAL = "log-normal"
"""exp of Normal(0, 2²): positive numbers of many magnitudes, on which units differ."""
ALL_DISTRIBUTIONS = (*DISTRIBUTIONS, LOG_NORMAL)
_PIECE = 1 << 22


def draw(distribution: str, n: int, trial: int = 0, dtype: npt.DTypeLike = np.float16) -> npt.NDArray[Any]:
    """n numbers of a distribution, rounded to ``dtype``; made in pieces, so that 10^8 need no second copy."""
    rng = np.random.default_rng([SEED, n, ALL_DISTRIBUTIONS.index(distribution), trial])
    x = np.empty(n, dtype)
    for start in range(0, n, _PIECE):
        size = min(_PIECE, n - start)
        x[start : start + size] = _piece(rng, distribution, size)
    return x


def _piece(rng: np.random.Generator, distribution: str, size: int) -> npt.NDArray[Any]:
    if distribution == "uniform":
        return rng.random(size, np.float32)
    normal = rng.standard_normal(size, np.float32)
    return normal if distribution == "normal" else np.exp(np.minimum(2 * normal, np.float32(11)))
