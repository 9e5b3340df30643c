"""The kernel of running sums down the columns of an array: along an axis that is not the last, without a copy."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.columns import Columns
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.scans import ScanCounters, Slot
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.plan.scan import ScanPlan

__all__ = ["column_scan_recipe", "suits"]

_RUN = 32
"""Groups of a tile at most: a run of the plan's first level."""
_GROUP = 32
"""Bytes."""
_LEAST_BYTES = 32
"""Of a row of the inner numbers, a sector of memory: with fewer, most of what is read would be for others."""
_TILE = 32 << 10
"""Bytes."""
_FEW_RUNS, _MANY_RUNS = (512, 2, 3, 0), (256, 3, 2, 1)
"""Threads of a block; tiles that it has room for; blocks per multiprocessor; tiles that it adds up before it writes the
results of one: for columns of up to 16 runs, and for longer ones, which wait more for each other.  Shares of a copy's speed
(H200): 8192 x 32768 numbers of binary16 0.50 and 0.45, of binary32 0.53 and 0.42; 2^20 x 256 of them 0.18 and 0.37, 0.27
and 0.39.  The floor is a copy: in half of the time, blocks wait at their barriers and too little is read."""
_LINE = 64
"""Bytes of a row that are read together, at least, where a row has so many."""
_WASTE = 1.1
"""Columns that a tile has room for, of those that there are, for a part to be as wide as it can."""
_RESERVED = 1 << 10
"""Bytes of shared memory that every block has for itself (CUDA C++ Programming Guide, "Shared Memory")."""
_MAX_LEVELS = 8
_MAX_ITEMS = (1 << 31) - 1
_MAX_PARTS = 32

ColumnScan = struct("ColumnScan", f"""
    const void* data;
    void* out;
    i64 columns;  // of all outer ones
    i64 inner;    // of them, side by side
    i64 length;
    i64 outer_stride, stride;  // in elements; negative where the scan begins at the end
    i64 out_outer_stride, out_stride;
    i64 items;    // parts of tiles
    i64 tiles;
    u32 outer;
    u32 strips;   // parts that the inner columns make
    scan::Slot* slots;
    scan::ScanCounters* shared;
    i64 first[{_MAX_LEVELS}];  // runs of the levels below
""")  # fmt: skip


def suits(columns: Columns, results: Columns, size: int) -> bool:
    """Whether numbers of that size, and their results, lie so that the kernel reads and writes whole sectors."""
    return columns[:2] == results[:2] and columns.inner * size >= _LEAST_BYTES


