"""The numbers that studies sum: seeded, and the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ALL_DISTRIBUTIONS", "DISTRIBUTIONS", "DRAWS", "LOG_NORMAL", "SEED", "draw", "shortened", "sizes", "spread",
]  # fmt: skip

SEED = 2020
DISTRIBUTIONS = ("normal", "uniform")
"""Normal(0, 1) and uniform over [0, 1), as in paper 000."""
LOG_NORMAL = "log-normal"
"""exp of Normal(0, 2²): positive numbers of many magnitudes, on which units differ."""
ALL_DISTRIBUTIONS = (*DISTRIBUTIONS, LOG_NORMAL)
DRAWS = 30
"""Arrays at each point whose error is measured: one array's error says little about the next one's."""
_SIZES = (10_007, 31_607, 100_003, 316_223, 1_000_003, 3_162_277, 10_000_019)
"""Two a decade, all prime: no tile, block or chunk divides them."""
_PIECE = 1 << 22


def sizes(largest: int) -> list[int]:
    """The lengths up to ``largest``."""
    return [n for n in _SIZES if n <= largest]


def shortened(value: float) -> float:
    """Four digits, as many as an error has that says anything."""
    return float(f"{value:.4g}")


def spread(values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """Median, 10th and 90th percentile of an error's magnitude; None where one of the sums overflowed."""
    known = [abs(value) for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None, None
    middle, low, high = (float(value) for value in np.percentile(known, (50, 10, 90)))
    return middle, low, high


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
