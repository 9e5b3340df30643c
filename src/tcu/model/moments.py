"""The moments of numbers about the first of them, by the plan of a dot product."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.model.elements import Elements
from tcu.model.execute import execute
from tcu.model.rows import execute_rows
from tcu.plan import Plan

__all__ = ["moments", "row_moments"]

Values = npt.NDArray[np.float64]


class _Deviations:
    """The pairs (d, 1) or (d, d), with d = x - pivot in binary64."""

    def __init__(self, elements: Elements, pivot: float, squared: bool) -> None:
        self._elements, self._pivot, self._squared = elements, pivot, squared

    def read(self, start: int, stop: int) -> tuple[Values, Values]:
        with np.errstate(all="ignore"):
            deviations = self._elements.read(start, stop).astype(np.float64) - self._pivot
        return deviations, deviations if self._squared else np.ones_like(deviations)


def moments(plan: Plan, elements: Elements) -> tuple[float, Values]:
    """(the first number, the sums (2,) of all deviations from it and of their squares)"""
    if not elements.n:
        return 0.0, np.zeros(2)
    pivot = float(elements.read(0, 1)[0])
    sums = [execute(plan, _Deviations(elements, pivot, squared)) for squared in (False, True)]
    return pivot, np.array(sums)


def row_moments(plan: Plan, rows: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None = None) -> Values:
    """The same sums (2, r) of the rows (r, n) of an array, of which ``absent`` marks what is none of their numbers."""
    with np.errstate(all="ignore"):
        deviations = rows.astype(np.float64)
        deviations -= deviations[:, :1].copy()
    if absent is not None:
        deviations[absent] = 0.0
    ones = np.broadcast_to(1.0, deviations.shape)
    return np.stack([execute_rows(plan, np.stack([deviations, each])) for each in (ones, deviations)])
