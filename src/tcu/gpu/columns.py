"""The kernels of sums along an axis that is not the last, one for each column of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tcu.formats.format import Format, get_format
from tcu.gpu.configs import ColumnsConfig, Config, NarrowColumnsConfig, StagedColumnsConfig, WideColumnsConfig
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, ROOM, KernelChoice, Recipe, X
from tcu.gpu.structs import struct
from tcu.gpu.sums import LOAD, TARGETS, elements, loop_of
from tcu.gpu.tuning import config
from tcu.plan import AddStep, MmaStep, Plan
from tcu.plan.plan import Step
from tcu.plan.variants import NEIGHBOURS

__all__ = ["MOST_COLUMNS", "Columns", "columns_recipe", "leaf_rows", "levels_of"]

MOST_COLUMNS = (1 << 32) - (1 << 12)
"""Of a launch, so that 32 bits number all that its blocks have room for."""
MAX_LEVELS = 12
_UNITS = {True: 8, False: 32}
"""Of a warp, by whether numbers have 16 bits: a unit has four lanes, or one."""
_STAGED_UNITS, _TILE = 8, 4096
"""Of a warp that has its numbers from shared memory: units, and the bytes of a tile."""
_ALONG_LEVELS = 3
"""Of the leaves that the eight warps of a block may share."""
_LANE = 8
"""Bytes of a row that a lane loads at once, of numbers of more than 16 bits, where all rows begin at multiples of it."""
_MAX_PIPED = 1 << 31
"""How many units there may be, so that 32 bits number the next ones."""


_C = TypeVar("_C", bound=Config)


class Columns(NamedTuple):
    """An array (outer, length, inner) of columns, the inner numbers side by side; strides in elements."""

    outer: int
    inner: int
    outer_stride: int
    stride: int
    """From row to row."""


ColumnsProblem = struct("Columns", f"""
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
    int distance[{MAX_LEVELS}];
