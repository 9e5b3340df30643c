"""The kernel of the algorithms of paper 002: sums of equal segments, each by the plan of one."""

from __future__ import annotations

from dataclasses import dataclass

from tcu.formats.format import Format
from tcu.gpu.device import Gpu, check_mmas
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import ELEMENTS, TARGETS, Layout, Operand
from tcu.plan import AddStep, MmaStep, Plan, granularity

__all__ = ["segmented_recipe"]

_WARP = 32
_IN_FLIGHT = 4
"""Loads of a thread before it waits: tiles of one segment, or of several."""
_STAGED = 512
"""Threads of a block up to which that many tiles of every warp fit into the shared memory of a block, 48 KiB."""
_RESIDENT = 1024
"""Threads per multiprocessor that the registers must allow."""


Segmented = struct("Segmented", """
    load::Array x;  // all rows
    i64 rows, length;
    i64 stride;   // from row to row, in elements
    u64* slots;   // with LONG: one for each chunk, all MISSING
    void* out;
    double divisor;
    i64 chain;    // links of a group
    i64 groups;   // of a row
    i64 turns;    // with LONG: how often a block takes SLOTS groups
    i64 chunks;   // with LONG: blocks of a row
    i64 width;    // without LONG: a row has 2^width of a block's slots, or all
    i64 target;
""")  # fmt: skip


@dataclass(frozen=True)
class _Loops:
    algorithm: str
    """As in cuda/kernels/segmented.cu."""
    accumulator: str
    chain: int
    """Links of a group."""
    groups: int
    turns: int


def _loops_of(plan: Plan) -> _Loops:
    """What the plan's steps ask of the kernel; a plan of nothing has one group, of zeros."""
    if not plan.parts:
        return _Loops("REDUCTION_16", "binary32", 1, 1, 1)
    steps = plan.parts[0].steps
    mmas = [step for step in steps if isinstance(step, MmaStep)]
    names = {(1,): "REDUCTION_16", (16, 1): "REDUCTION_256N"}
    algorithm = names[tuple(step.dots for step in mmas)]
    if len(mmas) == 2 and mmas[1].chain > 1:
        algorithm = "WORK_INEFFICIENT"
    sequences = (
        step.length or 1 for step in steps if isinstance(step, AddStep) and step.order == "sequential"
    )
    groups = -(-plan.n // granularity(tuple(mmas)))
    return _Loops(
        algorithm, mmas[0].accumulator, max(step.chain for step in mmas), groups, next(sequences, 1)
    )


def segmented_recipe(
    plan: Plan, x: Operand, layout: Layout, rows: int, stride: int, target: Format, gpu: Gpu, divisor: float
) -> Recipe:
    """The sum of each row by a plan of paper 002.

    ``x``: all rows, one after another at a distance of ``stride`` elements, or
    one row of any layout.  Raises UnsupportedInstructionError where the GPU is
    older than the plan's MMAs.
    """
    check_mmas(plan, gpu)
    loops = _loops_of(plan)
    groups, chain = loops.groups, loops.chain
    together = plan.block // _WARP * (16 if loops.algorithm == "REDUCTION_16" else 1)
    chunks = -(-groups // (loops.turns * together))
    is_long = groups > together
    in_flight = _IN_FLIGHT if plan.block <= _STAGED else _IN_FLIGHT // 2
    links = min(in_flight, 1 << (chain - 1).bit_length())
    unroll = in_flight // links
    width = (groups - 1).bit_length()
    accumulator = ELEMENTS[loops.accumulator]
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "LAYOUT": layout, "THREADS": plan.block, "CHAIN": 1, "TILE": "ROWS",
        "PARTIAL": accumulator, "TOTAL": accumulator, "ALGORITHM": loops.algorithm, "AT_ONCE": links, "UNROLL": unroll,
        "LONG": int(is_long), "RESIDENT": max(1, _RESIDENT // plan.block),
    }  # fmt: skip
    held = unroll * max(1, together >> width)
    problem = Segmented(
        x.array(), rows, plan.n, stride, 0, 0, divisor, chain, groups, loops.turns, chunks, width, TARGETS[target.name]
    )  # fmt: skip
    blocks = rows * chunks if is_long else -(-rows // held)
    takes: dict[str, Given] = {"x.data": X, "out": OUT}
    space = Space("segmented", rows * chunks, ones=True) if chunks > 1 else None
    if space is not None:
        takes["slots"] = SPACE
    return Recipe(
        (KernelChoice("segmented", macros, max(blocks, 1), plan.block, problem, takes),), space=space
    )
