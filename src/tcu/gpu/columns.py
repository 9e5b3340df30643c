"""Launch the kernels of sums along an axis that is not the last, one for each column of an array."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.functions import allow_shared
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, compiled, loop_of
from tcu.plan import AddStep, MmaStep, Plan
from tcu.plan.plan import Step

__all__ = ["MOST_COLUMNS", "Columns", "ColumnsLaunch", "leaf_rows", "levels_of"]

MOST_COLUMNS = (1 << 32) - (1 << 12)
"""Of a launch, so that 32 bits number all that its blocks have room for."""
MAX_LEVELS = 12
_UNITS = {True: 8, False: 32}
"""Of a warp, by whether numbers have 16 bits: a unit has four lanes, or one."""
_SLIM, _TOGETHER = 64, 256
"""Bytes of a row, of numbers of more than 16 bits, up to which lanes that share a column read neighbouring rows; and of
the rows that they read.  With 32, the bytes of a sector, rows of two numbers of binary32 had half the speed (H200)."""
_TOGETHER_SHORT = 1024
"""The same of 16-bit numbers in rows without gaps of 16 bytes at most."""
_LOW = 2
"""Levels of neighbouring rows that lanes share; of those above they share what a lane's own levels leave.  With all of
them side by side, a lane reads rows that lie far apart."""
_LEAST = 1
"""Of these levels, however few rows a column has.  With two, 16 rows of 16 numbers of binary32 had 0.62 of memory's rate
in place of 0.86 (H200)."""
_THREADS, _THREADS_ALONG = 128, 256
"""Of a block, and of one whose eight warps share columns."""
_LOADS = {"ALIGNED": 16, "SHIFTED": 8}
"""Of a lane at a time, of 16-bit numbers: in rows of few numbers, those of several turns.  A vector that begins anywhere
is two loads."""
_TURNS, _WITHIN = {True: 4, False: 2}, {True: 2, False: 4}
"""Of other numbers, by whether rows are slim, turns at a time; and, where there are several turns, levels of a lane's
leaves, which are added up at once.  Two turns in place of one, with one column for a lane: 2^12 rows of binary32 had 0.93 in
place of 0.91 of memory's rate, 2^15 rows 0.96 in place of 0.91 (H200)."""
_PAIRED_TURNS, _PAIRED_LOADS, _RESIDENT_PAIRED = 4, 8, 32
"""The turns at a time where a lane has two columns that are not slim and have several turns; what it asks for at once, of
all turns together; and warps per multiprocessor.  With one column for a lane, and 32 loads under way, 2^12 rows of binary32
had 0.93 in place of 0.97 of memory's rate; with 16 and 4 loads, or 24 and 40 warps, 0.90 at most (H200)."""
_PAIRED = ((1, 0), (4, 512), (math.inf, 8192))
"""Bytes of a row, by the turns of a chunk, from which on a lane has two columns: 2^20 rows of 2 KB had 0.90 in place of
0.93 of memory's rate then, and 2^12 of 128 bytes 0.89 in place of 0.95, but 2^18 rows of 8 KB 0.944 in place of 0.934
(H200)."""
_WITHIN_ONE = 4
"""The same levels where there is one turn."""
_ALONG_LEVELS = 3
"""Of the leaves that the eight warps of a block share where a warp for each column is not enough."""
_ENOUGH = 64
"""Warps per multiprocessor that keep memory busy, from the first wave of blocks to the last."""
_RESIDENT = 16
"""Warps per multiprocessor, of 16-bit numbers: with more, accumulators are kept in memory, and arrays of 4096 rows took
a third longer (sm_90)."""
_RESIDENT_WIDE = {4: 48, 8: 24}
_RESIDENT_LOOPS = {True: 24, False: 16}
"""Of others, by the bytes that a lane loads at once; and where several turns need accumulators, by whether rows are
slim.  With 32 of those that load 8 bytes, 256 and 1024 rows of 16 numbers of binary32 had 0.83 and 0.81 of memory's
rate in place of 0.93 (H200)."""
_STAGED_UNITS, _TILE, _STAGES = 8, 4096, 2
"""Of a warp that has its numbers from shared memory: units, the bytes of a tile, and of how many it has the room."""
_STAGED_TURNS = 2
"""Of a column, up to which that is worth it: 4096 rows, two turns, had 0.94 of memory's rate in place of 0.91, but 8192
rows 0.81 in place of 0.92, 16,384 rows 0.80 in place of 0.94, and 2^20 rows 0.81 in place of 0.95 (H200)."""
_KEPT = 0.4
"""Of the second cache, what results of binary32 may have to stay there, beside numbers that do not (cuda/device/load/evict_first.cuh)."""
_LINE = 32
"""Bytes of a row that are worth a way through shared memory, of 16-bit numbers: 64 rows of 32 bytes had 0.93 of memory's
rate in place of 0.87 (H200)."""
_ENOUGH_STAGED = 16
"""As _ENOUGH, of numbers from shared memory."""
_LANE = 8
"""Bytes of a row that a lane loads at once, of numbers of more than 16 bits, where all rows begin at multiples of it."""
_PIPED = 2
"""Levels up to which a warp, of whose columns none keeps it for long, goes on with others.  With more, numbers that
wait are kept in memory."""
_WAVES, _MAX_PIPED = 32, 1 << 31
"""Of blocks whose warps have many columns, one after another: so many that none keeps all others waiting;
and how many units there may be, so that 32 bits number the next ones."""


