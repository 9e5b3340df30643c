"""The kernels of many sums at once, one for each row of an array."""

from __future__ import annotations

from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.configs import RowsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import LOAD, TARGETS, Sum, contiguous, elements, has_mmas, loop_of
from tcu.gpu.tuning import config, sum_config
from tcu.plan import Plan

__all__ = ["rows_recipe"]

_TILES = 8
"""Loads of a warp for a row at a time: those of the plan's eight warps."""
_THREADS, _WARP = 256, 32


Rows = struct("Rows", """
    const void* data;
    i64 rows, length;
    i64 stride;  // from row to row, in elements
    void* out;
    double divisor;
    i64 target;
    i64 turns;   // with LOOPS: turns of a chunk
    i64 chunks;  // with LOOPS: chunks of a row, up to WARP
""")  # fmt: skip


PackedRows = struct("PackedRows", """
    const void* data;
    i64 rows, length;
    void* out;
    double divisor;
    i64 target;
    i64 share;   // rows of a warp
    i64 turns;   // turns of a chunk
    i64 chunks;  // chunks of a row, up to WARP
""")  # fmt: skip


def rows_recipe(
    plan: Plan, rows: int, stride: int, aligned: bool, target: Format, gpu: Gpu, divisor: float
) -> Recipe:
    """The sum of each row by the plan of one.

    ``stride`` is the distance of rows in elements; ``aligned``: whether each
    begins at a multiple of 16 bytes.
    """
    per_load = LOAD // get_format(plan.input).dtype.itemsize
    loads, chain = loop_of(plan)
    lanes = -(-plan.n // per_load)
    chunks = -(-plan.n // (loads * chain * plan.block * per_load))
    tuned = config(RowsConfig, gpu.compute_capability, plan.input)
    by_warps = lanes <= _TILES * 32 or (rows >= tuned.enough and chunks <= 32)
    job = _Job(plan, rows, stride, aligned, TARGETS[target.name], gpu, divisor, lanes, chunks, tuned)
    if plan.block != _THREADS or chain != 1 or not by_warps:
        return _by_blocks(job)
    packed = stride == plan.n and (lanes <= tuned.few_lanes or not aligned) and lanes
    return Recipe((_packed(job) if packed else _by_warps(job),))


class _Job(NamedTuple):
    plan: Plan
    rows: int
    stride: int
    aligned: bool
    target: int
    gpu: Gpu
    divisor: float
    lanes: int
    """Of a row, each with a load."""
    chunks: int
    """Of a row."""
    tuned: RowsConfig

    def macros(self, aligned: bool, **own: object) -> dict[str, object]:
        layout = "ALIGNED" if aligned else "SHIFTED"
        return {**elements(self.plan.input, has_mmas(self.plan)), "LAYOUT": layout, **own}

    @property
    def shape(self) -> tuple[int, int, int]:
        """Lanes of a row, a power of two, tiles of its turn, and turns of its chunk."""
        loads, _ = loop_of(self.plan)
        width = min(32, 1 << (max(self.lanes, 1) - 1).bit_length())
        turns = min(loads, max(1, -(-self.lanes // (_TILES * 32))))
        return width, max(1, min(_TILES, -(-self.lanes // 32))), turns


def _packed(job: _Job) -> KernelChoice:
    """A warp goes through rows that lie without gaps as they come."""
    plan, rows, (width, tiles, turns) = job.plan, job.rows, job.shape
    nbytes = plan.n * get_format(plan.input).dtype.itemsize
    resident = job.tuned.packed_resident[turns > 1]
    macros = job.macros(
        # A single row is aligned whatever its length, but lanes behind its end read on.
        job.aligned and nbytes % LOAD == 0, LANES=width, TILES=tiles, LOOPS=int(turns > 1), RESIDENT=resident,
        WORDS=min(5, (nbytes + 5) // 4) if job.lanes == 1 else 5,
    )  # fmt: skip
    even = -(-rows // (job.gpu.multiprocessors * resident))
    share = max(1, min(even, job.tuned.share[width <= 4] // nbytes))
    problem = PackedRows(0, rows, plan.n, 0, job.divisor, job.target, share, turns, job.chunks)
    return KernelChoice(
        "packed_rows", macros, max(-(-rows // share), 1), _WARP, problem, {"data": X, "out": OUT}
    )


def _by_warps(job: _Job) -> KernelChoice:
    """A warp has a row, or several short ones."""
    width, tiles, turns = job.shape
    tuned, in_flight = job.tuned, job.tuned.in_flight
    resident = tuned.short if tiles < _TILES else tuned.eight_tiles
    if turns > 1:
        resident = tuned.two_turns if turns == 2 else tuned.turns
    unroll = max(1, in_flight // tiles)
    at_once = min(in_flight, 1 << (turns - 1).bit_length())
    macros = job.macros(
        job.aligned, LANES=width, TILES=tiles, UNROLL=unroll, THREADS=_THREADS,
        RESIDENT=resident[not job.aligned], LOOPS=int(turns > 1), AT_ONCE=at_once, TOGETHER=in_flight // at_once,
    )  # fmt: skip
    problem = Rows(0, job.rows, job.plan.n, job.stride, 0, job.divisor, job.target, turns, job.chunks)
    together = unroll * (_THREADS // 32) * (32 // width)
    blocks = max(-(-job.rows // together), 1)
    return KernelChoice("rows", macros, blocks, _THREADS, problem, {"data": X, "out": OUT})


def _by_blocks(job: _Job) -> Recipe:
    """A row has a block for each of its chunks, as in the sum of one."""
    plan, chunks = job.plan, job.chunks
    loads, chain = loop_of(plan)
    config = sum_config(job.gpu.compute_capability, plan, chunks * job.rows)
    macros = job.macros(
        job.aligned, THREADS=plan.block, CHAIN=chain, UNROLL=config.unroll, RESIDENT=config.resident, TERM="VALUE",
        ROWS=1,
    )  # fmt: skip
    whole = contiguous(0, plan.n).array()
    problem = Sum(whole, whole, 0, 0, job.divisor, loads, chunks, job.stride, 0, job.target)
    takes: dict[str, Given] = {"x.data": X, "out": OUT}
    space = Space("rows", chunks * job.rows, ones=True) if chunks > 1 else None
    if space is not None:
        takes["slots"] = SPACE
    return Recipe((KernelChoice("sum", macros, chunks * job.rows, plan.block, problem, takes),), space=space)
