"""The kernels of the papers' variants of a sum, by their plans, on an array in a GPU's memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu, check_mmas
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.segmented import segmented_recipe
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, LINE, LOAD, TARGETS, Layout, Operand, contiguous
from tcu.plan import GATHERED, SEGMENTED, MmaStep, Plan, output_length
from tcu.plan.plan import Step

__all__ = ["variant_recipe"]

_WARP = 32
_MAX_BLOCKS = (1 << 31) - 1
"""CUDA C++ Programming Guide, "maximum x-dimension of a grid of thread blocks"."""

ChainLevel = struct("ChainLevel", """
    load::Array x;
    void* results;  // one for each group, rounded to the format of the elements
    void* out;      // the last level writes here and not to `results`; else null
    double divisor;
    i64 groups;
    i64 stored;  // whether the last level, too, rounds to the format of the elements
    i64 target;
""")  # fmt: skip

_THREADS = {"ALIGNED": 1536, "SHIFTED": 1280, "STRIDED": 1024}
"""Threads of a multiprocessor that the registers must allow, in the launch for all levels: 40, 48 and 64 for each.

With the 32 of 2048 threads, up to 72 bytes of a thread's registers would lie in memory, with these at most 16 (sm_90).
"""
_MOST_LEVELS = 13
"""A group has 32 numbers at least, and 32^13 are more than an array can have."""
ChainLevels = struct("ChainLevels", f"""
    load::Array x;
    void* results;  // of all levels but the last, rounded to the format of the elements
    void* out;
    u64* arrived;   // counts blocks at the barriers between levels; zero before and after a launch
    double divisor;
    i64 levels;
    i64 groups[{_MOST_LEVELS}];  // of each level
    i64 begins[{_MOST_LEVELS}];  // of each level's results, in bytes
    u64 due[{_MOST_LEVELS}];     // arrivals up to the barrier ahead of each level
    i64 stored;  // whether the last level, too, rounds to the format of the elements
    i64 target;
""")  # fmt: skip


Blocks = struct("Blocks", """
    load::Array x;
    u64* slots;   // one for each block, all MISSING; with ATOMIC their sum, from zero
    u64* totals;  // one for each GATHERED blocks, all MISSING
    void* out;
    double divisor;
    i64 blocks;
    i64 chained;  // the first so many of them are blocks of chains
    i64 border;   // the first number of the blocks of shuffles
    i64 target;
