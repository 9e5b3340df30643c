"""The kernels of running sums within ragged segments: what has room in shared memory in one launch, what is longer in another."""

from __future__ import annotations

from typing import NamedTuple

from tcu.formats.format import Format
from tcu.gpu.configs import SegmentScanConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.scans import MAX_LEVELS
from tcu.gpu.segments import STATES, Lists, WorkQueue
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LINE, TARGETS
from tcu.gpu.tuning import config

__all__ = ["segment_scan_recipe"]

_THREADS = 256
"""Of a block of segment_scan.cu."""
_WARP = 32
_GROUP = 32
"""Bytes."""
_CHUNK = 512 * _GROUP
"""Bytes, as in the plan."""
_AROUND = 48
"""Bytes that are read behind a group's first one, and lie behind it."""
_MAX_BLOCKS = (1 << 31) - 1


SegmentScan = struct("SegmentScan", """
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 per_block;
""")  # fmt: skip


SegmentTiles = struct("SegmentTiles", """
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 per_warp;  // segments, which follow each other
    i64 tile;      // numbers that have room; a longer segment is long
    i64 begins, numbers, results;  // where these lie in shared memory, from the marks on
    ragged::WorkQueue queue;
""")  # fmt: skip


SegmentChunks = struct("SegmentChunks", """
    const void* data;
    void* out;
    i64 results, stage;  // where the results of a chunk lie in shared memory, and the next chunk
    ragged::WorkQueue queue;
""")  # fmt: skip


class Windows(NamedTuple):
    """Where a warp of cuda/device/ragged/segment_windows.cuh has what, in bytes from the marks on."""

    begins: int
    numbers: int


def window_memory(tile: int, marked: bool, per_warp: int, head: int) -> Windows:
    """For windows of so many numbers, of 16 or 32 bits if ``marked``, and runs of so many segments; ``head`` bytes lie before the marks."""
    marks = 4 * (((tile + 8) // 512 + 1) * 16 + 1) if marked else 0
    begins = -(-marks // 8) * 8
    return Windows(begins, _lines(head + begins + 2 * (per_warp + 1)) - head)


def segment_scan_recipe(
    n: int, segments: int, element: Format, target: Format, gpu: Gpu, *, exclusive: bool, reverse: bool
) -> Recipe:
    """The running sums of the ragged segments of a line of ``n`` elements, each by the plan of its own length."""
    tuned = config(SegmentScanConfig, gpu.compute_capability, element.name)
    macros: dict[str, object] = {
        "ELEMENT": ELEMENTS[element.name], "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive),
        "REVERSE": int(reverse),
    }  # fmt: skip
    size, target_size = element.dtype.itemsize, target.dtype.itemsize
    apart = size != target_size
    threads, stages, resident = tuned.chunks
    behind = _lines(LINE + _CHUNK + _AROUND)
    stage = behind + (_lines(LINE + _CHUNK // size * target_size) if apart else 0)
    if gpu.compute_capability < (9, 0) or gpu.shared_memory < 2 * stage:
        return _by_blocks(n, segments, macros, gpu, tuned)
    stages = min(stages, gpu.shared_memory // stage)
    resident = min(resident, max(gpu.shared_memory // (stages * stage + 8 * LINE), 1))
    marked = size == target_size < 8
    long = n > tuned.mean * segments / size
    tile = tuned.tile[long] // size
    per_warp = _per_warp(
        n * size, segments, tuned.data[long], tuned.most_per_warp, gpu.multiprocessors * tuned.busy
    )
    longs = min(segments, n // (tile + 1))
    items = longs + n // (_CHUNK // size) if longs else 0
    levels = sum((items >> 5 * level) + 1 for level in range(MAX_LEVELS))
    lists, queue = Lists(items, 8 * levels), WorkQueue(0, 0, 0, 0, items, 0)
    takes: dict[str, Given] = {"data": X, "out": OUT}
    if longs:
        takes |= {**lists.queue, "queue.slots": (ROOM, lists.behind)}
    macros |= {
        "LAYOUT": "ALIGNED", "LEVELS": 1, "EXACT": 0, "TAIL": 0, "PART": _GROUP // size, "APART": int(apart),
        "MARKED": int(marked),
    }  # fmt: skip
    head = 16 + 4 * _WARP
    windows = window_memory(tile, marked, per_warp, head)
    results = windows.numbers + _lines(LINE + tile * size + _AROUND)
    problem = SegmentTiles(0, n, 0, segments, 0, per_warp, tile, *windows, results, queue)
    every = KernelChoice(
        "segment_tiles", {**macros, "RESIDENT": tuned.resident[long]}, max(-(-segments // per_warp), 1), _WARP, problem,
        {**takes, "offsets": OTHER}, shared=head + results + (LINE + tile * target_size if apart else 0),
    )  # fmt: skip
    if not longs:
        return Recipe((every,))
    chunks = KernelChoice(
        "segment_chunks", {**macros, "THREADS": threads, "STAGES": stages, "RESIDENT": resident},
        min(items, gpu.multiprocessors * resident), threads, SegmentChunks(0, 0, behind, stage, queue), takes,
        shared=stages * stage, cooperative=True,
    )  # fmt: skip
    return Recipe((every, chunks), lists.room, Space("segment scans", STATES // 2))


def _per_warp(nbytes: int, segments: int, data: int, most: int, warps: int) -> int:
    """How many segments a warp has: enough bytes, but few where all warps would not have some."""
    count = max(1, min(data * segments // max(nbytes, 1), most, segments // warps))
    return max(count, -(-segments // _MAX_BLOCKS))


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE


def _by_blocks(
    n: int, segments: int, macros: dict[str, object], gpu: Gpu, tuned: SegmentScanConfig
) -> Recipe:
    """Without bulk copies.  A segment has one block at most, so a few long ones leave most of a GPU idle."""
    per_block = max(1, min(_THREADS, segments // (gpu.multiprocessors * tuned.blocks)))
    per_block = max(per_block, -(-segments // _MAX_BLOCKS))
    problem = SegmentScan(0, n, 0, segments, 0, per_block)
    takes: dict[str, Given] = {"data": X, "offsets": OTHER, "out": OUT}
    blocks = max(-(-segments // per_block), 1)
    return Recipe(
        (KernelChoice("segment_scan", {**macros, "LAYOUT": "SHIFTED"}, blocks, _THREADS, problem, takes),)
    )
