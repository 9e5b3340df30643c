"""The kernels of running sums: of the rows of an array, in one pass over memory."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.configs import ScanConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.sums import ELEMENTS, LINE, TARGETS
from tcu.gpu.tuning import config
from tcu.plan.scan import ScanPlan

__all__ = ["scan_recipe"]

_LANES, _LINES, _RADIX = 32, 16, 32
"""Groups of a line, lines of a chunk, and from there on totals of a run: as in the plan."""
_CHUNK = _LANES * _LINES
"""Groups of a block."""
_GROUP = 32
"""Bytes."""
_THREADS = 256
MAX_LEVELS = 6
"""Of chunks in a row: 32^6 of them are 2^44 bytes."""
LIMITS, LINES = constants(MAX_LEVELS=MAX_LEVELS), constants(LINES=_LINES)
BLOCK = constants(THREADS=_THREADS)
_REST = 16
_BLOCKS = 24
"""That a multiprocessor has room for on every GPU from sm_90 on: on sm_120 no more."""
_TAIL = 1 / 16
"""Of a pass of cuda/kernels/tile_scan.cu, for each number behind a row's last group.  With four of them in each row of 100
numbers of bfloat16, and six lanes for it in place of seven, it had 0.87 of a copy's speed, and 0.97 without (H200)."""
_MAX_SHARES = (1 << 31) - 1
"""Blocks of a grid."""


Slot = struct("Slot", """
    u64 high, low;
""")  # fmt: skip


ScanCounters = struct("ScanCounters", """
    u32 launch, ticket, left, unused;
""")  # fmt: skip


Levels = struct("Levels", f"""
    i64 count;  // levels: a row has at most 32^count chunks
    i64 chunks;  // in a row
    i64 first[{MAX_LEVELS}];  // the first slot of each level
    i64 runs[{MAX_LEVELS}];  // slots that a row has in each level
""")  # fmt: skip


