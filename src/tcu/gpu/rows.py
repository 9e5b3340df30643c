"""Launch the kernels of many sums at once, one for each row of an array."""

from __future__ import annotations

import ctypes
import threading

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, SumProblem, compiled, contiguous, loop_of
from tcu.gpu.tuning import sum_config
from tcu.gpu.workspace import workspace
from tcu.plan import Plan

__all__ = ["RowsLaunch"]

_TILES = 8
"""Loads of a warp for a row at a time: those of the plan's eight warps."""
_RESIDENT = {
    ("short", "ALIGNED"): {8: 5, 4: 4, 2: 4},
    ("short", "SHIFTED"): {8: 4, 4: 4, 2: 4},
    ("eight tiles", "ALIGNED"): {8: 4, 4: 3, 2: 3},
    ("eight tiles", "SHIFTED"): {8: 3, 4: 2, 2: 2},
    ("turns", "ALIGNED"): {8: 4, 4: 4, 2: 4},
    ("turns", "SHIFTED"): {8: 3, 4: 3, 2: 3},
}
"""Blocks per multiprocessor, by the numbers of a load: as many as leave the accumulators in registers (sm_90)."""
_ENOUGH = 4096
"""Rows from which on a warp for each, however long, keeps a GPU busy; fewer long rows have blocks of their own."""
_THREADS = 256
_IN_FLIGHT = 4
"""Loads of a thread before it waits."""


class _Rows(ctypes.Structure):
    """As in cuda/rows.cu."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("rows", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("target", ctypes.c_int64),
        ("turns", ctypes.c_int64),
    )


class RowsLaunch:
    """The sum of each row by the plan of one: everything but the addresses.

    ``stride`` is the distance of rows in elements; ``aligned``: whether each
    begins at a multiple of 16 bytes.
    """

    def __init__(
        self, plan: Plan, rows: int, stride: int, aligned: bool, target: Format, gpu: Gpu, divisor: float
    ) -> None:
        self._gpu = gpu
        self._lock = threading.Lock()
        self._slots = 0
        per_load = LOAD // get_format(plan.input).dtype.itemsize
        layout = "ALIGNED" if aligned else "SHIFTED"
        loads, chain = loop_of(plan)
        lanes = -(-plan.n // per_load)
        most = loads if rows >= _ENOUGH else 1
        if lanes <= most * _TILES * 32 and plan.block == _THREADS and chain == 1:
            tiles = max(1, min(_TILES, -(-lanes // 32)))
            turns = max(1, -(-lanes // (_TILES * 32)))
            way = "turns" if turns > 1 else "eight tiles" if tiles == _TILES else "short"
            width = min(32, 1 << (max(lanes, 1) - 1).bit_length())
            unroll = max(1, _IN_FLIGHT // tiles)
            at_once = min(_IN_FLIGHT, 1 << (turns - 1).bit_length())
            function = compiled(
                "rows.cu", "rows", gpu.compute_capability, ELEMENTS[plan.input], layout,
                (("LANES", width), ("TILES", tiles), ("UNROLL", unroll), ("THREADS", _THREADS),
                 ("RESIDENT", _RESIDENT[way, layout][per_load]), ("LOOPS", int(turns > 1)), ("AT_ONCE", at_once), ("TOGETHER", _IN_FLIGHT // at_once)),
            )  # fmt: skip
            self._problem: _Rows | SumProblem = _Rows(
                0, rows, plan.n, stride, 0, divisor, TARGETS[target.name], turns
            )
            together = unroll * (_THREADS // 32) * (32 // width)
            self._kernel = KernelLaunch(function, max(-(-rows // together), 1), _THREADS, self._problem)
            return
        chunks = -(-plan.n // (loads * chain * plan.block * per_load))
        config = sum_config(gpu.compute_capability, plan, chunks * rows)
        function = compiled(
            "sum.cu", "sum", gpu.compute_capability, ELEMENTS[plan.input], layout,
            (("THREADS", plan.block), ("CHAIN", chain), ("UNROLL", config.unroll),
             ("RESIDENT", config.resident), ("TERM", "VALUE"), ("ROWS", 1)),
        )  # fmt: skip
        whole = contiguous(0, plan.n)
        self._slots = chunks * rows if chunks > 1 else 0
        self._problem = SumProblem(
            whole, whole, 0, 0, divisor, loads, chunks, stride, 0, TARGETS[target.name]
        )
        self._kernel = KernelLaunch(function, chunks * rows, plan.block, self._problem)

    def __call__(self, x: int, out: int, stream: int) -> None:
        """Put it on the stream, for rows from address x on and results from address ``out`` on."""
        slots = (
            workspace("rows", self._gpu.ordinal, stream, self._slots, 0).slots_address if self._slots else 0
        )
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            if isinstance(problem, _Rows):
                problem.data, problem.out = x, out
            else:
                problem.x.data = x
                problem.slots, problem.out = slots, out
            self._kernel(stream)
