"""The papers' modelled times: steps on a parallel machine with enough processors."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ModelledTime", "modelled_time"]


@dataclass(frozen=True)
class ModelledTime:
    """Time units for n numbers on units of m × m; a time for n <= 1 is 0."""

    two_mma: float
    """5 log_{m²} n (paper 001, eq. 16)."""
    chained: float
    """(2R + 3) log_{R m²} n (paper 000, eq. 24)."""
    classic: float
    """4 log2 n: the reduction without matrix units (paper 001, IV-B)."""
    speedup_two_mma: float
    """classic / two_mma = (4/5) log2 m² (paper 001, eq. 17), whatever n."""
    speedup_chained: float
    """classic / chained."""


def modelled_time(n: int, chain: int = 1, m: int = 16) -> ModelledTime:
    """The formulas of papers 000 and 001 for n numbers, R = ``chain`` and MMAs of m × m."""
    bits = math.log2(n) if n > 1 else 0.0
    tile = 2 * math.log2(m)
    per_chained = (2 * chain + 3) / (math.log2(chain) + tile)
    return ModelledTime(5 * bits / tile, per_chained * bits, 4 * bits, 4 * tile / 5, 4 / per_chained)
