"""The kernels of running sums by MMAs: of equal rows, and of ragged segments."""

from __future__ import annotations

from typing import Any

from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.device import Gpu, check_mma_of
from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, TARGETS
from tcu.plan import MmaScanPlan

__all__ = ["mma_scan_recipe", "mma_segment_scan_recipe"]

_WARPS = {16: 16, 1: 8}
"""Of a block, by the rows of a tile: a group of 16 strips has room in one."""
_ALGORITHMS = {"scan-16": "SCAN_16", "scan-256n-work-efficient": "WORK_EFFICIENT"}
_LEVELS = 8
"""Of groups, of runs of 16 groups and so on: more than 2^31 blocks could have."""
_THREADS = 512
"""Of a block of triangular_levels.cu."""
_BLOCKS = 2048
"""Of triangular_levels.cu at most: blocks take one row after another."""
_MOST_BLOCKS = (1 << 31) - 1


TriangularScan = struct("TriangularScan", f"""
    const void* data;
    void* out;
    const i64* offsets;  // of segments
    i64 rows;            // or segments
    i64 length;          // of a row; of the line that has segments
    i64 stride, out_stride;  // from row to row, in elements
    i64 groups;          // of a row
    i64 chain;           // tiles of a strip
    i64 slots;           // groups of all rows
    float* before;       // of strips: what comes before them in their group
    float* carries;      // of groups: their totals, and then what comes before them
    float* prefixes;     // as many: what comes before a group among its 16, and so on
    i64 levels[{_LEVELS}];  // where the totals of each level begin
""")  # fmt: skip


def mma_scan_recipe(
    plan: MmaScanPlan, rows: int, stride_in: int, stride_out: int, target: Format, gpu: Gpu, *, exclusive: bool,
    reverse: bool,
) -> Recipe:  # fmt: skip
    """The running sums of each row by the plan of one; ``stride_in`` and ``stride_out``: the distances of rows in elements.

    Raises ParameterError for more rows than a launch takes, and UnsupportedInstructionError where the GPU is older than
    the plan's MMAs.
    """
    strips = max(plan.strips, 1)
    groups = -(-strips // 16)
    width = min((strips - 1).bit_length(), 4)
    problem = TriangularScan(0, 0, 0, rows, plan.n, stride_in, stride_out, groups, plan.chain, rows * groups)
    carried = 0 if strips == 1 else 1 if groups == 1 else 2
    macros = {
        **_macros(plan, target, exclusive, reverse),
        "STRIPS_LOG": width,
        "CARRIED": carried,
        "RAGGED": 0,
    }
    return _recipe(plan, gpu, problem, macros, {"data": X, "out": OUT}, groups)


def mma_segment_scan_recipe(
    plan: MmaScanPlan, n: int, segments: int, target: Format, gpu: Gpu, *, exclusive: bool, reverse: bool
) -> Recipe:
    """The running sums of the ragged segments of a line of ``n`` elements; ``plan``: of one that is all of it.

    A shorter segment has the strips of that plan, too: where its own plan has fewer tiles in one, it is one strip.
    """
    of_group = 16 * plan.strip
    slots = n // of_group + segments
    problem = TriangularScan(0, 0, 0, segments, n, 0, 0, 0, plan.chain, slots)
    macros = {**_macros(plan, target, exclusive, reverse), "STRIPS_LOG": 4, "CARRIED": 2, "RAGGED": 1}
    takes: dict[str, Given] = {"data": X, "out": OUT, "offsets": OTHER}
    return _recipe(plan, gpu, problem, macros, takes, n // of_group + 1)


def _macros(plan: MmaScanPlan, target: Format, exclusive: bool, reverse: bool) -> dict[str, object]:
    accumulator = ELEMENTS[plan.accumulator]
    return {
        "ELEMENT": ELEMENTS[plan.input], "LAYOUT": "ALIGNED", "CHAIN": 1, "TILE": "ROWS", "PARTIAL": accumulator,
        "TOTAL": accumulator, "ALGORITHM": _ALGORITHMS.get(plan.variant, "SCAN_256"),
        "RESULT": TARGETS[target.name], "EXCLUSIVE": int(exclusive), "REVERSE": int(reverse),
    }  # fmt: skip


def _recipe(
    plan: MmaScanPlan, gpu: Gpu, problem: Any, macros: dict[str, object], takes: dict[str, Given], most: int
) -> Recipe:  # fmt: skip
    """``most``: groups of the longest row."""
    check_mma_of(
        plan.input,
        gpu,
        "leave the variant out, or scan a NumPy array, with unit='A100' for example, on the CPU",
    )
    warps = _WARPS[plan.rows]
    held = 16 // plan.rows * warps >> int(str(macros["STRIPS_LOG"]))
    blocks = max(-(-problem.slots // held), 1)
    if blocks > _MOST_BLOCKS:
        raise ParameterError(
            f"{problem.rows} rows of {plan.n} numbers are more than one scan takes: scan fewer rows at a time"
        )
    threads = 32 * warps

    def kernel(phase: str) -> KernelChoice:
        return KernelChoice(
            "triangular_scan", {**macros, "PHASE": phase, "THREADS": threads}, blocks, threads, problem, takes
        )

    if not macros["CARRIED"]:
        return Recipe((kernel("RESULTS"),))
    # Numbers of 4 bytes: what comes before strips; then totals of groups, of runs of groups and so on; then their prefixes.
    before, level, totals = problem.slots << int(str(macros["STRIPS_LOG"])), 0, 0
    while True:
        problem.levels[level] = totals
        totals += (problem.slots >> 4 * level) + problem.rows + 1
        if most <= 1 << 4 * level:
            break
        level += 1
    takes |= {"before": ROOM, "carries": (ROOM, 4 * before), "prefixes": (ROOM, 4 * (before + totals))}
    kernels = [kernel("TOTALS"), kernel("RESULTS")]
    if macros["CARRIED"] == 2:
        chosen = {
            name: macros[name]
            for name in ("ELEMENT", "LAYOUT", "CHAIN", "TILE", "PARTIAL", "TOTAL", "RAGGED")
        }
        chosen |= {"NUMBERS": plan.tile, "THREADS": _THREADS}
        levels = KernelChoice(
            "triangular_levels", chosen, max(min(problem.rows, _BLOCKS), 1), _THREADS, problem, takes
        )
        kernels.insert(1, levels)
    return Recipe(tuple(kernels), -(-4 * (before + 2 * totals) // 8))
