"""One pass over numbers of any length, in bounded memory: reading and summing overlap, and it can be resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, ParameterError
from tcu.model import threads
from tcu.model.execute import check_progress
from tcu.model.ieee_environment import ieee
from tcu.streams.checkpoint import Checkpoint
from tcu.streams.source import Strips
from tcu.streams.totals import Total

__all__ = ["MINIMUM", "Numbers", "run"]

_PIECE = 1 << 23
"""Bytes of a piece at most that is worked on as a whole: with half of it, what Python does between two pieces cost
a tenth of the rate."""
_STRIPS = 1 << 25
"""Bytes of a piece where its totals take it in strips."""
_STRIP = 1 << 19
"""Bytes of a strip, which stays in the second cache from the read to the sum: 29 GB/s on two cores of an EPYC 9005,
where pieces of 8 MB that go through main memory came to 20."""
_COPIES = 8
"""Copies of a piece, with wider numbers, that a plan's steps hold at a time."""
_READERS = 2
"""Threads beyond the cores, for those that wait for a disk."""
_LINE = 64
"""Bytes of a line of the cache."""
MINIMUM = 1 << 26
"""Bytes that a pass must be allowed."""


class Numbers(Protocol):
    """What a pass reads: a :class:`tcu.streams.Source`, or one whose numbers are rounded on the way."""

    @property
    def n(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """Of ``out``."""

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips: ...


Shares = list[Any]
"""What each total made of a piece."""


class Work(Protocol):
    """Who reads and reduces pieces: this module on the CPU, :mod:`tcu.streams.on_gpu` on a GPU."""

    workers: int

    def pieces(self, start: int) -> Iterator[tuple[int, int]]: ...
    def __call__(self, start: int, stop: int) -> Shares: ...
    def close(self) -> None: ...


@ieee
def run(
    numbers: Numbers,
    totals: Sequence[Total],
    *,
    memory: int,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], None] | None = None,
    gpu: int | None = None,
) -> None:
    """Read every number once and give each piece to all totals.

    ``memory``: bytes for what is read and worked on.  ``checkpoint``: go on
    from there, and keep it up to date, also when the pass fails.
    ``progress`` is told how many numbers are done, those of an earlier run at
    once.  ``gpu``: the number of the GPU that they are copied to and summed on.
    Raises what reading raises, DataFileError, ParameterError for too little
    memory, and tcu.gpu.GpuError.
    """
    check_progress(progress)
    if memory < MINIMUM:
        raise ParameterError(f"memory of {memory:,} bytes: give {MINIMUM:,} (64M) at least")
    work = _OnCpu(numbers, totals, memory) if gpu is None else _on_gpu(numbers, totals, memory, gpu)
    try:
        _pass(work, numbers.n, totals, checkpoint, progress)
    finally:
        work.close()


def _pass(
    work: Work, n: int, totals: Sequence[Total], checkpoint: Checkpoint | None,
    progress: Callable[[int], None] | None,
) -> None:  # fmt: skip
    position = _resumed(totals, checkpoint, n)
    if progress is not None and position:
        progress(position)

    def reduced(piece: tuple[int, int]) -> tuple[int, int, Shares]:
        return *piece, work(*piece)

    whole = True  # whether all totals have taken the same pieces
    try:
        for start, stop, shares in threads.in_order(reduced, work.pieces(position), work.workers):
            whole = False
            for total, share in zip(totals, shares, strict=True):
                total.merge(start, stop, share)
            position, whole = stop, True
            if progress is not None:
                progress(stop - start)
            if checkpoint is not None and checkpoint.due():
                _save(checkpoint, position, totals)
    finally:
        if checkpoint is not None and whole:
            _save(checkpoint, position, totals)


class _OnCpu:
    def __init__(self, numbers: Numbers, totals: Sequence[Total], memory: int) -> None:
        self.workers = threads.worker_count() + _READERS
        self._numbers, self._totals = numbers, totals
        # One that minds where pieces end takes each as a whole.
        self._minds: Any = next((total for total in totals if hasattr(total, "pieces")), None)
        self._share = memory // 2 // _COPIES // self.workers
        self._own = threading.local()

    def _count(self, nbytes: int) -> int:
        return max(1, nbytes // self._numbers.dtype.itemsize)

    def pieces(self, start: int) -> Iterator[tuple[int, int]]:
        if self._minds is not None:
            found: Iterator[tuple[int, int]] = self._minds.pieces(
                start, self._count(min(_PIECE, self._share))
            )
            return found
        n, most = self._numbers.n, self._count(_STRIPS)
        return ((at, min(at + most, n)) for at in range(start, n, most))

    def __call__(self, start: int, stop: int) -> Shares:
        size = stop - start
        if self._minds is None:
            size = min(size, self._count(min(_STRIP, self._share)))
        buffer = getattr(self._own, "buffer", None)
        if buffer is None or buffer.size < size:
            buffer = self._own.buffer = _room(size, self._numbers.dtype)
        shares: Shares = [None] * len(self._totals)
        with closing(self._numbers.strips(start, stop, size, buffer[:size])) as strips:
            for numbers in strips:
                shares = [
                    total.work(start, numbers, share)
                    for total, share in zip(self._totals, shares, strict=True)
                ]
                start += numbers.size
        return shares

    def close(self) -> None:
        """Nothing is kept."""


def _room(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array that begins with a line of the cache: the system copies from a file a fifth faster into it."""
    raw = np.empty(n * dtype.itemsize + _LINE, np.uint8)
    skipped = -raw.ctypes.data % _LINE
    return raw[skipped : skipped + n * dtype.itemsize].view(dtype)


def _on_gpu(numbers: Numbers, totals: Sequence[Total], memory: int, gpu: int) -> Work:
    for total in totals:
        if getattr(total, "on_cpu_alone", False):
            raise ParameterError(
                "products, and shares of a program's own, of files are added up on the CPU: leave the GPU out"
            )
    from tcu.streams.on_gpu import OnGpu

    return OnGpu(numbers, totals, memory, gpu)


def _resumed(totals: Sequence[Total], checkpoint: Checkpoint | None, n: int) -> int:
    found = None if checkpoint is None else checkpoint.load()
    if checkpoint is None or found is None:
        return 0
    position, states = found
    try:
        if not 0 <= position <= n:
            raise ValueError(f"position {position:,} of {n:,}")
        for total in totals:
            total.restore(states[total.name])
    except (ValueError, KeyError, TypeError, IndexError, DataFileError) as error:
        raise checkpoint.damaged(error) from None
    return position


def _save(checkpoint: Checkpoint, position: int, totals: Sequence[Total]) -> None:
    checkpoint.save(position, {total.name: total.state() for total in totals})