""")  # fmt: skip


def variant_recipe(
    plan: Plan,
    x: Operand,
    layout: Layout,
    target: Format,
    gpu: Gpu,
    divisor: float = 1.0,
    together: bool = False,
) -> Recipe:
    """The sum of an array, by a plan of any variant of the papers, divided by ``divisor`` and rounded to ``target``.

    ``together``: all levels of two-mma and recurrence in one cooperative launch, whose blocks meet between levels, in
    place of a launch for each; the bits are the same.  Raises UnsupportedInstructionError where the GPU is older than
    the plan's MMAs.
    """
    if plan.variant in SEGMENTED:
        return segmented_recipe(plan, x, layout, 1, plan.n, target, gpu, divisor)
    check_mmas(plan, gpu)
    if plan.final or not plan.parts:
        return _blocks(plan, x, layout, target, divisor)
    # The levels of two-mma and recurrence have nothing left to add up at the end.
    if together:
        return _levels_together(plan, x, layout, target, gpu, divisor)
    return _levels(plan, x, layout, target, divisor)


class _Level(NamedTuple):
    groups: int
    begin: int
    """Of its results among those of all levels, in bytes."""


def _levels_of(plan: Plan) -> tuple[list[_Level], int]:
    """The levels, and the bytes that their results take.

    Those of each level lie apart from the others', from a multiple of 16 bytes on; the last level has none.
    """
    size, length, at, levels = get_format(plan.input).dtype.itemsize, plan.n, 0, []
    for number, step in enumerate(plan.parts[0].steps):
        length = output_length(step, length)
        if number % 2:  # of the two steps of a level
            levels.append(_Level(length, at))
            at += -(-length * size // LOAD) * LOAD
    return levels, levels[-1].begin


def _levels(plan: Plan, x: Operand, layout: Layout, target: Format, divisor: float) -> Recipe:
    levels, size = _levels_of(plan)
    kernels: list[KernelChoice] = []
    read: Given = X
    for groups, begin in levels:
        stored = plan.result == plan.input
        problem = ChainLevel(x.array(), 0, 0, divisor, groups, stored, TARGETS[target.name])
        takes: dict[str, Given] = {"x.data": read, "results": (SPACE, begin)}
        if len(kernels) == len(levels) - 1:
            takes["out"] = OUT
        macros = _macros(plan, layout, **_macros_of_levels(plan))
        grid = _grid(plan, -(-groups // (plan.block // _WARP)))
        kernels.append(KernelChoice("levels", macros, grid, plan.block, problem, takes, "level"))
        x, layout, read = contiguous(0, groups), "ALIGNED", (SPACE, begin)
    return Recipe(tuple(kernels), space=Space("levels", _room(size // 8)))


def _levels_together(
    plan: Plan, x: Operand, layout: Layout, target: Format, gpu: Gpu, divisor: float
) -> Recipe:
    levels, size = _levels_of(plan)
    macros = _macros(plan, layout, **_macros_of_levels(plan))
    threads = min(_THREADS[str(macros["LAYOUT"])], gpu.resident_threads)
    resident = max(min(threads // plan.block, gpu.resident_blocks), 1)
    # Blocks that have a group in a level: those arrive at the barrier behind it.
    busy = [
        min(-(-level.groups // (plan.block // _WARP)), gpu.multiprocessors * resident) for level in levels
    ]
    due = (0, *accumulate(busy[:-1]))
    groups, begins = zip(*levels, strict=True)
    problem = ChainLevels(
        x.array(), 0, 0, 0, divisor, len(levels), groups, begins, due, plan.result == plan.input, TARGETS[target.name]
    )  # fmt: skip
    # What all blocks look at has a line of memory of its own.
    takes: dict[str, Given] = {"x.data": X, "results": (SPACE, LINE), "out": OUT, "arrived": SPACE}
    choice = KernelChoice(
        "levels", {**macros, "RESIDENT": resident}, busy[0], plan.block, problem, takes, "levels_together",
        cooperative=True,
    )  # fmt: skip
    return Recipe((choice,), space=Space("levels together", _room((LINE + size) // 8)))


def _macros_of_levels(plan: Plan) -> dict[str, object]:
    """Alike on every level."""
    first, closing = plan.parts[0].steps[:2]
    assert isinstance(first, MmaStep)
    return _chain_macros(plan, first, closing)


def _blocks(plan: Plan, x: Operand, layout: Layout, target: Format, divisor: float) -> Recipe:
    chains: dict[str, object] = {}
    chained = shuffled = border = 0
    for part in plan.parts:
        length = part.stop - part.start
        first, *rest = part.steps
        if isinstance(first, MmaStep):
            chains = _chain_macros(plan, first, rest[0])
            chained = -(-length // (first.group * (plan.block // _WARP)))
        else:
            border, shuffled = part.start, -(-length // plan.block)
    macros = _macros(
        plan, layout, CHAINS=int(chained > 0), SHUFFLES=int(shuffled > 0), GATHERED=GATHERED,
        ATOMIC=int(not plan.reproducible), **chains,
    )  # fmt: skip
    blocks = chained + shuffled
    problem = Blocks(x.array(), 0, 0, 0, divisor, blocks, chained, border, TARGETS[target.name])
    takes: dict[str, Given] = {"x.data": X, "slots": SPACE, "totals": (SPACE, 8 * blocks), "out": OUT}
    choice = KernelChoice("blocks", macros, _grid(plan, blocks), plan.block, problem, takes)
    if not plan.reproducible:
        finish = replace(choice, entry="round_blocks", blocks=1, threads=_WARP)
        return Recipe((choice, finish), space=Space("atomic", 1))
    totals = -(-blocks // GATHERED)
    return Recipe((choice,), space=Space("blocks", _room(blocks + totals), ones=True))


def _grid(plan: Plan, blocks: int) -> int:
    if blocks > _MAX_BLOCKS:
        raise ParameterError(
            f"{plan.variant} of {plan.n:,} numbers takes {blocks:,} blocks of {plan.block} threads, a launch at "
            f"most {_MAX_BLOCKS:,}: choose a larger block, or leave the variant out"
        )
    return max(blocks, 1)


def _chain_macros(plan: Plan, first: MmaStep, closing: Step) -> dict[str, object]:
    """What cuda/device/mma/chains.cuh leaves open, besides the threads of a block."""
    assert isinstance(closing, MmaStep)
    return {
        "CHAIN": first.chain, "TILE": first.layout.upper(), "PARTIAL": ELEMENTS[first.accumulator],
        "TOTAL": ELEMENTS[closing.accumulator],
    }  # fmt: skip


def _macros(plan: Plan, layout: Layout, **own: object) -> dict[str, object]:
    # Only 16-bit tiles are read 16 bytes at a time; everything else may start anywhere.
    if layout == "SHIFTED" and not (get_format(plan.input).bits == 16 and "CHAIN" in own):
        layout = "ALIGNED"
    return {"ELEMENT": ELEMENTS[plan.input], "LAYOUT": layout, "THREADS": plan.block, **own}


def _room(count: int) -> int:
    """The next power of two, so that growing arrays do not take a new piece each time."""
    return 1 << max(count - 1, 0).bit_length()