class Columns(NamedTuple):
    """An array (outer, length, inner) of columns, the inner numbers side by side; strides in elements."""

    outer: int
    inner: int
    outer_stride: int
    stride: int
    """From row to row."""


@struct(name="Columns")
class ColumnsProblem(Struct):
    cuda = """
    const void* data;
    i64 outer_stride;  // in elements, as is `stride`
    i64 stride;        // from row to row
    i64 inner;
    u32 pieces;   // units of columns in a row of `inner` numbers
    u32 units;    // in all rows of all outer indices together
    u64 inverse;  // 2^64 / pieces, rounded up; 0 where there is one piece
    i64 length;
    i64 chunk;    // rows
    i64 period;   // rows
    i64 results;  // of a chunk
    void* out;
    double divisor;
    i64 target;
    int distance[MAX_LEVELS];
    """


class ColumnsLaunch:
    """The sum of each column by the plan of one: everything but the addresses.

    ``aligned``: whether the array begins at a multiple of 16 bytes.
    """

    def __init__(
        self, plan: Plan, columns: Columns, aligned: bool, target: Format, gpu: Gpu, divisor: float
    ) -> None:
        self._lock = threading.Lock()
        element, double = get_format(plan.input), get_format("binary64")
        period = plan.block * (LOAD // element.dtype.itemsize)
        chunk = loop_of(plan)[0] * period
        chunks, results = -(-plan.n // chunk), columns.outer * columns.inner
        several = chunks > 1
        self.room = chunks * results if several else 0
        """Numbers of binary64 that a call needs memory for."""
        first = _Job(element, columns, plan.n, chunk, period, plan.parts[0].steps, aligned, gpu)
        if not several:
            self._passes = [_Pass(first, target, divisor)]
            return
        last = _Job(
            double, Columns(1, results, 0, results), chunks, chunks, plan.block, plan.final, True, gpu
        )
        self._passes = [_Pass(first, double, 1), _Pass(last, target, divisor)]

    def __call__(self, x: int, out: int, room: int, stream: int) -> None:
        """Put it on the stream, for numbers from address x on and results from address ``out`` on."""
        with self._lock:  # the driver copies the parameters before the launch returns
            first, *rest = self._passes
            first(x, room if rest else out, stream)
            for last in rest:
                last(room, out, stream)


class _Job(NamedTuple):
    """Sums of every ``chunk`` rows by the steps of a plan, which begin anew after ``period`` rows."""

    element: Format
    columns: Columns
    length: int
    chunk: int
    period: int
    steps: Sequence[Step]
    aligned: bool
    gpu: Gpu

    @property
    def short(self) -> bool:
        return self.element.bits == 16

    @property
    def size(self) -> int:
        return self.element.dtype.itemsize

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.columns.inner * self.size

    @property
    def chunks(self) -> int:
        return -(-self.length // self.chunk)

    @property
    def turns(self) -> int:
        """Of a chunk."""
        return -(-min(self.length, self.chunk) // self.period)

    @property
    def least_power_of_turns(self) -> int:
        """The least power of two that is not less than they are."""
        return 1 << (self.turns - 1).bit_length()

    @property
    def levels(self) -> list[int]:
        return [rows for rows in levels_of(self.steps) if rows < self.length]

    @property
    def is_uneven(self) -> bool:
        return self.period & (self.period - 1) != 0

    def begins_at(self, grain: int) -> bool:
        """Whether every row begins at a multiple of so many bytes."""
        steps = self.columns.outer_stride, self.columns.stride
        return self.aligned and all(step * self.size % grain == 0 for step in steps)

    def is_busy(self, warps: int, enough: int) -> bool:
        """Whether a warp of its own for some columns, of each chunk, is enough."""
        return warps * self.chunks >= enough * self.gpu.multiprocessors


class _Way(NamedTuple):
    """A kernel, and its grid but for the chunks."""

    source: str
    layout: str
    macros: dict[str, int]
    unit: int
    """Columns that belong together."""
    blocks: int
    threads: int
    resident: int
    shared: int = 0


class _Pass:
    """One launch."""

    def __init__(self, job: _Job, target: Format, divisor: float) -> None:
        columns, gpu = job.columns, job.gpu
        way = _staged(job) or _direct(job)
        macros = {**way.macros, "THREADS": way.threads, "RESIDENT": way.resident // (way.threads // 32)}
        function = compiled(
            way.source, "columns", gpu.compute_capability, ELEMENTS[job.element.name], way.layout,
            tuple(macros.items()),
        )  # fmt: skip
        if way.shared:
            allow_shared(function, way.shared, gpu.ordinal)
        pieces = -(-columns.inner // way.unit)
        distance = (ctypes.c_int32 * MAX_LEVELS)(*job.levels)
        self._problem = ColumnsProblem(
            0, columns.outer_stride, columns.stride, columns.inner, pieces, columns.outer * pieces,
            -(-(1 << 64) // pieces) % (1 << 64), job.length, job.chunk, job.period,
            columns.outer * columns.inner, 0, divisor, TARGETS[target.name], distance,
        )  # fmt: skip
        self._kernel = KernelLaunch(
            function, way.blocks, way.threads, self._problem, way.shared, more=job.chunks
        )

    def __call__(self, x: int, out: int, stream: int) -> None:
        self._problem.data, self._problem.out = x, out
        self._kernel(stream)


def _direct(job: _Job) -> _Way:
    """Every lane has its numbers from memory."""
    columns, short, size = job.columns, job.short, job.size
    narrow = short and job.row <= LOAD and columns.stride == columns.inner
    jumps = columns.outer_stride * size, 0 if narrow else columns.stride * size
    # A row is loaded in pieces of eight bytes.
    halved = short and not narrow and any(step % LOAD for step in jumps)
    grain = LOAD // 2 if halved else LOAD
    shifted = short and not (job.aligned and all(step % grain == 0 for step in jumps))
    layout = "SHIFTED" if shifted else "ALIGNED"
    unit = columns.inner if narrow else LOAD // size if short else _LANE // size
    whole = columns.inner % unit == 0 and job.begins_at(_LANE)
    slim = narrow or (not short and job.row <= _SLIM)
    least = 0 if slim else next(row for turns, row in _PAIRED if job.turns <= turns)
    if not short and not (whole and job.row >= least):
        unit = 1
    units, levels = columns.outer * -(-columns.inner // unit), len(job.levels)
    # Lanes that would have no column take leaves, and so do those that would read what follows in a sector later.
    leaf = leaf_rows(job.steps)
    together = (_TOGETHER_SHORT if short else _TOGETHER) // (leaf * job.row) if slim else 1
    if not short:  # a lane keeps leaves enough to have many loads under way
        together = min(together, 1 << max(levels - _WITHIN_ONE, _LEAST))
    spread = min(max(_UNITS[short] // units, together, 1).bit_length() - 1, levels, 3 if short else 5)
    # Half a leaf leaves half of the lanes to other units.
    halves = short and not narrow and job.length <= leaf // 2
    warps = -(-units // (_UNITS[short] << halves >> spread))
    along = _ALONG_LEVELS if levels - spread >= _ALONG_LEVELS and not job.is_busy(warps, _ENOUGH) else 0
    own = levels - spread - along
    if short:
        most = 1 << (_LOADS[layout] // unit).bit_length() - 1 if narrow else 1
        turns, within, resident = min(most, job.least_power_of_turns), 0, _RESIDENT
    else:
        turns, within, resident = _depth(job, slim, unit)
    # Shifted ones have no registers for it.
    piped = short and not narrow and not shifted and along == 0 and own <= _PIPED and units < _MAX_PIPED
    macros = {
        "GRAIN": LOAD if shifted else grain, "COLUMNS": unit, "NARROW": int(narrow), "SPREAD": spread, "LEVELS": own,
        "HALVES": int(halves), "LOOPS": int(job.turns > turns), "TURNS": turns, "UNEVEN": int(job.is_uneven),
        "ALONG": 1 << along, "PIPED": int(piped),
    }  # fmt: skip
    if not short:
        macros["LOW"] = spread if job.is_uneven else min(spread, _LOW)
        macros["MOST_WITHIN"] = within
    threads = 32 << along if along else _THREADS
    blocks = -(-warps // (threads // 32 >> along))
    if piped:
        blocks = min(blocks, _most_blocks(job, resident, threads))
    return _Way("columns.cu", layout, macros, unit, blocks, threads, resident)


def _depth(job: _Job, slim: bool, unit: int) -> tuple[int, int, int]:
    """Of numbers of more than 16 bits: turns at a time, levels of a lane's leaves, and warps per multiprocessor."""
    if job.turns == 1:
        return 1, _WITHIN_ONE, _RESIDENT_WIDE[unit * job.size]
    if unit > 1 and not slim:
        turns = min(_PAIRED_TURNS, job.least_power_of_turns)
        return turns, (_PAIRED_LOADS // turns).bit_length() - 1, _RESIDENT_PAIRED
    return min(_TURNS[slim], job.least_power_of_turns), _WITHIN[slim], _RESIDENT_LOOPS[slim]


def _staged(job: _Job) -> _Way | None:
    """By way of shared memory, where that is worth it: 16-bit numbers, of leaves that fill half a tile."""
    columns, unit = job.columns, LOAD // job.size
    units, levels, leaf = columns.outer * -(-columns.inner // unit), len(job.levels), leaf_rows(job.steps)
    gaps = columns.stride != columns.inner or columns.outer_stride != columns.stride * job.length
    few = job.row in (32, 64)
    if (
        not job.short or job.gpu.compute_capability < (9, 0) or job.is_uneven or job.row < _LINE
        or units >= _MAX_PIPED or not job.begins_at(LOAD) or (gaps and few) or job.length <= leaf // 4
        or job.turns > _STAGED_TURNS
    ):  # fmt: skip
        return None
    assert job.chunks == 1  # of several, each has more turns
    halves = job.length <= leaf // 2
    warps, along = -(-units // (_STAGED_UNITS << halves)), 0
    while along < min(_ALONG_LEVELS, levels) and not job.is_busy(warps << along, _ENOUGH_STAGED):
        along += 1
    threads = max(_THREADS, 32 << along)
    blocks = -(-warps // (threads // 32 >> along))
    if along == 0:
        blocks = min(blocks, _most_blocks(job, _RESIDENT, threads))
    macros = {
        "LEVELS": levels - along, "HALVES": int(halves), "LOOPS": int(job.turns > 1), "ALONG": 1 << along,
        "STAGES": _STAGES, "PIECES": job.row // LOAD if few else _STAGED_UNITS << halves,
        "EVICT_FIRST": int(4 * columns.outer * columns.inner <= _KEPT * job.gpu.l2),
    }  # fmt: skip
    shared = threads // 32 * _STAGES * _TILE
    return _Way("staged_columns.cu", "ALIGNED", macros, unit, blocks, threads, _RESIDENT, shared)


def _most_blocks(job: _Job, resident: int, threads: int) -> int:
    """Of warps that have columns one after another."""
    return job.gpu.multiprocessors * resident // (threads // 32) * _WAVES


def leaf_rows(steps: Sequence[Step]) -> int:
    """Rows of a leaf: what one accumulator of a plan adds up in a turn, or two accumulators of one MMA."""
    first = steps[0]
    return 2 * first.k if isinstance(first, MmaStep) else 1


def levels_of(steps: Sequence[Step]) -> list[int]:
    """How many rows lie between leaves that come together, on each level of a plan's trees."""
    rows, found = leaf_rows(steps), []
    for step in steps:
        if isinstance(step, AddStep) and step.order == "tree":
            assert step.length is not None
            # The two accumulators of one MMA, which are one leaf, come together first.
            pair = 2 if rows == leaf_rows(steps) > 1 else 1
            half = step.width // pair // 2
            while half:
                found.append(half * rows)
                half //= 2
            rows *= step.length // pair
    return found
