"""Launch the papers' variants of a sum, by their plans, on an array in a GPU's memory."""

from __future__ import annotations

import ctypes
from typing import Any

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.device import Gpu, check_mmas
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.segmented import SegmentedLaunch
from tcu.gpu.sums import ELEMENTS, TARGETS, Layout, Operand, compiled, contiguous, layout_of, operand_of
from tcu.gpu.workspace import workspace
from tcu.plan import SEGMENTED, MmaStep, Plan, output_length
from tcu.plan.plan import Step

__all__ = ["launch_variant"]

_WARP = 32
_MAX_BLOCKS = (1 << 31) - 1
"""CUDA C++ Programming Guide, "maximum x-dimension of a grid of thread blocks"."""
_GATHERED = 1 << 12
"""Blocks whose numbers one block adds up: enough to hide how a total goes from one such block to the next."""


class _Level(ctypes.Structure):
    """As in cuda/kernels/levels.cu."""

    _fields_ = (
        ("x", Operand),
        ("results", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("groups", ctypes.c_int64),
        ("stored", ctypes.c_int64),
        ("target", ctypes.c_int64),
    )


class _Blocks(ctypes.Structure):
    """As in cuda/kernels/blocks.cu."""

    _fields_ = (
        ("x", Operand),
        ("slots", ctypes.c_uint64),
        ("totals", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("blocks", ctypes.c_int64),
        ("chained", ctypes.c_int64),
        ("border", ctypes.c_int64),
        ("target", ctypes.c_int64),
    )


def launch_variant(
    plan: Plan,
    x: DeviceArray,
    out: int,
    target: Format,
    gpu: Gpu,
    stream: int,
    *,
    divisor: float = 1.0,
) -> None:
    """Put the sum of an array on the stream, by a plan of any variant but short-chain.

    ``out``: the address of the result, rounded to ``target`` after a division
    by ``divisor``.  Raises UnsupportedInstructionError where the GPU is older
    than the plan's MMAs.
    """
    check_mmas(plan, gpu)
    operand = operand_of(x)
    if plan.variant in SEGMENTED:
        every = SegmentedLaunch(plan, operand, layout_of([operand]), 1, plan.n, target, gpu, divisor)
        every(operand.data, out, stream)
        return
    # The levels of two-mma and recurrence have nothing left to add up at the end.
    launch = _launch_levels if plan.parts and not plan.final else _launch_blocks
    launch(plan, operand, out, target, gpu, stream, divisor)


def _launch_levels(
    plan: Plan, x: Operand, out: int, target: Format, gpu: Gpu, stream: int, divisor: float
) -> None:
    steps = plan.parts[0].steps
    levels = list(zip(steps[::2], steps[1::2], strict=True))
    element, warps = get_format(plan.input), plan.block // _WARP
    groups, length = [], plan.n
    for level in levels:
        for step in level:
            length = output_length(step, length)
        groups.append(length)
    # Every level's results stay apart, from a multiple of 16 bytes on; the last level has none.
    words = [-(-count * element.dtype.itemsize // 16) * 2 for count in groups[:-1]]
    space = workspace("levels", gpu.ordinal, stream, 0, _room(sum(words)))
    results, launches = space.words_address, []
    stored = plan.result == plan.input
    for number, (first, closing) in enumerate(levels):
        assert isinstance(first, MmaStep)
        function = _compiled(
            "levels.cu", "level", gpu, element, layout_of([x]), _chain_macros(plan, first, closing)
        )
        last = number == len(levels) - 1
        problem = _Level(
            x, results, out if last else 0, divisor, groups[number], stored, TARGETS[target.name]
        )
        launches.append(KernelLaunch(function, _grid(plan, -(-groups[number] // warps)), plan.block, problem))
        if not last:
            x = contiguous(results, groups[number])
            results += 8 * words[number]
    space.start(stream, *launches)


def _launch_blocks(
    plan: Plan, x: Operand, out: int, target: Format, gpu: Gpu, stream: int, divisor: float
) -> None:
    chains: tuple[tuple[str, object], ...] = ()
    chained = shuffled = border = 0
    for part in plan.parts:
        length = part.stop - part.start
        first, *rest = part.steps
        if isinstance(first, MmaStep):
            chains = _chain_macros(plan, first, rest[0])
            chained = -(-length // (first.group * (plan.block // _WARP)))
        else:
            border, shuffled = part.start, -(-length // plan.block)
    function = _compiled(
        "blocks.cu", "blocks", gpu, get_format(plan.input), layout_of([x]),
        (("THREADS", plan.block), ("CHAINS", int(chained > 0)), ("SHUFFLES", int(shuffled > 0)),
         ("GATHERED", _GATHERED), *chains[1:]),
    )  # fmt: skip
    blocks = chained + shuffled
    totals = -(-blocks // _GATHERED)
    slots = workspace("blocks", gpu.ordinal, stream, _room(blocks + totals), 0).slots_address
    problem = _Blocks(
        x, slots, slots + 8 * blocks, out, divisor, blocks, chained, border, TARGETS[target.name]
    )
    KernelLaunch(function, _grid(plan, blocks), plan.block, problem)(stream)


def _grid(plan: Plan, blocks: int) -> int:
    if blocks > _MAX_BLOCKS:
        raise ParameterError(
            f"{plan.variant} of {plan.n:,} numbers takes {blocks:,} blocks of {plan.block} threads, a launch at "
            f"most {_MAX_BLOCKS:,}: choose a larger block, or the variant short-chain"
        )
    return max(blocks, 1)


def _chain_macros(plan: Plan, first: MmaStep, closing: Step) -> tuple[tuple[str, object], ...]:
    """What cuda/device/mma/chains.cuh leaves open."""
    assert isinstance(closing, MmaStep)
    return (
        ("THREADS", plan.block), ("CHAIN", first.chain), ("TILE", first.layout.upper()),
        ("PARTIAL", ELEMENTS[first.accumulator]), ("TOTAL", ELEMENTS[closing.accumulator]),
    )  # fmt: skip


def _compiled(
    source: str, entry: str, gpu: Gpu, element: Format, layout: Layout, macros: tuple[tuple[str, object], ...]
) -> Any:
    # Only 16-bit tiles are read 16 bytes at a time; everything else may start anywhere.
    tiles_of_vectors = element.bits == 16 and any(name == "CHAIN" for name, _ in macros)
    if layout == "SHIFTED" and not tiles_of_vectors:
        layout = "ALIGNED"
    return compiled(source, entry, gpu.compute_capability, ELEMENTS[element.name], layout, macros)


def _room(count: int) -> int:
    """The next power of two, so that growing arrays do not take a new piece each time."""
    return 1 << max(count - 1, 0).bit_length()
