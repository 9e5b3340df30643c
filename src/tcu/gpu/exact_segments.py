"""The kernels of many exact sums of ragged segments."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.configs import ExactSegmentsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.segments import STATES, Lists, WorkQueue
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import COUNTS, ELEMENTS, LIMBS, LOAD, TARGETS
from tcu.gpu.tuning import config, exact_config

__all__ = ["exact_segments_recipe"]

_WARP, _AT_ONCE = 32, 31
"""Threads of a block of cuda/kernels/exact_segments.cu, and the segments that it has at a time."""
_CHUNK_THREADS, _CHUNK_LOADS = 256, 16
"""Of a block of a long segment, and of each of its threads."""
CHUNK = constants("i64", CHUNK_THREADS=_CHUNK_THREADS, CHUNK_LOADS=_CHUNK_LOADS)


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
    i64* limbs;    // WORDS for each segment of several chunks
    ragged::WorkQueue queue;
""")  # fmt: skip


LongExactSegments = struct("LongExactSegments", """
    const void* data;
    void* out;
    i64 target;
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each segment of several chunks
    ragged::WorkQueue queue;
""")  # fmt: skip


def exact_segments_recipe(
    n: int, segments: int, element: Format, target: Format, gpu: Gpu, *, mean: bool = False
) -> Recipe:
    """The exact sum of each segment, rounded once: ``n`` elements in ``segments`` segments.

    With ``mean`` each sum is divided by its length before it is rounded.
    """
    tuned = config(ExactSegmentsConfig, gpu.compute_capability, element.name)
    per_load, number = LOAD // element.dtype.itemsize, TARGETS[target.name]
    most = tuned.long // element.dtype.itemsize
    chunk = _CHUNK_THREADS * _CHUNK_LOADS * per_load
    longs = min(segments, n // (most + 1))
    several = n // chunk if longs else 0
    items = longs + several
    lists = Lists(items, 8 * (LIMBS + COUNTS) * several)
    queue = WorkQueue(0, 0, 0, 0, items, several)
    takes: dict[str, Given] = {"data": X, "out": OUT}
    if longs:
        takes |= {**lists.queue, "limbs": (ROOM, lists.behind)}
    macros = {"ELEMENT": ELEMENTS[element.name], "LAYOUT": "SHIFTED", "TERM": "VALUE"}
    per_warp = _per_warp(n * element.dtype.itemsize, segments, tuned, gpu)
    every = KernelChoice(
        "exact_segments",
        {**macros, "TILES": tuned.tiles, "WINDOWS": tuned.windows, "THREADS": _WARP, "UNROLL": 1, "RESIDENT": tuned.resident},
        max(1, -(-segments // per_warp)), _WARP,
        ExactSegments(0, n, 0, segments, 0, number, mean, per_warp, most, 0, queue),
        {**takes, "offsets": OTHER},
    )  # fmt: skip
    if not longs:
        return Recipe((every,))
    unroll = min(exact_config(gpu.compute_capability, element, n, False).unroll, _CHUNK_LOADS)
    long = KernelChoice(
        "long_exact_segments",
        {**macros, "THREADS": _CHUNK_THREADS, "UNROLL": unroll, "RESIDENT": tuned.long_resident},
        min(items, gpu.multiprocessors * tuned.long_resident), _CHUNK_THREADS,
        LongExactSegments(0, 0, number, mean, 0, queue), takes,
    )  # fmt: skip
    return Recipe((every, long), lists.room, Space("exact segments", STATES // 2))


def _per_warp(nbytes: int, segments: int, tuned: ExactSegmentsConfig, gpu: Gpu) -> int:
    """How many segments a warp goes through: as many as it has at a time, once or several times, or fewer."""
    average = nbytes / max(segments, 1) + 12
    warps = gpu.multiprocessors * tuned.resident * tuned.full
    count = max(1, min(int(tuned.data / average), tuned.most_per_warp, segments // warps))
    return count // _AT_ONCE * _AT_ONCE or count
