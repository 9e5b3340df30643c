"""One pass over numbers of any length, in bounded memory: reading and summing overlap, and it can be resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.model import threads
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.totals import Total, planned_of

__all__ = ["MINIMUM", "Numbers", "run"]

_PIECE = 1 << 23
"""Bytes of a piece at most: with half of it, what Python does between two pieces cost a tenth of the rate."""
_COPIES = 8
"""Copies of a piece, with wider numbers, that a plan's steps hold at a time."""
_READERS = 2
"""Threads beyond the cores, for those that wait for a disk."""
MINIMUM = 1 << 26
"""Bytes that a pass must be allowed."""


class Numbers(Protocol):
    """What a pass reads: a :class:`tcu.streams.Source`, or one whose numbers are rounded on the way."""

    @property
    def n(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """Of ``out``."""

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]: ...


def run(
    numbers: Numbers,
    totals: Sequence[Total],
    *,
    memory: int,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Read every number once and give each piece to all totals.

    ``memory``: bytes for what is read and worked on.  ``checkpoint``: go on
    from there, and keep it up to date, also when the pass fails.
    ``progress`` is told how many numbers are done, those of an earlier run at once.
    Raises what reading raises, DataFileError, and ParameterError for too little memory.
    """
    check_memory(memory)
    position = _resumed(totals, checkpoint)
    if progress is not None and position:
        progress(position)
    workers = threads.worker_count() + _READERS
    most = max(1, min(_PIECE, memory // 2 // _COPIES // workers) // numbers.dtype.itemsize)
    own = threading.local()

    def work(piece: tuple[int, int]) -> tuple[int, int, list[Any]]:
        start, stop = piece
        if getattr(own, "buffer", None) is None or own.buffer.size < stop - start:
            own.buffer = np.empty(stop - start, numbers.dtype)
        found = numbers.read(start, stop, own.buffer[: stop - start])
        return start, stop, [total.work(start, found) for total in totals]

    try:
        for start, stop, shares in threads.in_order(work, _pieces(numbers.n, totals, position, most), workers):
            for total, share in zip(totals, shares, strict=True):
                total.merge(start, stop, share)
            position = stop
            if progress is not None:
                progress(stop - start)
            if checkpoint is not None and checkpoint.due():
                _save(checkpoint, position, totals)
    finally:
        if checkpoint is not None:
            _save(checkpoint, position, totals)


def check_memory(memory: int) -> None:
    if memory < MINIMUM:
        raise ParameterError(f"memory of {memory:,} bytes: give {MINIMUM:,} (64M) at least")


def _pieces(n: int, totals: Sequence[Total], position: int, most: int) -> Iterator[tuple[int, int]]:
    planned = planned_of(totals)
    if planned is not None:
        return planned.stream.pieces(position, most)
    return ((at, min(at + most, n)) for at in range(position, n, most))


def _resumed(totals: Sequence[Total], checkpoint: Checkpoint | None) -> int:
    found = None if checkpoint is None else checkpoint.load()
    if found is None:
        return 0
    position, states = found
    for total in totals:
        total.restore(states[total.name])
    return position


def _save(checkpoint: Checkpoint, position: int, totals: Sequence[Total]) -> None:
    checkpoint.save(position, {total.name: total.state() for total in totals})
