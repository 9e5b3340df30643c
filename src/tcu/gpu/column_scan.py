"""The kernels of running sums down the columns of an array: along an axis that is not the last, without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.columns import Columns
from tcu.gpu.configs import ColumnScanConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.scans import ScanCounters, Slot
from tcu.gpu.slab_scan import fills_memory, slab_scan_recipe
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.gpu.tuning import config
from tcu.plan.scan import ScanPlan

__all__ = ["column_scan_recipe", "suits"]

_RUN = 32
"""Groups of a tile at most: a run of the plan's first level."""
_GROUP = 32
"""Bytes."""
_LEAST_BYTES = 32
"""Of a row of the inner numbers, a sector of memory: with fewer, most of what is read would be for others."""
_WARP, _GRANULE, _SECTOR = 32, 16, 32
_RESERVED = 1 << 10
"""Bytes of shared memory that every block has for itself (CUDA C++ Programming Guide, "Shared Memory")."""
_FULL = 0.75
"""Of the room for blocks, on average (H200: 1.29 times as many blocks of one warp as there is room for reached 0.83 of a copy's
speed, 1.94 times as many 0.94)."""
_LEAST_TURNS = 4
"""Of warps that share columns."""
_LEAST_IN_PLACE = 8
"""Of warps whose results take the places of numbers: 17 rows of binary16, of two turns, have 0.58 of a copy's speed so, and 0.67
otherwise; 300 rows of all formats, of 9 turns or more, 0.69 and 0.52 and more (H200)."""
_MOST_WASTE = 1.5
"""Columns that strips have room for, of those that there are."""
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
    i64 items;    // parts of tiles; where warps walk, granules of 16 bytes in a row of all columns, or strips
    i64 tiles;    // or the turns of a block's warps
    u32 outer;
    u32 strips;   // items that the inner columns make
    scan::Slot* slots;
    scan::ScanCounters* shared;
    i64 first[{_MAX_LEVELS}];  // runs of the levels below
