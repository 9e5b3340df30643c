"""A pass over numbers on the host that a GPU sums: reading, copying and summing overlap."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tcu.engines.cuda.sums import check_unit
from tcu.errors import ParameterError
from tcu.formats.format import format_of
from tcu.gpu.device import find_gpu
from tcu.gpu.feed import Feed, chunk_of
from tcu.ops.exact import Tally
from tcu.plan import DEFAULT_VARIANT
from tcu.streams.totals import ChunkTotals, ExactTotal, PlannedTotal, Total, planned_of

__all__ = ["OnGpu"]

_WORKERS = 6
"""Threads with a feed each: some read, one copies, one sums."""
_PIECE = 1 << 25
"""Bytes of a piece at most: long enough that a copy reaches the bus's speed."""


class OnGpu:
    """Reads into pinned memory, copies, and sums by the plan's chunks and exactly.

    Raises ParameterError for a plan or unit that this GPU does not execute,
    and tcu.gpu.GpuError.
    """

    def __init__(self, numbers: Any, totals: Sequence[Total], memory: int, ordinal: int) -> None:
        self.workers = _WORKERS
        self._numbers, self._totals = numbers, totals
        self._gpu = find_gpu(ordinal)
        self._element = format_of(numbers.read(0, 0).dtype)
        self._plan = None
        planned = planned_of(totals)
        grain = 1
        if planned is not None and planned.stream.plan.parts:
            self._plan = planned.stream.plan
            if self._plan.variant != DEFAULT_VARIANT:
                raise ParameterError(
                    f"variant {self._plan.variant}: numbers go through a GPU by {DEFAULT_VARIANT} only; leave the "
                    "variant or the GPU out"
                )
            check_unit(self._plan, planned.unit, self._gpu.unit, self._gpu)
            grain = chunk_of(self._plan)
        itemsize = self._element.dtype.itemsize
        most = min(_PIECE, memory // 2 // _WORKERS) // itemsize
        self._size = min(grain * max(1, most // grain), max(numbers.n, 1))
        self._chunks = -(-self._size // grain) if self._plan is not None else 0
        self._grain = grain
        self._own = threading.local()
        self._feeds: list[Feed] = []

    def pieces(self, start: int) -> Iterator[tuple[int, int]]:
        n = self._numbers.n
        return ((at, min(at + self._size, n)) for at in range(start, n, self._size))

    def __call__(self, start: int, stop: int) -> list[Any]:
        feed = getattr(self._own, "feed", None)
        if feed is None:
            feed = self._own.feed = Feed(self._gpu, self._element, self._size, self._chunks)
            self._feeds.append(feed)
        n = stop - start
        room = feed.buffer[:n]
        # Numbers that are converted on the way are read elsewhere.
        found = self._numbers.read(start, stop, room if room.dtype == self._numbers.dtype else None)
        if found.ctypes.data != room.ctypes.data:
            np.copyto(room, found)
        feed.start(
            n,
            self._plan,
            any(isinstance(total, ExactTotal) and total.of_magnitudes for total in self._totals),
        )
        feed.finish()
        return [self._share(total, feed, n) for total in self._totals]

    def _share(self, total: Total, feed: Feed, n: int) -> Any:
        if isinstance(total, PlannedTotal):
            return ChunkTotals(feed.chunk_totals(-(-n // self._grain) if self._plan is not None else 0))
        if not isinstance(total, ExactTotal):
            return total.work(0, np.empty(0, self._element.dtype))
        tally = Tally(*feed.exact(total.of_magnitudes))
        return (tally, feed.top()) if total.of_magnitudes else tally

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
