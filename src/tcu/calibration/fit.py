"""m, ℓ and the unit of time of a machine that behaves like the measured one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcu.errors import ParameterError

__all__ = ["Fit", "Sample", "StepSample", "fit_machine", "fit_steps"]


@dataclass(frozen=True)
class Sample:
    """One measured tall product."""

    rows: int
    side: int
    """An n × side matrix times one of side × side."""
    seconds: float


@dataclass(frozen=True)
class StepSample:
    """One measured elementwise operation of the processor."""

    operations: int
    seconds: float


@dataclass(frozen=True)
class Fit:
    """The machine whose tall products take the time that was measured, as nearly as one can."""

    m: int
    latency: float
    """ℓ, in units of time."""
    unit_seconds: float
    """What cost 1 is: a word through the unit."""
    errors: tuple[float, ...]
    """(fitted - measured) / measured of each sample."""

    def seconds(self, rows: int, side: int) -> float:
        """The fitted time of one product; a side above √m counts as the calls that it needs, but one latency."""
        return self.unit_seconds * (_words(rows, side, math.isqrt(self.m)) + self.latency)

    @property
    def median_error(self) -> float:
        return float(np.median(np.abs(self.errors)))

    @property
    def largest_error(self) -> float:
        return float(np.max(np.abs(self.errors)))


def _words(rows: int, side: int, unit_side: int) -> float:
    return rows * side * max(1.0, side / unit_side)


def fit_machine(samples: Sequence[Sample]) -> Fit:
    """The m, ℓ and unit of time with the least squared relative error.

    A machine's product takes time in proportion to n·side as long as side is
    at most √m, and to n·side² / √m beyond; one latency is added.  √m is the
    measured side with which that fits best.

    Raises ParameterError for fewer than two sides or six samples, or times
    that are not positive.
    """
    sides = sorted({sample.side for sample in samples})
    if len(sides) < 2 or len(samples) < 6 or any(not sample.seconds > 0 for sample in samples):
        raise ParameterError(
            f"{len(samples)} samples of sides {sides}: measure at least six products, with two sides or more, "
            "all of positive time"
        )
    return min((_fit_side(samples, side) for side in sides), key=lambda fit: sum(e * e for e in fit.errors))


def _fit_side(samples: Sequence[Sample], side: int) -> Fit:
    seconds = np.array([sample.seconds for sample in samples])
    words = np.array([_words(sample.rows, sample.side, side) for sample in samples])
    unit, constant = _relative_line(words, seconds)
    errors = (unit * words + constant) / seconds - 1
    return Fit(side * side, constant / unit, unit, tuple(errors.tolist()))


def fit_steps(samples: Sequence[StepSample]) -> tuple[float, float]:
    """(seconds of one operation, seconds of starting a vector of them), of least squared relative error."""
    operations = np.array([float(sample.operations) for sample in samples])
    return _relative_line(operations, np.array([sample.seconds for sample in samples]))


def _relative_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The line a·x + c, a > 0 and c ≥ 0, with the least sum of ((a·x + c) / y - 1)²."""
    columns = np.stack([x / y, 1 / y], axis=1)
    scale = np.abs(columns).max(axis=0)
    solution, *_ = np.linalg.lstsq(columns / scale, np.ones_like(y), rcond=None)
    slope, constant = (solution / scale).tolist()
    if constant < 0 or slope <= 0:  # without a constant, the best slope alone
        weights = x / y
        return float(weights.sum() / (weights @ weights)), 0.0
    return slope, constant
