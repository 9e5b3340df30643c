"""The kernel of running sums down the columns of an array: along an axis that is not the last, without a copy."""

from __future__ import annotations

import ctypes

from tcu.formats.format import Format, get_format
from tcu.gpu.columns import Columns
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.scans import ScanCounters, Slot
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.plan.scan import ScanPlan

__all__ = ["column_scan_recipe", "suits"]

_LANES, _ROWS = 16, 32
"""Of a block's threads: side by side, each with a column or two, and one below the other, each with a group."""
_LEAST_BYTES = 32
"""Of a row of the inner numbers, a sector of memory: with fewer, lanes read sectors of which they use a part."""
_RESIDENT = {2: 2, 4: 2, 8: 2}
"""Blocks per multiprocessor, by the bytes of a number: a lane keeps its groups in registers."""
_MAX_LEVELS = 8
_MAX_BLOCKS = (1 << 31) - 1

ColumnScan = struct("ColumnScan", f"""
    const void* data;
    void* out;
    i64 columns;  // of all outer ones
    i64 inner;    // of them, side by side
    i64 length;
    i64 outer_stride, stride;  // in elements
    i64 out_outer_stride, out_stride;
    i64 tiles;    // of the columns, at one height
    i64 wide;     // whether the results of a lane's columns are stored at once
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
    size, count = get_format(plan.input).dtype.itemsize, columns.outer * columns.inner
    own = 2 if size < 8 and aligned and _even(columns) else 1
    groups = max(-(-plan.n // plan.group), 1)
    per_column = min(1 << (groups - 1).bit_length(), _ROWS)
    runs = -(-groups // _ROWS)
    tiles = -(-count // (_LANES * own * (_ROWS // per_column)))
    if tiles * runs > _MAX_BLOCKS:
        return None
    first, above = [], runs
    for radix in plan.radices[1:]:
        first.append(above)
        above = -(-above // radix)
    starts = [sum(first[:level]) for level in range(len(first))]
    takes: dict[str, Given] = {"data": X, "out": OUT}
    space: Space | None = None
    if first:
        head = ctypes.sizeof(ScanCounters)
        space = Space("column scan", (head + ctypes.sizeof(Slot) * sum(first) * count) // 8)
        takes |= {"shared": SPACE, "slots": (SPACE, head)}
    problem = ColumnScan(
        0, 0, count, columns.inner, plan.n, columns.outer_stride, columns.stride, results.outer_stride, results.stride,
        tiles, int(_even(results)), 0, 0, (ctypes.c_int64 * _MAX_LEVELS)(*starts),
    )  # fmt: skip
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "LAYOUT": "ALIGNED", "RESULT": TARGETS[target.name],
        "EXCLUSIVE": int(exclusive), "REVERSE": int(reverse), "COLUMNS": own, "PER_COLUMN": per_column,
        "LEVELS": len(first), "RESIDENT": _RESIDENT[size],
    }  # fmt: skip
    choice = KernelChoice("column_scan", macros, max(tiles * runs, 1), _LANES * _ROWS, problem, takes)
    return Recipe((choice,), space=space)


def _even(columns: Columns) -> bool:
    """Whether all rows begin at multiples of two numbers."""
    return all(step % 2 == 0 for step in (columns.inner, columns.outer_stride, columns.stride))
