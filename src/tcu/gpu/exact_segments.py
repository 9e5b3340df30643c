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

_VECTORS = 64
"""Of cuda/kernels/exact_segments.cu: loads of a lane."""
LANE = constants(VECTORS=_VECTORS)
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
    i64 mean;    // whether the sums are divided by the lengths
    i64* limbs;  // WORDS for each segment of several chunks
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
    average = -(-n // max(segments, 1))
    lanes = next((lanes for lanes in tuned.lanes if 2 * lanes * per_load >= average), tuned.lanes[-1])
    most = lanes * _VECTORS * per_load
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
    every = KernelChoice(
        "exact_segments", {**macros, "THREADS": tuned.threads, "LANES": lanes, "UNROLL": 1, "RESIDENT": tuned.resident},
        max(1, -(-segments * lanes // tuned.threads)), tuned.threads,
        ExactSegments(0, n, 0, segments, 0, number, mean, 0, queue),
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
