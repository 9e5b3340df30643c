"""Launch the kernels of many exact sums: of ragged segments, or of the rows of an array."""

from __future__ import annotations

import threading
from typing import Any

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.segments import STATES, Room, WorkQueue
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.sums import COUNTS, ELEMENTS, LIMBS, LOAD, TARGETS, compiled
from tcu.gpu.tuning import exact_config
from tcu.gpu.workspace import workspace

__all__ = ["ExactSegmentsLaunch"]

_VECTORS, _THREADS, _RESIDENT = 64, 256, 4
"""Of cuda/kernels/exact_segments.cu: loads of a lane, and how it is compiled."""
LANE = constants(VECTORS=_VECTORS)
_LANES = (2, 8, 32)
"""For segments of up to two loads a lane, on average; few choices, as each is compiled."""
_CHUNK_THREADS, _CHUNK_LOADS = 256, 16
"""Of a block of a long segment, and of each of its threads."""
CHUNK = constants("i64", CHUNK_THREADS=_CHUNK_THREADS, CHUNK_LOADS=_CHUNK_LOADS)
_LONG_RESIDENT = 2


@struct()
class ExactSegments(Struct):
    cuda = """
    const void* data;
    i64 n;
    const i64* offsets;  // null: the segments are rows
    i64 stride;          // of rows, in elements
    i64 length;          // of every row
    i64 segments;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each segment of several chunks
    ragged::WorkQueue queue;
    """


@struct()
class LongExactSegments(Struct):
    cuda = """
    const void* data;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each segment of several chunks
    ragged::WorkQueue queue;
    """


class ExactSegmentsLaunch:
    """The exact sum of each segment, rounded once: everything but the addresses.

    ``n`` elements in ``segments`` segments.  With ``length`` there are no
    offsets: the segments are rows of that many elements at a distance of
    ``stride`` elements.  With ``mean`` each sum is divided by its length
    before it is rounded.
    """

    def __init__(
        self, n: int, segments: int, element: Format, target: Format, gpu: Gpu,
        *, length: int | None = None, stride: int = 0, mean: bool = False,
    ) -> None:  # fmt: skip
        self._gpu = gpu
        self._lock = threading.Lock()
        per_load = LOAD // element.dtype.itemsize
        average = -(-n // max(segments, 1)) if length is None else length
        lanes = next((lanes for lanes in _LANES if 2 * lanes * per_load >= average), _LANES[-1])
        most = lanes * _VECTORS * per_load
        chunk = _CHUNK_THREADS * _CHUNK_LOADS * per_load
        longs = min(segments, n // (most + 1)) if length is None or length > most else 0
        several = n // chunk if longs else 0
        items = longs + several
        self.room = Room.of(items, 8 * (LIMBS + COUNTS) * several)
        state = WorkQueue(0, 0, 0, 0, items, several)
        self._short = ExactSegments(
            0, n, 0, stride, length or 0, segments, 0, TARGETS[target.name], mean, 0, state
        )
        common: tuple[tuple[str, Any], ...] = (("THREADS", _THREADS), ("TERM", "VALUE"))
        function = compiled(
            "exact_segments.cu", "exact_segments", gpu.compute_capability, ELEMENTS[element.name], "SHIFTED",
            (*common, ("LANES", lanes), ("UNROLL", 1), ("RESIDENT", _RESIDENT)),
        )  # fmt: skip
        blocks = max(1, -(-segments * lanes // _THREADS))
        self._launch_short = KernelLaunch(function, blocks, _THREADS, self._short)
        self._long = LongExactSegments(0, 0, TARGETS[target.name], mean, 0, state)
        self._queues = self._short.queue, self._long.queue  # views, which write into the problems
        self._launch_long: KernelLaunch | None = None
        if longs:
            tuned = exact_config(gpu.compute_capability, element, n, False)
            function = compiled(
                "long_exact_segments.cu", "long_exact_segments", gpu.compute_capability,
                ELEMENTS[element.name], "SHIFTED",
                (("THREADS", _CHUNK_THREADS), ("TERM", "VALUE"), ("UNROLL", min(tuned.unroll, _CHUNK_LOADS)),
                 ("RESIDENT", _LONG_RESIDENT)),
            )  # fmt: skip
            blocks = min(items, gpu.multiprocessors * _LONG_RESIDENT)
            self._launch_long = KernelLaunch(function, blocks, _CHUNK_THREADS, self._long)

    def __call__(self, x: int, offsets: int, out: int, room: int, stream: int) -> None:
        """Put it on the stream, as :class:`tcu.gpu.segments.SegmentsLaunch`; rows have no offsets, 0."""
        short, long, launch_long = self._short, self._long, self._launch_long
        with self._lock:  # the driver copies the parameters before the launch returns
            short.data, short.offsets, short.out = x, offsets, out
            if launch_long is None:
                self._launch_short(stream)
                return
            space = workspace("exact segments", self._gpu.ordinal, stream, 0, STATES // 2)
            short.limbs = long.limbs = self.room.place(room, self._queues, space.words_address)
            long.data, long.out = x, out
            space.start(stream, self._launch_short, launch_long)