def column_scan_recipe(
    plan: ScanPlan, columns: Columns, results: Columns, aligned: bool, target: Format, gpu: Gpu, *, exclusive: bool,
    reverse: bool,
) -> Recipe | None:  # fmt: skip
    """The running sums of each column by the plan of one; None for more of them than a launch has blocks for.

    ``aligned``: whether numbers and results begin at multiples of 16 bytes.
    """
    size, result, count = (
        get_format(plan.input).dtype.itemsize,
        target.dtype.itemsize,
        columns.outer * columns.inner,
    )
    aligned = aligned and _aligned(columns, results, size)
    if aligned and WALK is not None:
        return _walk(plan, columns, results, target, exclusive, reverse, *WALK)
    total = max(-(-plan.n // plan.group), 1)
    groups = min(1 << (total - 1).bit_length(), _RUN)
    runs = -(-total // _RUN)
    levels = max(plan.levels - 1, 0)
    tile = _tile(columns.inner, groups, levels, size, aligned, gpu)
    part, parts = tile.part, tile.parts
    strips = -(-columns.inner // part)
    items = runs * columns.outer * strips
    if items > _MAX_ITEMS:
        return None
    tiles = -(-items // parts)
    first, above = [], runs
    for radix in plan.radices[1:]:
        first.append(above)
        above = -(-above // radix)
    starts = [sum(first[:level]) for level in range(len(first))]
    at, to = ((plan.n - 1) * each if reverse and plan.n else 0 for each in (columns.stride, results.stride))
    takes: dict[str, Given] = {"data": (X, at * size), "out": (OUT, to * result)}
    space: Space | None = None
    if first:
        head = ctypes.sizeof(ScanCounters)
        space = Space("column scan", (head + ctypes.sizeof(Slot) * sum(first) * count) // 8)
        takes |= {"shared": SPACE, "slots": (SPACE, head)}
    way = -1 if reverse else 1
    problem = ColumnScan(
        0, 0, count, columns.inner, plan.n, columns.outer_stride, way * columns.stride, results.outer_stride,
        way * results.stride, items, tiles, columns.outer, strips, 0, 0, (ctypes.c_int64 * _MAX_LEVELS)(*starts),
    )  # fmt: skip
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "LAYOUT": "ALIGNED" if aligned else "SHIFTED", "RESULT": TARGETS[target.name],
        "EXCLUSIVE": int(exclusive), "GROUPS": groups, "COLUMNS": part, "PARTS": parts, "LEVELS": levels,
        "AHEAD": tile.ahead, "STAGES": tile.stages, "THREADS": tile.threads, "RESIDENT": tile.resident,
    }  # fmt: skip
    choice = KernelChoice(
        "column_scan", macros, max(min(tiles, gpu.multiprocessors * tile.resident), 1), tile.threads, problem, takes,
        shared=tile.stages * tile.bytes,
    )  # fmt: skip
    return Recipe((choice,), space=space)


WALK = None


def _walk(plan, columns, results, target, exclusive, reverse, lane, stages, threads, resident):
    size, result = get_format(plan.input).dtype.itemsize, target.dtype.itemsize
    strips = -(-columns.inner * size // 16)
    items = strips * columns.outer
    per_warp = 2 * lane
    at, to = ((plan.n - 1) * each if reverse and plan.n else 0 for each in (columns.stride, results.stride))
    way = -1 if reverse else 1
    problem = ColumnScan(
        0, 0, columns.outer * columns.inner, columns.inner, plan.n, columns.outer_stride, way * columns.stride,
        results.outer_stride, way * results.stride, items, 0, columns.outer, strips, 0, 0,
        (ctypes.c_int64 * _MAX_LEVELS)(),
    )
    stages = min(stages, max(-(-plan.n // plan.group), 1))
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive), "BYTES": lane,
        "LEVELS": plan.levels, "STAGES": stages, "THREADS": threads, "RESIDENT": resident,
    }
    choice = KernelChoice(
        "column_walk", macros, -(-items // (per_warp * threads // 32)), threads, problem,
        {"data": (X, at * size), "out": (OUT, to * result)},
        shared=threads // 32 * stages * 32 * lane * plan.group,
    )
    return Recipe((choice,))


class _Tile(NamedTuple):
    """What a block takes at a time, and how many of them it has room for."""

    part: int
    """Columns."""
    parts: int
    threads: int
    resident: int
    ahead: int
    stages: int
    bytes: int


def _tile(inner: int, groups: int, levels: int, size: int, aligned: bool, gpu: Gpu) -> _Tile:
    """As much as suits an H200, or the most that a GPU has shared memory for."""
    threads, most, usual, ahead = _MANY_RUNS if levels > 1 else _FEW_RUNS
    wanted, resident = _TILE, usual
    while True:
        together = wanted // (_GROUP * groups)
        part = _part(inner, together, size)
        parts = min(together // part, _MAX_PARTS)
        columns = part * parts
        units = columns // (2 if size == 2 and aligned else 1)
        held = parts * groups * (_GROUP // size) * (part * size + (0 if aligned else 16))
        room = (
            (gpu.shared_memory + _RESERVED) // resident
            - _RESERVED
            - _known_bytes(columns, parts, groups, levels, most)
        )
        stages = min(most, room // held)
        if stages >= min(most, 2) + ahead:
            return _Tile(part, parts, min(threads, units * groups), resident, ahead, stages, held)
        if ahead:
            ahead = 0
        elif resident > 1:
            resident -= 1
        else:
            wanted, resident = wanted // 2, usual


def _known_bytes(columns: int, parts: int, groups: int, levels: int, stages: int) -> int:
    """Shared memory of a block besides its tiles, at most."""
    of_column = (1 if groups == 1 else groups + 1) + (10 + levels if levels else 0)
    return 8 * of_column * columns + 48 * (stages + 2) * parts


def _part(inner: int, together: int, size: int) -> int:
    """Columns of a part, a power of two: as many as a tile has room for, or fewer if that leaves less of it empty."""
    widest = max(min(together, 1 << (inner - 1).bit_length()), 16 // size)
    choices = [widest]
    while choices[-1] * size > _LINE:
        choices.append(choices[-1] // 2)
    room = {each: -(-inner // each) * each for each in choices}
    return next(
        (each for each in choices if room[each] <= _WASTE * inner), min(choices, key=lambda each: room[each])
    )


def _aligned(columns: Columns, results: Columns, size: int) -> bool:
    """Whether all rows begin at multiples of 16 bytes, and pairs of 16-bit numbers have their results at such of two."""
    pairs = size > 2 or all(each % 2 == 0 for each in (columns.inner, results.outer_stride, results.stride))
    return pairs and all(step * size % 16 == 0 for step in (columns.outer_stride, columns.stride))
