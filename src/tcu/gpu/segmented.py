"""Launch the algorithms of paper 002: sums of equal segments, each by the plan of one."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass

from tcu.formats.format import Format
from tcu.gpu.device import Gpu, check_mmas
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.sums import ELEMENTS, TARGETS, Layout, Operand, compiled
from tcu.gpu.workspace import workspace
from tcu.plan import AddStep, MmaStep, Plan, granularity

__all__ = ["SegmentedLaunch"]

_WARP = 32
_IN_FLIGHT = 4
"""Loads of a thread before it waits: tiles of one segment, or of several."""
_STAGED = 512
"""Threads of a block up to which that many tiles of every warp fit into the shared memory of a block, 48 KiB."""
_RESIDENT = 1024
"""Threads per multiprocessor that the registers must allow."""


class _Segmented(ctypes.Structure):
    """As in cuda/kernels/segmented.cu."""

    _fields_ = (
        ("x", Operand),
        ("rows", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("slots", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("chain", ctypes.c_int64),
        ("groups", ctypes.c_int64),
        ("turns", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("target", ctypes.c_int64),
    )


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


class SegmentedLaunch:
    """The sum of each row by a plan of paper 002: everything but the addresses.

    ``x``: all rows, one after another at a distance of ``stride`` elements, or
    one row of any layout.  Raises UnsupportedInstructionError where the GPU is
    older than the plan's MMAs.
    """

    def __init__(
        self, plan: Plan, x: Operand, layout: Layout, rows: int, stride: int, target: Format, gpu: Gpu,
        divisor: float,
    ) -> None:  # fmt: skip
        check_mmas(plan, gpu)
        self._gpu = gpu
        self._lock = threading.Lock()
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
        function = compiled(
            "segmented.cu", "segmented", gpu.compute_capability, ELEMENTS[plan.input], layout,
            (("THREADS", plan.block), ("CHAIN", 1), ("TILE", "ROWS"), ("PARTIAL", accumulator), ("TOTAL", accumulator),
             ("ALGORITHM", loops.algorithm), ("AT_ONCE", links), ("UNROLL", unroll), ("LONG", int(is_long)),
             ("RESIDENT", max(1, _RESIDENT // plan.block))),
        )  # fmt: skip
        held = unroll * max(1, together >> width)
        self._slots = rows * chunks if chunks > 1 else 0
        self._problem = _Segmented(
            x,
            rows,
            plan.n,
            stride,
            0,
            0,
            divisor,
            chain,
            groups,
            loops.turns,
            chunks,
            width,
            TARGETS[target.name],
        )
        self._x = self._problem.x  # a view, which writes into the problem
        blocks = rows * chunks if is_long else -(-rows // held)
        self._kernel = KernelLaunch(function, max(blocks, 1), plan.block, self._problem)

    def __call__(self, x: int, out: int, stream: int) -> None:
        """Put it on the stream, for rows from address x on and results from address ``out`` on."""
        slots = (
            workspace("segmented", self._gpu.ordinal, stream, self._slots, 0).slots_address
            if self._slots
            else 0
        )
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            self._x.data = x
            problem.slots, problem.out = slots, out
            self._kernel(stream)