""")  # fmt: skip


def suits(columns: Columns, results: Columns, length: int, size: int) -> bool:
    """Whether numbers of that size, and their results, lie so that a kernel reads and writes whole sectors."""
    return columns[:2] == results[:2] and (
        columns.inner * size >= _LEAST_BYTES or all(fills_memory(each, length) for each in (columns, results))
    )


def column_scan_recipe(
    plan: ScanPlan, columns: Columns, results: Columns, aligned: bool, target: Format, gpu: Gpu, *, exclusive: bool,
    reverse: bool,
) -> Recipe | None:  # fmt: skip
    """The running sums of each column by the plan of one; None for more of them than a launch has blocks for, or so few and
    short rows that a copy in the order of rows is faster.

    ``aligned``: whether numbers and results begin at multiples of 16 bytes.
    """
    if all(fills_memory(each, plan.n) for each in (columns, results)):
        slabs = slab_scan_recipe(
            plan, columns.outer, columns.inner, aligned, target, gpu, exclusive=exclusive, reverse=reverse
        )
        if slabs is not None:
            return slabs
    size, result = get_format(plan.input).dtype.itemsize, target.dtype.itemsize
    if columns.inner * size < _LEAST_BYTES:
        return None
    tuned = config(ColumnScanConfig, gpu.compute_capability, plan.input)
    at, to = ((plan.n - 1) * each if reverse and plan.n else 0 for each in (columns.stride, results.stride))
    way = -1 if reverse else 1
    problem = ColumnScan(
        columns=columns.outer * columns.inner, inner=columns.inner, length=plan.n,
        outer_stride=columns.outer_stride, stride=way * columns.stride, out_outer_stride=results.outer_stride,
        out_stride=way * results.stride, outer=columns.outer,
    )  # fmt: skip
    takes: dict[str, Given] = {"data": (X, at * size), "out": (OUT, to * result)}
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive),
    }  # fmt: skip
    whole = aligned and _aligned(columns, results, size, 2 if size == 2 else 1)
    alike = aligned and target.name == plan.input and _alike(columns, results, size)
    for begins, walk in _walks(tuned, whole, alike, plan):
        of_item = _WARP * walk.lane - (_SECTOR if begins == _SECTOR else 0) if begins else _GRANULE
        items = -(-columns.inner * size // of_item)
        strips = (
            items * columns.outer if begins else -(-items * columns.outer * _GRANULE // (walk.lane * _WARP))
        )
        if (
            walk.suits(strips, gpu) and _room(walk, plan, begins) + _totals_of(walk, size) <= gpu.shared_memory
            and items * of_item <= _MOST_WASTE * columns.inner * size and items * columns.outer <= _MAX_ITEMS
            and (begins or _aligned(columns, results, size, walk.lane // size))
        ):  # fmt: skip
            problem.strips, problem.items = items, items * columns.outer
            return _walk(plan, problem, strips, walk, begins, macros, takes)
    return (
        _look_back(plan, columns, whole, problem, macros, takes, tuned, gpu)
        or _tiles(plan, columns, whole, problem, macros, takes, tuned, gpu)
    )  # fmt: skip


class _Walk(NamedTuple):
    """What a block of column_walk.cu takes at a time."""

    lane: int
    """Bytes of a row that a lane has."""
    stages: int
    """Groups that a warp has room for."""
    warps: int
    resident: int
    enough: float
    """Blocks per multiprocessor."""

    def suits(self, blocks: int, gpu: Gpu) -> bool:
        """Whether there are enough; blocks of one warp live long, so that the last of them must not leave much of a GPU idle."""
        room = self.resident * gpu.multiprocessors
        idle = self.warps == 1 and room < blocks < _FULL * (-(-blocks // room)) * room
        return blocks >= self.enough * gpu.multiprocessors and not idle


def _walks(tuned: ColumnScanConfig, whole: bool, alike: bool, plan: ScanPlan) -> Iterator[tuple[int, _Walk]]:
    """(bytes in which rows begin anywhere, or 0 where they are whole; walk), from the one for most columns on.

    Warps that share columns must have enough groups each.  ``alike``: whether results can take the places of numbers.
    """
    if not plan.levels:
        yield (0, _Walk(*tuned.short_walk)) if whole else (_GRANULE, _Walk(*tuned.short_walk_anywhere))
        return
    if whole:
        choices = [(0, tuned.walks, _LEAST_TURNS)]
    else:
        choices = [(_SECTOR, tuned.walks_in_place, _LEAST_IN_PLACE)] if alike else []
        choices.append((_GRANULE, tuned.walks_anywhere, _LEAST_TURNS))
    for begins, walks, least in choices:
        for walk in (_Walk(*each) for each in walks):
            if (walk.warps == 1 and begins != _SECTOR) or plan.n >= least * walk.warps * plan.group:
                yield begins, walk


def _walk(
    plan: ScanPlan, problem: Struct, strips: int, walk: _Walk, begins: int, macros: dict[str, object],
    takes: dict[str, Given],
) -> Recipe:  # fmt: skip
    """By warps that walk down columns (column_walk.cu), of which there are enough to fill a GPU."""
    groups = max(-(-plan.n // plan.group), 1)
    problem.tiles = -(-groups // walk.warps)
    macros |= {
        "LAYOUT": "SHIFTED" if begins else "ALIGNED", "BYTES": walk.lane, "LEVELS": plan.levels, "STAGES": _stages(walk, plan),
        "WARPS": walk.warps, "RESIDENT": walk.resident, "IN_PLACE": int(begins == _SECTOR),
    }  # fmt: skip
    choice = KernelChoice(
        "column_walk", macros, strips, walk.warps * _WARP, problem, takes, shared=_room(walk, plan, begins)
    )
    return Recipe((choice,))


def _tiles(
    plan: ScanPlan, columns: Columns, aligned: bool, problem: Struct, macros: dict[str, object],
    takes: dict[str, Given], tuned: ColumnScanConfig, gpu: Gpu,
) -> Recipe | None:  # fmt: skip
    """By blocks that take a run of some columns at a time, and hand on its totals (column_scan.cu)."""
    size = get_format(plan.input).dtype.itemsize
    total = max(-(-plan.n // plan.group), 1)
    groups = min(1 << (total - 1).bit_length(), _RUN)
    runs = -(-total // _RUN)
    levels = max(plan.levels - 1, 0)
    tile = _tile(columns.inner, groups, levels, size, aligned, tuned, gpu)
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
    problem.items, problem.tiles, problem.strips = items, tiles, strips
    for level in range(len(first)):
        problem.first[level] = sum(first[:level])
    space: Space | None = None
    if first:
        head = ctypes.sizeof(ScanCounters)
        space = Space("column scan", (head + ctypes.sizeof(Slot) * sum(first) * problem.columns) // 8)
        takes |= {"shared": SPACE, "slots": (SPACE, head)}
    macros |= {
        "LAYOUT": "ALIGNED" if aligned else "SHIFTED", "GROUPS": groups, "COLUMNS": part, "PARTS": parts,
        "LEVELS": levels, "AHEAD": tile.ahead, "STAGES": tile.stages, "THREADS": tile.threads,
        "RESIDENT": tile.resident,
    }  # fmt: skip
    choice = KernelChoice(
        "column_scan", macros, max(min(tiles, gpu.multiprocessors * tile.resident), 1), tile.threads, problem, takes,
        shared=tile.stages * tile.bytes,
    )  # fmt: skip
    return Recipe((choice,), space=space)


def _stages(walk: _Walk, plan: ScanPlan) -> int:
    return min(walk.stages, max(-(-plan.n // (plan.group * walk.warps)), 1))


def _room(walk: _Walk, plan: ScanPlan, begins: int) -> int:
    """Bytes of shared memory that a block's groups take, of which each row begins anywhere in so many."""
    return walk.warps * _stages(walk, plan) * (_WARP * walk.lane + begins) * plan.group