""")  # fmt: skip


def columns_recipe(
    plan: Plan, columns: Columns, aligned: bool, target: Format, gpu: Gpu, divisor: float
) -> Recipe:
    """The sum of each column by the plan of one; ``aligned``: whether the array begins at a multiple of 16 bytes."""
    element, double = get_format(plan.input), get_format("binary64")
    period = plan.block * (LOAD // element.dtype.itemsize)
    chunk = loop_of(plan)[0] * period
    chunks, results = -(-plan.n // chunk), columns.outer * columns.inner
    first = _Job(element, columns, plan.n, chunk, period, plan.parts[0].steps, aligned, gpu)
    if chunks == 1:
        return Recipe((_choice(first, target, divisor, X, OUT),))
    last = _Job(double, Columns(1, results, 0, results), chunks, chunks, plan.block, plan.final, True, gpu)
    passes = _choice(first, double, 1, X, ROOM), _choice(last, target, divisor, ROOM, OUT)
    return Recipe(passes, room=chunks * results)


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
    def mmas(self) -> bool:
        return isinstance(self.steps[0], MmaStep)

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

    def tuned(self, kind: type[_C]) -> _C:
        return config(kind, self.gpu.compute_capability, self.element.name)


class _Grid(NamedTuple):
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


def _choice(job: _Job, target: Format, divisor: float, source: int, goal: int) -> KernelChoice:
    columns = job.columns
    grid = _staged(job) or _direct(job)
    macros = {
        **elements(job.element.name, job.mmas), "LAYOUT": grid.layout, **grid.macros, "THREADS": grid.threads,
        "RESIDENT": grid.resident // (grid.threads // 32),
    }  # fmt: skip
    pieces = -(-columns.inner // grid.unit)
    problem = ColumnsProblem(
        0, columns.outer_stride, columns.stride, columns.inner, pieces, columns.outer * pieces,
        -(-(1 << 64) // pieces) % (1 << 64), job.length, job.chunk, job.period,
        columns.outer * columns.inner, 0, divisor, TARGETS[target.name], tuple(job.levels),
    )  # fmt: skip
    return KernelChoice(
        grid.source, macros, grid.blocks, grid.threads, problem, {"data": source, "out": goal}, "columns",
        grid.shared, job.chunks,
    )  # fmt: skip


def _direct(job: _Job) -> _Grid:
    """Every lane has its numbers from memory."""
    return (
        _narrow(job, job.tuned(NarrowColumnsConfig))
        if job.short
        else _wide(job, job.tuned(WideColumnsConfig))
    )


def _narrow(job: _Job, tuned: NarrowColumnsConfig) -> _Grid:
    """Numbers of 16 bits: four lanes have a unit, by MMAs."""
    columns, size, leaf, levels = job.columns, job.size, leaf_rows(job.steps), len(job.levels)
    packed = job.row <= LOAD and columns.stride == columns.inner
    jumps = columns.outer_stride * size, 0 if packed else columns.stride * size
    # A row is loaded in pieces of eight bytes.
    halved = not packed and any(step % LOAD for step in jumps)
    grain = LOAD // 2 if halved else LOAD
    shifted = not (job.aligned and all(step % grain == 0 for step in jumps))
    unit = columns.inner if packed else LOAD // size
    units = columns.outer * -(-columns.inner // unit)
    together = tuned.together // (leaf * job.row) if packed else 1
    spread = _spread(_UNITS[True], units, together, levels, 3)
    # Half a leaf leaves half of the lanes to other units.
    halves = not packed and job.length <= leaf // 2
    warps = -(-units // (_UNITS[True] << halves >> spread))
    along = _along(job, tuned, levels - spread, warps)
    own = levels - spread - along
    most = 1 << (tuned.loads[shifted] // unit).bit_length() - 1 if packed else 1
    turns = min(most, job.least_power_of_turns)
    # Shifted ones have no registers for it.
    piped = not packed and not shifted and along == 0 and own <= tuned.piped and units < _MAX_PIPED
    macros = {
        "GRAIN": LOAD if shifted else grain, "COLUMNS": unit, "NARROW": int(packed), "SPREAD": spread, "LEVELS": own,
        "HALVES": int(halves), "LOOPS": int(job.turns > turns), "TURNS": turns, "UNEVEN": int(job.is_uneven),
        "ALONG": 1 << along, "PIPED": int(piped),
    }  # fmt: skip
    threads = 32 << along if along else tuned.threads
    blocks = -(-warps // (threads // 32 >> along))
    if piped:
        blocks = min(blocks, _most_blocks(job, tuned.resident, threads, tuned.waves))
    layout = "SHIFTED" if shifted else "ALIGNED"
    return _Grid("columns", layout, macros, unit, blocks, threads, tuned.resident)


def _wide(job: _Job, tuned: WideColumnsConfig) -> _Grid:
    """Numbers of more bits: a lane has a column, or two."""
    columns, leaf, levels = job.columns, leaf_rows(job.steps), len(job.levels)
    unit = _LANE // job.size
    whole = columns.inner % unit == 0 and job.begins_at(_LANE)
    slim = job.row <= tuned.slim
    least = 0 if slim else tuned.paired[0 if job.turns <= 1 else 1 if job.turns <= 4 else 2]
    if not (whole and job.row >= least):
        unit = 1
    units = columns.outer * -(-columns.inner // unit)
    # Lanes that would have no column take leaves, and so do those that would read what follows in a sector later; but a
    # lane keeps leaves enough to have many loads under way.
    together = tuned.together // (leaf * job.row) if slim else 1
    together = min(together, 1 << max(levels - tuned.within_one, tuned.least))
    spread = _spread(_UNITS[False], units, together, levels, 5)
    warps = -(-units // (_UNITS[False] >> spread))
    along = _along(job, tuned, levels - spread, warps)
    if job.turns == 1:
        turns, within, resident = 1, tuned.within_one, tuned.resident[unit * job.size == _LANE]
    elif unit > 1 and not slim:
        turns, resident = min(tuned.paired_turns, job.least_power_of_turns), tuned.paired_resident
        within = (tuned.paired_loads // turns).bit_length() - 1
    else:
        turns = min(tuned.turns[slim], job.least_power_of_turns)
        within, resident = tuned.within[slim], tuned.resident_loops[slim]
    macros = {
        "GRAIN": LOAD, "COLUMNS": unit, "NARROW": 0, "SPREAD": spread, "LEVELS": levels - spread - along, "HALVES": 0,
        "LOOPS": int(job.turns > turns), "TURNS": turns, "UNEVEN": int(job.is_uneven), "ALONG": 1 << along, "PIPED": 0,
        "LOW": spread if job.is_uneven else min(spread, tuned.low), "MOST_WITHIN": within,
    }  # fmt: skip
    threads = 32 << along if along else tuned.threads
    blocks = -(-warps // (threads // 32 >> along))
    return _Grid("columns", "ALIGNED", macros, unit, blocks, threads, resident)


def _spread(of_warp: int, units: int, together: int, levels: int, most: int) -> int:
    """Levels of the leaves of a column that lanes share."""
    return min(max(of_warp // units, together, 1).bit_length() - 1, levels, most)


def _along(job: _Job, tuned: ColumnsConfig, levels: int, warps: int) -> int:
    """Levels that the warps of a block share."""
    return tuned.along_levels if levels >= tuned.along_levels and not job.is_busy(warps, tuned.enough) else 0


def _staged(job: _Job) -> _Grid | None:
    """By way of shared memory, where that is worth it: 16-bit numbers, of leaves that fill half a tile."""
    if not job.mmas or job.gpu.compute_capability < (9, 0):
        return None
    tuned = job.tuned(StagedColumnsConfig)
    columns, unit = job.columns, LOAD // job.size
    units, levels, leaf = columns.outer * -(-columns.inner // unit), len(job.levels), leaf_rows(job.steps)
    gaps = columns.stride != columns.inner or columns.outer_stride != columns.stride * job.length
    few = job.row in (32, 64)
    if (
        job.is_uneven or job.row < tuned.line or units >= _MAX_PIPED or not job.begins_at(LOAD) or (gaps and few)
        or job.length <= leaf // 4 or job.turns > tuned.turns
    ):  # fmt: skip
        return None
    assert job.chunks == 1  # of several, each has more turns
    halves = job.length <= leaf // 2
    warps, along = -(-units // (_STAGED_UNITS << halves)), 0
    while along < min(_ALONG_LEVELS, levels) and not job.is_busy(warps << along, tuned.enough):
        along += 1
    threads = max(tuned.threads, 32 << along)
    blocks = -(-warps // (threads // 32 >> along))
    if along == 0:
        blocks = min(blocks, _most_blocks(job, tuned.resident, threads, tuned.waves))
    macros = {
        "LEVELS": levels - along, "HALVES": int(halves), "LOOPS": int(job.turns > 1), "ALONG": 1 << along,
        "STAGES": tuned.stages, "PIECES": job.row // LOAD if few else _STAGED_UNITS << halves,
        "EVICT_FIRST": int(4 * columns.outer * columns.inner <= tuned.kept * job.gpu.l2),
    }  # fmt: skip
    shared = threads // 32 * tuned.stages * _TILE
    return _Grid("staged_columns", "ALIGNED", macros, unit, blocks, threads, tuned.resident, shared)


def _most_blocks(job: _Job, resident: int, threads: int, waves: int) -> int:
    """Of warps that have columns one after another."""
    return job.gpu.multiprocessors * resident // (threads // 32) * waves


def leaf_rows(steps: Sequence[Step]) -> int:
    """Rows of a leaf: what one accumulator of a plan adds up in a turn, or two accumulators of one MMA."""
    first = steps[0]
    if isinstance(first, MmaStep):
        return 2 * first.k
    if loads_come_together(steps):
        assert isinstance(first, AddStep)
        assert first.length is not None
        return NEIGHBOURS * first.length
    return 1


def loads_come_together(steps: Sequence[Step]) -> bool:
    """Whether a tree over a load's numbers comes first, and one over the sums of lanes that are neighbours after it."""
    return [step.order for step in steps[:2] if isinstance(step, AddStep)] == ["tree", "sequential"]


def levels_of(steps: Sequence[Step]) -> list[int]:
    """How many rows lie between leaves that come together, on each level of a plan's trees."""
    rows, found = leaf_rows(steps), []
    near = not isinstance(steps[0], MmaStep) and rows > 1
    for step in steps[3 if near else 0 :]:
        if isinstance(step, AddStep) and step.order == "tree":
            assert step.length is not None
            # The two accumulators of one MMA, which are one leaf, come together first.
            pair = 2 if not near and rows == leaf_rows(steps) > 1 else 1
            half = step.width // pair // 2
            while half:
                found.append(half * rows)
                half //= 2
            rows *= step.length // pair
    return found