Scan = struct("Scan", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride;  // from row to row, in elements
    i64 out_stride;
    Slot* slots;
    ScanCounters* shared;
    Levels levels;
    i64 rows_of_share;  // whole rows of a tile
    i64 shares;  // pieces of work: chunks of all rows; or, of short rows, as many as a block or a warp takes at a time
""")  # fmt: skip


_SLOT, _SHARED = ctypes.sizeof(Slot), ctypes.sizeof(ScanCounters)


def scan_recipe(
    plan: ScanPlan, rows: int, stride_in: int, stride_out: int, aligned_in: bool, aligned_out: bool,
    target: Format, gpu: Gpu, *, exclusive: bool, reverse: bool,
) -> Recipe:  # fmt: skip
    """The running sums of each row by the plan of one.

    ``stride_in`` and ``stride_out`` are the distances of rows in elements;
    ``aligned_in`` and ``aligned_out``: whether the first row begins at a
    multiple of 16 bytes there.  Raises ParameterError for arrays beyond 2^31 chunks.
    """
    tuned = config(ScanConfig, gpu.compute_capability, plan.input)
    size = get_format(plan.input).dtype.itemsize
    per_group = _GROUP // size
    groups = max(-(-plan.n // per_group), 1)
    chunks = -(-groups // _CHUNK)
    per_row = min(1 << (groups - 1).bit_length(), _CHUNK)
    rows_aligned = rows <= 1 or (stride_in * size % 16 == 0 and stride_out * target.dtype.itemsize % 16 == 0)
    aligned = aligned_in and aligned_out and rows_aligned and (not reverse or plan.n % per_group == 0)
    shares = rows * chunks if chunks > 1 else -(-rows * per_row // _CHUNK)
    if shares > _MAX_SHARES:
        raise ParameterError(
            f"{rows} rows of {plan.n} numbers are more than one scan takes: scan fewer rows at a time"
        )
    bulk = gpu.compute_capability >= (9, 0)  # copies
    copied = aligned and bulk
    dense = rows <= 1 or stride_in == stride_out == plan.n
    exact = plan.input == target.name == "binary16"
    alone = (
        copied and exact and dense and plan.n == groups * per_group and _is_short(rows, groups, gpu, tuned)
    )
    tile = None
    if bulk and dense and not alone and rows * plan.n:
        tile = _tile_grid(plan, rows, (aligned_in, aligned_out), target, gpu, tuned)
    levels, slots = _levels(rows, chunks) if chunks > 1 and not alone and tile is None else (Levels(), 0)
    if tile is not None:
        grid = tile
    elif alone:
        grid = _short_grid(rows, groups, tuned)
    elif bulk and chunks > 1 and _is_long(size, target.dtype.itemsize, gpu, tuned):
        steps = (stride_in, stride_out) if rows > 1 else (0, 0)
        units = [
            math.gcd(16, each * step, reverse * each * plan.n) if is_aligned else each
            for each, step, is_aligned in zip(
                (size, target.dtype.itemsize), steps, (aligned_in, aligned_out), strict=True
            )
        ]
        alike = aligned_in and aligned_out and steps[0] == steps[1]
        grid = _long_grid(levels.count, shares, (size, target.dtype.itemsize), units, alike, gpu, tuned)
        slots = shares if levels.count == 1 else 2 * shares
    else:
        grid = _any_grid(per_row, chunks, shares, copied, size == target.dtype.itemsize == 2, gpu, tuned)
    problem = Scan(0, 0, rows, plan.n, stride_in, stride_out, 0, 0, levels, grid.rows_of_share, grid.shares)
    takes: dict[str, Given] = {"data": X, "out": OUT}
    space = Space("scan", (_SHARED + _SLOT * slots) // 8) if slots else None
    if space is not None:
        takes |= {"shared": SPACE, "slots": (SPACE, _SHARED)}
    macros = _macros(
        plan.input,
        target,
        exclusive,
        reverse,
        "ALIGNED" if aligned or grid.source != "scan" else "SHIFTED",
        **grid.macros,
    )
    choice = KernelChoice(
        grid.source, macros, grid.blocks, grid.threads, problem, takes, shared=grid.shared, cooperative=grid.cooperative
    )  # fmt: skip
    return Recipe((choice,), space=space)


def _macros(
    element: str, target: Format, exclusive: bool, reverse: bool, layout: str, **own: object
) -> dict[str, object]:
    return {
        "ELEMENT": ELEMENTS[element], "LAYOUT": layout, "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive),
        "REVERSE": int(reverse), **own,
    }  # fmt: skip


def _levels(rows: int, chunks: int) -> tuple[Struct, int]:
    """Where the totals of chunks, of runs of chunks and so on have their slots; and how many slots there are."""
    levels = Levels(0, chunks)
    slots, runs = 0, chunks
    while True:
        levels.first[levels.count], levels.runs[levels.count] = slots, runs
        levels.count += 1
        slots += rows * runs
        if runs <= _RADIX:
            return levels, slots
        runs = -(-runs // _RADIX)


@dataclass(frozen=True)
class _Grid:
    """A kernel, how it is compiled and its grid."""

    source: str
    macros: dict[str, int]
    shares: int
    blocks: int
    threads: int
    shared: int
    """Bytes of shared memory of a block."""
    rows_of_share: int = 0
    cooperative: bool = False
    """Whether blocks wait for each other, and so all run at the same time."""


def _any_grid(
    per_row: int, chunks: int, shares: int, copied: bool, narrow: bool, gpu: Gpu, tuned: ScanConfig
) -> _Grid:
    if chunks > 1:
        ahead, stages, resident = tuned.narrow_chunks if narrow else tuned.chunks
    else:
        ahead, stages, resident = tuned.lines if per_row > 2 * _LANES else tuned.warps
    macros = {
        "PER_ROW": per_row, "CHUNKED": int(chunks > 1), "AHEAD": ahead, "STAGES": stages, "RESIDENT": resident
    }  # fmt: skip
    shared = stages * (_CHUNK * _GROUP + 8 * _THREADS // _LANES) if copied else 0
    return _Grid("scan", macros, shares, min(shares, gpu.multiprocessors * resident), _THREADS, shared)


def _is_long(size: int, target_size: int, gpu: Gpu, tuned: ScanConfig) -> bool:
    """Whether cuda/kernels/long_scan.cu has such results, of rows of several chunks, and room on the GPU, for two blocks at least."""
    if target_size > 2 * size or gpu.multiprocessors < 2:
        return False
    return gpu.shared_memory >= long_scan_bytes(tuned.buffers, 2 * _GROUP)


def _long_grid(
    levels: int,
    shares: int,
    sizes: tuple[int, int],
    units: list[int],
    alike: bool,
    gpu: Gpu,
    tuned: ScanConfig,
) -> _Grid:
    """``sizes`` of a number and a result; of ``units`` the beginnings of both are multiples.

    ``alike``: where sizes are the same, rows of results begin as far behind a granule as rows of numbers.
    """
    finding = int(levels > 1)  # a block that finds what comes before chunks of long rows
    size, target_size = sizes
    apart = size != target_size or not alike

    def room(buffers: int) -> int:
        results = _GROUP // size * target_size if apart else 0
        return long_scan_bytes(buffers, results, units[0] < 16, units[1] < 16)

    buffers = tuned.buffers
    while room(buffers) > gpu.shared_memory:
        buffers -= 1
    macros = {
        "LEVELS": levels, "UNIT": units[0], "RESULT_UNIT": units[1], "APART": int(apart), "BUFFERS": buffers,
        "SUMMING": tuned.summing,
    }  # fmt: skip
    threads = (_LINES + tuned.summing + 4) * _LANES
    blocks = min(shares + finding, gpu.multiprocessors)
    return _Grid("long_scan", macros, shares, blocks, threads, room(buffers), cooperative=True)


def _is_short(rows: int, groups: int, gpu: Gpu, tuned: ScanConfig) -> bool:
    """Whether a warp for each of so many rows of whole groups is what cuda/kernels/short_scan.cu can do, and fast."""
    lines, _, resident = tuned.pieces
    if groups <= _CHUNK and groups & (groups - 1) == 0:
        return True
    waves = rows / (gpu.multiprocessors * resident)
    even = waves >= tuned.even * math.ceil(waves)
    return groups % (lines * _LANES) == 0 and groups <= tuned.short_chunks * _CHUNK and even


def _short_grid(rows: int, groups: int, tuned: ScanConfig) -> _Grid:
    lines, buffers, resident = tuned.piece if groups <= tuned.piece[0] * _LANES else tuned.pieces
    shares = -(-rows * groups // max(groups, lines * _LANES))
    macros = {"PER_ROW": groups, "TOGETHER": lines, "BUFFERS": buffers, "RESIDENT": resident}
    return _Grid("short_scan", macros, shares, shares, _LANES, short_scan_bytes(lines, buffers))


def _tile_grid(
    plan: ScanPlan, rows: int, aligned: tuple[bool, bool], target: Format, gpu: Gpu, tuned: ScanConfig
) -> _Grid | None:
    """Of cuda/kernels/tile_scan.cu, or None where too few warps would have a row each, or a row is too long for them."""
    tile, most, resident, most_warps = tuned.tile
    size, target_size = get_format(plan.input).dtype.itemsize, target.dtype.itemsize
    # Rows side by side whose numbers have the same banks: of those, granules are read.
    banked = plan.n * size % 64 == 0 and plan.n <= _LANES * plan.group
    # So have the results of lanes with whole rows: binary32 of rows of 16 numbers of binary16 took twice as long as of 48.
    banked |= plan.n == plan.group and plan.n * target_size % 64 == 0
    exact = plan.input == "binary16" and plan.levels < 3 and not banked
    part = _numbers_of_lane(plan.n) if exact else min(plan.n, plan.group)
    tail, parts = 0, -(-plan.n // part)
    if not exact and plan.n > part and _passes(plan.n // part, plan.n % part) < _passes(parts):
        tail, parts = plan.n % part, plan.n // part
    lines = -(-parts // _LANES)
    together = max(_LANES // parts, 1)
    even = 16 // math.gcd(16, plan.n * min(size, target_size))
    count = max(tile // (plan.n * size), 1)
    for multiple in (math.lcm(even, together), together, even):
        if multiple <= count * 5 // 4:  # rows of whole passes, and tiles that begin at multiples of 16 bytes
            count = max(count // multiple, 1) * multiple
            break
    shares = -(-rows // count)
    apart = size != target_size or aligned != (True, True)
    totals = count * lines if lines > 1 else 0
    shared = tile_scan_bytes(count * plan.n, size, target_size, apart, totals)
    if shared > most or (parts > tuned.few_lines * _LANES and shares < tuned.many * gpu.multiprocessors):
        return None
    blocks = min(gpu.shared_memory // (shared + 1024), resident)
    warps = min(-(-resident // blocks), count * lines, most_warps) if lines > 1 else 1
    unit, target_unit = (
        math.gcd(16, plan.n * each, part * each) if is_aligned else each
        for each, is_aligned in zip((size, target_size), aligned, strict=True)
    )
    levels = 0 if parts == 1 else 1 if lines == 1 else max(2, min(plan.levels, 3))
    macros = {
        "LEVELS": levels, "EXACT": int(exact), "PART": part, "TAIL": tail, "UNIT": 2 if exact else unit,
        "RESULT_UNIT": 2 if exact else target_unit, "APART": int(apart), "WARPS": warps,
        "RESIDENT": min(max(resident // warps, 1), _BLOCKS),
    }  # fmt: skip
    return _Grid("tile_scan", macros, shares, shares, warps * _LANES, shared, rows_of_share=count)


def _passes(parts: int, tail: int = 0) -> float:
    """Of a warp for a row of so many parts, and numbers behind the last one, each of which takes ``_TAIL`` of a pass."""
    return -(-parts // _LANES) + tail * _TAIL if parts > _LANES else (1 + tail * _TAIL) / (_LANES // parts)


def _numbers_of_lane(n: int) -> int:
    """How many numbers of a row a lane has where their order does not matter.

    The count is odd, so that lanes read from different banks.  What else a pass takes is as long as what ``_REST``
    numbers take.
    """

    def time(part: int) -> float:
        lanes = -(-n // part)
        return (part + _REST) * (-(-lanes // _LANES) if lanes > _LANES else 1 / (_LANES // lanes))

    return min(range(1, 18, 2), key=time)


def tile_scan_bytes(count: int, size: int, target_size: int, apart: bool, lines: int) -> int:
    """Shared memory of a block of cuda/kernels/tile_scan.cu, for so many numbers, and totals of so many lines."""
    numbers = _lines_of_memory(8 + 8 * lines) + _lines_of_memory(LINE - 1 + count * size + 48)
    return numbers + (LINE + _aligned(count * target_size) if apart else 0)


def _lines_of_memory(size: int) -> int:
    return -(-size // LINE) * LINE


def long_scan_bytes(
    buffers: int, results: int, anywhere: bool = False, results_anywhere: bool = False
) -> int:
    """Shared memory of a block of cuda/kernels/long_scan.cu.

    That is for chunks, for what is known of their lines and of them, and for a line of results for each
    warp that scans, of so many bytes for a lane, where they have a place of their own.  ``anywhere``: chunks may begin
    anywhere in a line of memory; ``results_anywhere``: lines of results, in a granule.
    """
    known = _aligned(buffers * (_CHUNK * _GROUP + anywhere * LINE + 8 * _LINES + 92))
    return known + (_LINES * (_LANES * results + 16 * results_anywhere) if results else 16)


def short_scan_bytes(lines: int, buffers: int) -> int:
    """Shared memory of a warp of cuda/kernels/short_scan.cu."""
    return _aligned(buffers * (lines * _LANES * _GROUP + 8))


def _aligned(size: int) -> int:
    return -(-size // 16) * 16