def _totals_of(walk: _Walk, size: int) -> int:
    """Bytes of those that the warps of a block tell each other."""
    return 2 * 8 * walk.warps * walk.lane // size * _WARP


def _look_back(
    plan: ScanPlan, columns: Columns, aligned: bool, problem: Struct, macros: dict[str, object],
    takes: dict[str, Given], tuned: ColumnScanConfig, gpu: Gpu,
) -> Recipe | None:  # fmt: skip
    """By blocks that share a strip of columns, and look back (column_look_back.cu); None where strips leave too many idle."""
    size = get_format(plan.input).dtype.itemsize
    width, each, ahead, stages, resident = tuned.look_back if aligned else tuned.look_back_anywhere
    strip, unit, parts = width - (0 if aligned else _GRANULE), 2 if size == 2 else 1, _RUN // each
    strips = -(-columns.inner * size // strip)
    items, room = strips * columns.outer, gpu.multiprocessors * resident
    levels, runs = plan.levels - 1, -(-plan.n // (plan.group * _RUN))
    tiles = stages * width * plan.group * _RUN
    known = 8 * (2 * parts * width + 2 * (ahead + 2) * strip) // size + 16 * (ahead + 2)  # LookBackBuffers
    if (
        gpu.compute_capability < (9, 0) or levels < 1 or not 0 < items <= room
        or room // items * items < tuned.busy * room or strips * strip > tuned.waste * columns.inner * size
        or (tiles + known + _RESERVED) * resident > gpu.shared_memory + _RESERVED
    ):  # fmt: skip
        return None
    problem.strips, problem.items, problem.tiles, problem.first[1] = strips, items, runs, runs
    slots = runs + -(-runs // plan.radices[1])
    head = ctypes.sizeof(ScanCounters)
    space = Space("column scan", (head + ctypes.sizeof(Slot) * slots * problem.columns) // 8)
    takes |= {"shared": SPACE, "slots": (SPACE, head)}
    macros |= {
        "LAYOUT": "ALIGNED" if aligned else "SHIFTED", "BYTES": width, "LEVELS": levels, "AHEAD": ahead,
        "STAGES": stages, "EACH": each, "RESIDENT": resident,
    }  # fmt: skip
    carriers = 2 * -(-strip // size // _WARP)
    choice = KernelChoice(
        "column_look_back", macros, min(room // items, runs) * items, width // size // unit * parts + carriers * _WARP,
        problem, takes, shared=tiles, cooperative=True,
    )  # fmt: skip
    return Recipe((choice,), space=space)


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


def _tile(
    inner: int, groups: int, levels: int, size: int, aligned: bool, tuned: ColumnScanConfig, gpu: Gpu
) -> _Tile:
    """As much as suits an H200, or the most that a GPU has shared memory for."""
    runs = tuned.few_runs if levels <= 1 else tuned.many_runs if aligned else tuned.many_runs_anywhere
    threads, most, usual, ahead = runs
    wanted, resident = tuned.tile, usual
    while True:
        together = wanted // (_GROUP * groups)
        part = _part(inner, together, size, tuned)
        parts = min(together // part, _MAX_PARTS)
        columns = part * parts
        units = columns // (2 if size == 2 and aligned else 1)
        held = parts * groups * (_GROUP // size) * (part * size + (0 if aligned else _GRANULE))
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


def _part(inner: int, together: int, size: int, tuned: ColumnScanConfig) -> int:
    """Columns of a part, a power of two: as many as a tile has room for, or fewer if that leaves less of it empty."""
    widest = max(min(together, 1 << (inner - 1).bit_length()), _GRANULE // size)
    choices = [widest]
    while choices[-1] * size > tuned.line:
        choices.append(choices[-1] // 2)
    room = {each: -(-inner // each) * each for each in choices}
    return next(
        (each for each in choices if room[each] <= tuned.waste * inner),
        min(choices, key=lambda each: room[each]),
    )


def _aligned(columns: Columns, results: Columns, size: int, unit: int) -> bool:
    """Whether all rows begin at multiples of 16 bytes, and so many neighbours have their results at multiples of that."""
    whole = all(each % unit == 0 for each in (columns.inner, results.outer_stride, results.stride))
    return whole and all(step * size % _GRANULE == 0 for step in (columns.outer_stride, columns.stride))


def _alike(columns: Columns, results: Columns, size: int) -> bool:
    """Whether the results of each row begin where its numbers do in 16 bytes, if the first row's do."""
    steps = ((columns.outer_stride, results.outer_stride), (columns.stride, results.stride))
    return all((given - goal) * size % _GRANULE == 0 for given, goal in steps)
