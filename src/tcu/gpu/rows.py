"""Launch the kernels of many sums at once, one for each row of an array."""

from __future__ import annotations

import threading
from typing import Any

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, Sum, compiled, contiguous, loop_of
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
    ("two turns", "ALIGNED"): {8: 4, 4: 2, 2: 4},
    ("two turns", "SHIFTED"): {8: 3, 4: 3, 2: 3},
    ("turns", "ALIGNED"): {8: 4, 4: 4, 2: 4},
    ("turns", "SHIFTED"): {8: 3, 4: 3, 2: 3},
}
"""Blocks per multiprocessor, by the numbers of a load: as many as leave the accumulators in registers (sm_90)."""
_ENOUGH = 4096
"""Rows from which on a warp for each, however long, keeps a GPU busy; fewer long rows have blocks of their own."""
_THREADS, _WARP = 256, 32
_PACKED_RESIDENT = (24, 16)
"""Of cuda/kernels/packed_rows.cu: as many blocks, each a warp, as have room for their rings, or for the accumulators of eight
tiles.  With four warps a block, which leave together, rows of 16 numbers had 5 % less speed (H200)."""
_SHARE, _SHARE_OF_FEW_LANES = 1 << 14, 1 << 13
"""Bytes of rows of a warp, about, and of rows that have up to four lanes: enough to forget its start, and little enough
that what is read at a time lies together.  With 2^16, rows of 3 to 999 numbers had 4 to 6 % less speed (H200)."""
_FEW_LANES = 2
"""Lanes of a row up to which rows without gaps are read through a ring, even aligned ones: 0.91 of reading alone in place
of 0.90 (H200)."""
_IN_FLIGHT = 4
"""Loads of a thread before it waits."""


@struct()
class Rows(Struct):
    cuda = """
    const void* data;
    i64 rows;
    i64 length;
    i64 stride;  // from row to row, in elements
    void* out;
    double divisor;
    i64 target;
    i64 turns;   // with LOOPS: turns of a chunk
    i64 chunks;  // with LOOPS: chunks of a row, up to WARP
    """


