"""What one pass over numbers finds out: each total works on pieces in any thread and merges them in order."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcu.engines.host.integers import whole_sum
from tcu.errors import InvalidOperationError
from tcu.formats.format import Format, format_of
from tcu.model.stream import PlanStream
from tcu.ops.exact import Accumulator, ExactBins, Tally
from tcu.ops.exact_products import sum_of_products
from tcu.ops.operation import Operation
from tcu.ops.result import round_sum
from tcu.plan import Plan
from tcu.streams.source import Pair
from tcu.surfaces.bounds import bound_of
from tcu.units import Unit

__all__ = [
    "ChunkTotals", "ExactProducts", "ExactTotal", "IntegerTotal", "Magnitudes", "OwnTotal", "PlannedMoments", "PlannedTotal", "Total", "planned_of",
]  # fmt: skip


class Total(Protocol):
    """One thing to find out."""

    name: str
    """Under which a checkpoint keeps it."""

    def work(self, start: int, numbers: npt.NDArray[Any], share: Any = None) -> Any:
        """The share of numbers from ``start`` on, or with what came before them in the piece; any thread may ask."""

    def merge(self, start: int, stop: int, share: Any) -> None:
        """Take the share of the next piece."""

    def state(self) -> Any:
        """What was merged so far, as JSON."""

    def restore(self, state: Any) -> None:
        """Go on from there."""


def pair_of(numbers: Any) -> Pair:
    """What is multiplied: pairs, or numbers by themselves."""
    return numbers if isinstance(numbers, Pair) else Pair(numbers, numbers)


class ExactTotal:
    """The exact sum."""

    of_magnitudes = False

    name = "exact"

    def __init__(self) -> None:
        self.sum = Accumulator()

    def work(self, start: int, numbers: npt.NDArray[Any], share: Any = None) -> Any:
        bins = ExactBins(format_of(numbers.dtype)) if share is None else share
        bins.add(numbers)
        return bins

    def merge(self, start: int, stop: int, share: Any) -> None:
        """``share``: what :meth:`work` gave, or a tally from elsewhere."""
        self.sum.add_tally(stop - start, share if isinstance(share, Tally) else share.tally())

    def value(self, dtype: npt.DTypeLike | None = None) -> Any:
        """The sum rounded once; NaN where it has no value."""
        try:
            return self.sum.value(dtype)
        except InvalidOperationError:
            return round_sum(math.nan, format_of(dtype or np.float64))

    def state(self) -> str:
        return base64.b64encode(self.sum.to_bytes()).decode()

    def restore(self, state: str) -> None:
        self.sum = Accumulator.from_bytes(base64.b64decode(state))


class Magnitudes(ExactTotal):
    """The exact sum of |x| and the largest |x|, from which the error bound of a plan follows."""

    name = "magnitudes"
    of_magnitudes = True

    def __init__(self) -> None:
        super().__init__()
        self.top = 0.0

    def work(self, start: int, numbers: npt.NDArray[Any], share: Any = None) -> Any:
        bins, top = (None, 0.0) if share is None else share
        with np.errstate(invalid="ignore"):  # signalling NaN
            piece = np.abs(numbers)
            return super().work(start, piece, bins), max(top, float(piece.max(initial=0)))

    def merge(self, start: int, stop: int, share: Any) -> None:
        sum_of_piece, top = share
        super().merge(start, stop, sum_of_piece)
        self.top = max(self.top, top)  # of a NaN no bound is made

    def bound(self, plan: Plan, unit: Unit, dtype: npt.DTypeLike) -> float:
        return bound_of(plan, unit, self.sum, self.top, dtype)

    def state(self) -> Any:
        return [super().state(), self.top.hex()]

    def restore(self, state: Any) -> None:
        super().restore(state[0])
        self.top = float.fromhex(state[1])


@dataclass(frozen=True)
class ChunkTotals:
    """The plan's chunks, already reduced to a number each."""

    numbers: npt.NDArray[np.float64]


class ExactProducts(ExactTotal):
    """The exact sum of the products of pairs, or of squares, in units of 2^-2148."""

    name = "exact products"
    on_cpu_alone = True

    def work(self, start: int, numbers: Any, share: Any = None) -> Any:
        x, y = pair_of(numbers)
        found = sum_of_products(x, y, format_of(x.dtype))
        return found if share is None else share.plus(found)


