"""The kernels of many exact sums of ragged segments."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.configs import ExactSegmentsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.exact_rows import MOST_PART, MOST_TERMS, WORDS
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.segments import STATES, Lists, WorkQueue
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.gpu.tuning import config

__all__ = ["exact_segments_recipe"]

_WARP, _AT_ONCE = 32, 31
"""Threads of a block of cuda/kernels/exact_segments.cu, and the segments that it has at a time."""
_LONG_THREADS = 256
_LEAST_PART = 1 << 14
"""Bytes of a warp's part of a long segment, at least; what is longer for one warp is cut into several."""
_MOST_PARTS = 1 << 12
"""Of a segment, unless parts are as long as they may be."""
PARTS = constants("i64", LEAST_PART=_LEAST_PART, MOST_PART=MOST_PART, MOST_PARTS=_MOST_PARTS)


ExactSegments = struct("ExactSegments", """
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, which follow each other
    i64 most;      // a segment of more numbers is long
    i64* limbs;    // WORDS for each long segment
    ragged::WorkQueue queue;
""")  # fmt: skip


LongExactSegments = struct("LongExactSegments", """
    const void* data;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each long segment
    ragged::WorkQueue queue;
""")  # fmt: skip


def exact_segments_recipe(
    n: int, segments: int, element: Format, target: Format, gpu: Gpu, *, mean: bool = False
) -> Recipe:
    """The exact sum of each segment, rounded once: ``n`` elements in ``segments`` segments.

    With ``mean`` each sum is divided by its length before it is rounded.
    """
    tuned = config(ExactSegmentsConfig, gpu.compute_capability, element.name)
    number, most = TARGETS[target.name], max(tuned.long, _LEAST_PART) // element.dtype.itemsize
    if element.name == "binary16":
        most = min(most, MOST_TERMS)
    longs = min(segments, n // (most + 1))
    items = longs + n // (_LEAST_PART // element.dtype.itemsize) if longs else 0
    lists = Lists(items, 8 * WORDS * longs)
    queue = WorkQueue(0, 0, 0, 0, items, longs)
    takes: dict[str, Given] = {"data": X, "out": OUT}
    if longs:
        takes |= {**lists.queue, "limbs": (ROOM, lists.behind)}
    macros = {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "SHIFTED", "TERM": "VALUE"}
    longer = n * element.dtype.itemsize > tuned.mean * segments
    resident = tuned.resident[longer]
    per_warp = _per_warp(n * element.dtype.itemsize, segments, tuned, gpu.multiprocessors * resident)
    every = KernelChoice(
        "exact_segments",
        {**macros, "TILES": tuned.tiles[longer], "WINDOWS": tuned.windows[longer], "THREADS": _WARP, "UNROLL": 1,
         "RESIDENT": resident},
        max(1, -(-segments // per_warp)), _WARP,
        ExactSegments(0, n, 0, segments, 0, number, mean, per_warp, most, 0, queue),
        {**takes, "offsets": OTHER},
    )  # fmt: skip
    if not longs:
        return Recipe((every,))
    long = KernelChoice(
        "long_exact_segments",
        {**macros, "LAYOUT": "ALIGNED", "LANES": _WARP, "TILES": tuned.long_tiles, "LOOPS": 1, "THREADS": _LONG_THREADS,
         "UNROLL": 1, "RESIDENT": tuned.long_resident},
        min(items, gpu.multiprocessors * tuned.long_resident), _LONG_THREADS,
        LongExactSegments(0, 0, number, mean, 0, queue), takes,
    )  # fmt: skip
    return Recipe((every, long), lists.room, Space("exact segments", STATES // 2))


def _per_warp(nbytes: int, segments: int, tuned: ExactSegmentsConfig, resident: int) -> int:
    """How many segments a warp goes through, of which so many run at once: as many as it has at a time, once or several times, or fewer."""
    average = nbytes / max(segments, 1) + 12
    count = max(1, min(int(tuned.data / average), tuned.most_per_warp, segments // (tuned.full * resident)))
    return count // _AT_ONCE * _AT_ONCE or count