@struct()
class PackedRows(Struct):
    cuda = """
    const void* data;
    i64 rows;
    i64 length;
    void* out;
    double divisor;
    i64 target;
    i64 share;   // rows of a warp
    i64 turns;   // turns of a chunk
    i64 chunks;  // chunks of a row, up to WARP
    """


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
        self._target = target
        self._problem: Rows | PackedRows | Sum
        size = get_format(plan.input).dtype.itemsize
        per_load = LOAD // size
        loads, chain = loop_of(plan)
        lanes = -(-plan.n // per_load)
        chunks = -(-plan.n // (loads * chain * plan.block * per_load))
        by_warps = lanes <= _TILES * 32 or (rows >= _ENOUGH and chunks <= 32)
        if plan.block != _THREADS or chain != 1 or not by_warps:
            self._by_blocks(plan, rows, stride, aligned, divisor, chunks)
        elif stride == plan.n and (lanes <= _FEW_LANES or not aligned) and lanes:
            self._packed(plan, rows, aligned, divisor, lanes, chunks)
        else:
            self._by_warps(plan, rows, stride, aligned, divisor, lanes, chunks)

    def _compiled(self, source: str, plan: Plan, aligned: bool, macros: dict[str, int | str]) -> Any:
        return compiled(
            f"{source}.cu", source, self._gpu.compute_capability, ELEMENTS[plan.input],
            "ALIGNED" if aligned else "SHIFTED", tuple(macros.items()),
        )  # fmt: skip

    def _packed(self, plan: Plan, rows: int, aligned: bool, divisor: float, lanes: int, chunks: int) -> None:
        """A warp goes through rows that lie without gaps as they come."""
        size = get_format(plan.input).dtype.itemsize
        width, tiles, turns = _shape(plan, lanes)
        resident = _PACKED_RESIDENT[turns > 1]
        macros: dict[str, int | str] = {
            "LANES": width, "TILES": tiles, "LOOPS": int(turns > 1), "RESIDENT": resident,
            "WORDS": min(5, (plan.n * size + 5) // 4) if lanes == 1 else 5,
        }  # fmt: skip
        # A single row is aligned whatever its length, but lanes behind its end read on.
        function = self._compiled("packed_rows", plan, aligned and plan.n * size % LOAD == 0, macros)
        even = -(-rows // (self._gpu.multiprocessors * resident))
        share = max(1, min(even, (_SHARE_OF_FEW_LANES if width <= 4 else _SHARE) // (plan.n * size)))
        self._problem = PackedRows(
            0, rows, plan.n, 0, divisor, TARGETS[self._target.name], share, turns, chunks
        )
        blocks = -(-rows // share)
        self._kernel = KernelLaunch(function, max(blocks, 1), _WARP, self._problem)

    def _by_warps(
        self, plan: Plan, rows: int, stride: int, aligned: bool, divisor: float, lanes: int, chunks: int
    ) -> None:
        """A warp has a row, or several short ones."""
        width, tiles, turns = _shape(plan, lanes)
        way = (
            "turns"
            if turns > 2
            else "two turns"
            if turns == 2
            else "eight tiles"
            if tiles == _TILES
            else "short"
        )
        unroll = max(1, _IN_FLIGHT // tiles)
        at_once = min(_IN_FLIGHT, 1 << (turns - 1).bit_length())
        per_load = LOAD // get_format(plan.input).dtype.itemsize
        macros: dict[str, int | str] = {
            "LANES": width, "TILES": tiles, "UNROLL": unroll, "THREADS": _THREADS,
            "RESIDENT": _RESIDENT[way, "ALIGNED" if aligned else "SHIFTED"][per_load],
            "LOOPS": int(turns > 1), "AT_ONCE": at_once, "TOGETHER": _IN_FLIGHT // at_once,
        }  # fmt: skip
        function = self._compiled("rows", plan, aligned, macros)
        self._problem = Rows(0, rows, plan.n, stride, 0, divisor, TARGETS[self._target.name], turns, chunks)
        together = unroll * (_THREADS // 32) * (32 // width)
        self._kernel = KernelLaunch(function, max(-(-rows // together), 1), _THREADS, self._problem)

    def _by_blocks(
        self, plan: Plan, rows: int, stride: int, aligned: bool, divisor: float, chunks: int
    ) -> None:
        """A row has a block for each of its chunks, as in the sum of one."""
        loads, chain = loop_of(plan)
        config = sum_config(self._gpu.compute_capability, plan, chunks * rows)
        macros: dict[str, int | str] = {
            "THREADS": plan.block, "CHAIN": chain, "UNROLL": config.unroll, "RESIDENT": config.resident,
            "TERM": "VALUE", "ROWS": 1,
        }  # fmt: skip
        function = self._compiled("sum", plan, aligned, macros)
        whole = contiguous(0, plan.n)
        self._slots = chunks * rows if chunks > 1 else 0
        self._problem = Sum(whole, whole, 0, 0, divisor, loads, chunks, stride, 0, TARGETS[self._target.name])
        self._kernel = KernelLaunch(function, chunks * rows, plan.block, self._problem)

    def __call__(self, x: int, out: int, stream: int) -> None:
        """Put it on the stream, for rows from address x on and results from address ``out`` on."""
        slots = (
            workspace("rows", self._gpu.ordinal, stream, self._slots, 0).slots_address if self._slots else 0
        )
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            if isinstance(problem, Rows | PackedRows):
                problem.data, problem.out = x, out
            else:
                problem.x.data = x
                problem.slots, problem.out = slots, out
            self._kernel(stream)


def _shape(plan: Plan, lanes: int) -> tuple[int, int, int]:
    """Lanes of a row, a power of two, tiles of its turn, and turns of its chunk."""
    loads, _ = loop_of(plan)
    width = min(32, 1 << (max(lanes, 1) - 1).bit_length())
    turns = min(loads, max(1, -(-lanes // (_TILES * 32))))
    return width, max(1, min(_TILES, -(-lanes // 32))), turns