class IntegerTotal:
    """The sum of integers, as Python's."""

    name = "integers"

    def __init__(self) -> None:
        self.sum = 0

    def work(self, start: int, numbers: npt.NDArray[Any], share: int | None = None) -> int:
        return (share or 0) + whole_sum(numbers)

    def merge(self, start: int, stop: int, share: int) -> None:
        self.sum += share

    def state(self) -> str:
        return str(self.sum)

    def restore(self, state: str) -> None:
        self.sum = int(state)


class OwnTotal:
    """The share of an operation of a program's own."""

    name = "own"
    on_cpu_alone = True

    def __init__(self, operation: Operation, element: Format) -> None:
        self._operation = operation
        self._share = self.work(0, np.empty(0, element.dtype))

    def work(self, start: int, numbers: npt.NDArray[Any], share: Any = None) -> npt.NDArray[np.float64]:
        assert self._operation.share is not None
        found = np.asarray(self._operation.share(numbers.reshape(1, -1)), np.float64)
        return found if share is None else self._merged(share, found)

    def _merged(self, *shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        assert self._operation.merge is not None
        return np.asarray(self._operation.merge(np.stack(shares)))

    def merge(self, start: int, stop: int, share: npt.NDArray[np.float64]) -> None:
        self._share = self._merged(self._share, share)

    def values(self, n: int) -> npt.NDArray[np.float64]:
        """The one result, in binary64."""
        assert self._operation.finished is not None
        return np.asarray(self._operation.finished(self._share, n), np.float64)

    def state(self) -> list[str]:
        return [value.hex() for value in self._share[0].tolist()]

    def restore(self, state: list[str]) -> None:
        self._share = np.array([[float.fromhex(value) for value in state]])


class PlannedTotal:
    """The sum by a plan, of numbers or (``product``) of the products of pairs, or of squares."""

    name = "planned"

    def __init__(self, plan: Plan, unit: Unit, product: bool = False) -> None:
        self.unit = unit
        self.stream = PlanStream(plan, unit)
        self.on_cpu_alone = product

    def pieces(self, start: int, most: int) -> Iterator[tuple[int, int]]:
        """Where pieces may end."""
        return self.stream.pieces(start, most)

    def work(self, start: int, numbers: Any, share: None = None) -> npt.NDArray[Any]:
        return self.stream.work(start, pair_of(numbers) if self.on_cpu_alone else numbers)

    def merge(self, start: int, stop: int, share: npt.NDArray[Any] | ChunkTotals) -> None:
        if isinstance(share, ChunkTotals):
            self.stream.merge_totals(share.numbers)
        else:
            self.stream.merge(start, stop, share)

    def value(self) -> float:
        """In the plan's result format, as binary64."""
        return self.stream.value()

    def totals(self) -> npt.NDArray[np.float64]:
        """That value, as :func:`tcu.ops.finish.finish_totals` takes it."""
        return np.array([[self.value()]])

    def state(self) -> Any:
        return self.stream.state()

    def restore(self, state: Any) -> None:
        self.stream.restore(state)


class PlannedMoments(PlannedTotal):
    """By a plan, the sum of the deviations from a number and that of their squares."""

    name = "moments"

    def __init__(self, plan: Plan, unit: Unit, pivot: float) -> None:
        super().__init__(plan, unit, product=True)
        self._squares, self._pivot = PlanStream(plan, unit), pivot

    def work(self, start: int, numbers: Any, share: Any = None) -> Any:
        with np.errstate(all="ignore"):
            deviations = numbers.astype(np.float64) - self._pivot
        ones = np.ones_like(deviations)
        return self.stream.work(start, (deviations, ones)), self._squares.work(
            start, (deviations, deviations)
        )

    def merge(self, start: int, stop: int, share: Any) -> None:
        self.stream.merge(start, stop, share[0])
        self._squares.merge(start, stop, share[1])

    def totals(self) -> npt.NDArray[np.float64]:
        return np.array([[self.value()], [self._squares.value()]])

    def state(self) -> Any:
        return [self.stream.state(), self._squares.state()]

    def restore(self, state: Any) -> None:
        self.stream.restore(state[0])
        self._squares.restore(state[1])


def planned_of(totals: Sequence[Total]) -> PlannedTotal | None:
    """The total that says where pieces may end."""
    return next((each for each in totals if isinstance(each, PlannedTotal)), None)
