"""The kernels of the papers' variants of a sum, by their plans, on an array in a GPU's memory."""

from __future__ import annotations

from dataclasses import replace

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu, check_mmas
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.segmented import segmented_recipe
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, TARGETS, Layout, Operand, contiguous
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
    plan: Plan, x: Operand, layout: Layout, target: Format, gpu: Gpu, divisor: float = 1.0
) -> Recipe:
    """The sum of an array, by a plan of any variant of the papers, divided by ``divisor`` and rounded to ``target``.

    Raises UnsupportedInstructionError where the GPU is older than the plan's MMAs.
    """
    if plan.variant in SEGMENTED:
        return segmented_recipe(plan, x, layout, 1, plan.n, target, gpu, divisor)
    check_mmas(plan, gpu)
    # The levels of two-mma and recurrence have nothing left to add up at the end.
    return (_levels if plan.parts and not plan.final else _blocks)(plan, x, layout, target, divisor)


def _levels(plan: Plan, x: Operand, layout: Layout, target: Format, divisor: float) -> Recipe:
    steps = plan.parts[0].steps
    levels = list(zip(steps[::2], steps[1::2], strict=True))
    size, warps = get_format(plan.input).dtype.itemsize, plan.block // _WARP
    kernels, length, at = [], plan.n, 0
    read: Given = X
    for level in levels:
        first, closing = level
        assert isinstance(first, MmaStep)
        for step in level:
            length = output_length(step, length)
        last = level is levels[-1]
        problem = ChainLevel(
            x.array(), 0, 0, divisor, length, plan.result == plan.input, TARGETS[target.name]
        )
        takes: dict[str, Given] = {"x.data": read, "results": (SPACE, at)}
        if last:
            takes["out"] = OUT
        macros = _macros(plan, layout, **_chain_macros(plan, first, closing))
        grid = _grid(plan, -(-length // warps))
        kernels.append(KernelChoice("levels", macros, grid, plan.block, problem, takes, "level"))
        # Every level's results stay apart, from a multiple of 16 bytes on; the last level has none.
        x, layout, read = contiguous(0, length), "ALIGNED", (SPACE, at)
        at += 0 if last else -(-length * size // 16) * 16
    return Recipe(tuple(kernels), space=Space("levels", _room(at // 8)))


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
