"""Execute a sum's plan on numbers that come a piece at a time, in bounded memory.

Every step keeps the numbers that do not yet fill a group of its own, and
hands on what whole groups give.  Groups are reduced independently of each
other, so the bits are those of :func:`tcu.model.execute.execute`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import get_format
from tcu.model.execute import leading_steps, run_steps
from tcu.plan.plan import AddStep, Plan, Step, granularity
from tcu.units.instruction import Unit

__all__ = ["PlanStream"]

Pending = list[tuple[str, str]]
"""What every step of a cascade keeps: (format, base64 of the bytes)."""
_NAN = float(np.uint64(get_format("binary64").nan_code).view(np.float64))


class PlanStream:
    """A sum by ``plan``, in pieces: each through :meth:`work`, by any thread, then through :meth:`merge`, in order.

    Raises ParameterError as :func:`tcu.model.execute.execute` does.
    """

    def __init__(self, plan: Plan, unit: Unit | None) -> None:
        self.plan = plan
        self._unit = unit
        self._local = [leading_steps(part.steps) for part in plan.parts]
        rest = [part.steps[len(local) :] for part, local in zip(plan.parts, self._local, strict=True)]
        self._cascades = [_Cascade(steps, unit) for steps in (*rest, plan.final)]

    def pieces(self, start: int, most: int) -> Iterator[tuple[int, int]]:
        """The pieces from ``start`` on, at which one ended before; of ``most`` numbers if the plan allows."""
        for part, local in zip(self.plan.parts, self._local, strict=True):
            grain = granularity(local)
            size = grain * max(1, most // grain)
            for at in range(max(start, part.start), part.stop, size):
                yield at, min(at + size, part.stop)

    def work(self, start: int, numbers: Any) -> npt.NDArray[Any]:
        """What the plan's first steps make of the piece, or of the two, that begins at element ``start``."""
        with np.errstate(all="ignore"):
            return run_steps(numbers, self._local[self._part_of(start)], self._unit)

    def merge(self, start: int, stop: int, numbers: npt.NDArray[Any]) -> None:
        """Take what :meth:`work` gave for the piece from ``start`` to ``stop``, the next in order."""
        at = self._part_of(start)
        part, final = self._cascades[at], self._cascades[-1]
        with np.errstate(all="ignore"):
            part.push(numbers)
            if stop == self.plan.parts[at].stop:
                part.finish()
            final.push(part.taken())

    def merge_totals(self, numbers: npt.NDArray[np.float64]) -> None:
        """Take the totals of the next chunks, what all steps of a plan's only part made of them elsewhere."""
        with np.errstate(all="ignore"):
            self._cascades[-1].push(numbers)

    def value(self) -> float:
        """The sum in the plan's result format, once all pieces are merged.

        Zero is always +0, and a NaN has all fraction bits set, as everywhere:
        which payload an addition keeps is the processor's choice.
        """
        if not self.plan.parts:
            return 0.0
        with np.errstate(all="ignore"):
            self._cascades[-1].finish()
            total = float(self._cascades[-1].taken().astype(get_format(self.plan.result).dtype)[0])
        return _NAN if math.isnan(total) else total + 0.0

    def state(self) -> list[Pending]:
        """What is pending, for :meth:`restore` of a stream by the same plan."""
        return [cascade.state() for cascade in self._cascades]

    def restore(self, state: list[Pending]) -> None:
        for cascade, pending in zip(self._cascades, state, strict=True):
            cascade.restore(pending)

    def _part_of(self, start: int) -> int:
        return next(i for i, part in enumerate(self.plan.parts) if start < part.stop)


class _Cascade:
    """Steps one after another, each with the numbers that do not fill a group yet."""

    def __init__(self, steps: tuple[Step, ...], unit: Unit | None) -> None:
        self._steps = steps
        self._unit = unit
        # One more than steps: the results that nobody has taken.
        self._pending: list[npt.NDArray[Any]] = [np.empty(0, np.float32)] * (len(steps) + 1)

    def push(self, numbers: npt.NDArray[Any]) -> None:
        for level, step in enumerate(self._steps):
            if not numbers.size:
                return
            numbers = self._joined(level, numbers)
            if isinstance(step, AddStep) and step.length is None:
                self._pending[level] = run_steps(numbers, (step,), self._unit)
                return
            whole = numbers.size // step.group * step.group
            self._pending[level] = numbers[whole:].copy()
            numbers = run_steps(numbers[:whole], (step,), self._unit) if whole else numbers[:0]
        if numbers.size:
            self._pending[-1] = self._joined(len(self._steps), numbers)

    def finish(self) -> None:
        """Pad with +0 what is pending, step by step."""
        for level, step in enumerate(self._steps):
            numbers = self._pending[level]
            if not numbers.size:
                continue
            self._pending[level] = numbers[:0]
            done = run_steps(numbers, (step,), self._unit)
            self._pending[level + 1] = self._joined(level + 1, done)

    def taken(self) -> npt.NDArray[Any]:
        """The results, which are given away."""
        results = self._pending[-1]
        self._pending[-1] = results[:0]
        return results

    def _joined(self, level: int, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        before = self._pending[level]
        return np.concatenate([before, numbers]) if before.size else numbers

    def state(self) -> Pending:
        return [(str(p.dtype), base64.b64encode(p.tobytes()).decode()) for p in self._pending]

    def restore(self, pending: Pending) -> None:
        self._pending = [
            np.frombuffer(base64.b64decode(data), get_format(name).dtype).copy() for name, data in pending
        ]
