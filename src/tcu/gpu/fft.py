"""The kernels of fast Fourier transforms: passes over memory, and what makes transforms of real numbers of complex ones."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tcu.gpu.device import Gpu, call
from tcu.gpu.fft_pass import pass_kernel
from tcu.gpu.fft_passes import passes_kernel, sharing_of
from tcu.gpu.fft_step import FftLines, FftPlaces, FftStep, Room, SourceKind, pair_bytes
from tcu.gpu.fft_tiles import cluster_of, has_room
from tcu.gpu.launch import OUT, Given, KernelChoice, Launch, Recipe, Space, X
from tcu.gpu.structs import struct
from tcu.gpu.tables import DeviceTable
from tcu.plan.fft import FftPlan, Pass, half_turn

__all__ = ["MOST_ROWS", "Chirp", "FftLaunch", "FftLines", "SourceKind", "transform_recipe"]

MOST_ROWS = 1 << 31
"""Transforms of a launch: kernels number them by 32 bits."""
_UNFOLDERS = 256
"""Threads of a block that unfolds."""


FftUnfold = struct("FftUnfold", """
    const void* source;
    void* target;
    i64 batch, column, number;  // in the target, in pairs: a row is a column of a batch
    i64 rows, columns;          // of transforms
    i64 half;                   // of their length
    const void* table;          // exp(-πik/half), k up to half
    double factor;
""")  # fmt: skip


@lru_cache(maxsize=64)
def _half_turn(n: int, work: str, gpu: Gpu) -> DeviceTable:
    return DeviceTable(half_turn(n, work), gpu)


Chirp = tuple[DeviceTable, DeviceTable]
"""Bluestein's: the sequence, and the transform of its conjugate."""


class FftLaunch(Launch):
    """Which keeps the tables that its kernels read."""

    def __init__(self, recipe: Recipe, tables: list[DeviceTable], gpu: Gpu) -> None:
        super().__init__(recipe, gpu)
        self._tables = tables

    def start(self, x: int, other: int, out: int, stream: int, room: int = 0) -> None:
        super().start(x, other, out, stream, room)
        if stream and call("cuStreamIsCapturing", stream):
            _captured.append(self._tables)


_captured: list[list[DeviceTable]] = []
"""Which graphs read, that may be replayed as long as the process lives."""


class _Ends(NamedTuple):
    """What is done before and behind transforms besides them."""

    source: Given
    target: Given
    swap_in: bool = False
    swap_out: bool = False
    swap_last: bool = False
    table_in: DeviceTable | None = None
    table_out: DeviceTable | None = None
    factor: float = 1.0


def transform_recipe(
    plan: FftPlan, source: FftLines, target: FftLines, factor: float, inverse: bool, chirp: Chirp | None, gpu: Gpu
) -> tuple[Recipe, list[DeviceTable]]:  # fmt: skip
    """Transforms of complex numbers, or of what stands for some: of neighbouring real ones, if either side has their halves.

    And the tables that launches read, which must stay as long as these.
    """
    room = Room()
    # Both halves of a transform meet in shared memory, where it has room for them.
    alone = (
        plan.chirp is None and len(plan.passes) == 1 and has_room(plan.length, plan.work, gpu, parts=False)
    )
    if target.kind != "HALVES" or alone:
        kernels = _transforms(plan, source, target, factor, inverse, chirp, room, OUT, gpu)
    else:
        between = _without_gaps(plan.work, source.extents, plan.length)
        place = room.take(pair_bytes(plan.work) * plan.length * source.rows)
        kernels = _transforms(plan, source, between, 1.0, inverse, chirp, room, place, gpu)
        kernels.append(_unfold_kernel(plan, target, factor, place, room, gpu))
    space = Space("fft", -(-room.groups // 2)) if room.groups else None
    return Recipe(tuple(kernels), room.words, space), room.tables


def _transforms(
    plan: FftPlan, source: FftLines, target: FftLines, factor: float, inverse: bool, chirp: Chirp | None, room: Room, last: Given,
    gpu: Gpu,
) -> list[KernelChoice]:  # fmt: skip
    if plan.chirp is None:
        ends = _Ends(X, last, inverse, inverse, factor=factor)
        return _launches(plan, source, target, ends, room, gpu, plan.length)
    inner = plan.chirp
    assert chirp is not None
    sequence, transformed = (room.keep(table) for table in chirp)
    between = _without_gaps(inner.storage, source.extents, inner.length)
    place = room.take(pair_bytes(inner.storage) * inner.length * source.rows)
    there = _Ends(X, place, inverse, table_in=sequence, table_out=transformed)
    back = _Ends(place, last, True, True, inverse, table_out=sequence, factor=factor)
    return [
        *_launches(inner, source, between, there, room, gpu, plan.length),
        *_launches(inner, between, target, back, room, gpu, plan.length),
    ]


def _without_gaps(format: str, extents: tuple[int, ...], n: int) -> FftLines:
    """Whole transforms, one after another."""
    strides = tuple(n * math.prod(extents[i + 1 :]) for i in range(len(extents)))
    return FftLines(format, "PAIRS", extents, strides, 1, n)


def _launches(
    plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, room: Room, gpu: Gpu, whole: int
) -> list[KernelChoice]:
    """``whole``: the length of the transform that these serve."""
    if len(plan.passes) > 1:
        steps = _steps(plan, source, target, ends, whole)
    elif plan.halved or has_room(plan.length, plan.work, gpu, parts=True):
        steps = [_alone(plan, source, target, ends, whole)]
    else:
        steps = _shared(plan, source, target, ends, whole, gpu)
    first, last = steps[0], steps[-1]
    first.taken, first.swap_in, first.table_in = source.count, ends.swap_in, ends.table_in
    last.made, last.swap_out, last.swap_last = min(plan.length, target.count), ends.swap_out, ends.swap_last
    last.table_out, last.factor = ends.table_out, ends.factor
    if source.kind == "HALVES":
        first.halves = room.keep(_half_turn(2 * whole, plan.work, gpu))
    if target.kind == "HALVES":
        last.halves = room.keep(_half_turn(2 * plan.length, plan.work, gpu))
        last.factor = ends.factor / 2
    if plan.work == "binary16":
        first.fall = plan.falls[0]
        for step, drop in zip(steps, (*plan.falls[1:], 0), strict=True):
            step.of_lanes, step.halved, step.drop = True, plan.halved, drop
        if plan.halved:
            last.halves = room.keep(_half_turn(plan.length, plan.work, gpu))
    _take_room(plan, steps, source.rows, room)
    together: list[KernelChoice] = []
    if len(plan.passes) > 1 and (sharing := sharing_of(steps[-2], last, plan, gpu)):
        together = [passes_kernel(steps[-2], last, sharing, plan, room, gpu)]
    alone = steps[:-2] if together else steps
    return [pass_kernel(step, plan, room, gpu) for step in alone] + together


def _grid(extents: tuple[int, ...]) -> tuple[int, int]:
    """(blocks, batches) of transforms in up to two dimensions."""
    outer, inner = (*(1,) * (2 - len(extents)), *extents)
    return inner, outer


def _alone(plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, whole: int) -> FftStep:
    """The one pass of transforms that a block has in hand."""
    (each,) = plan.passes
    extents = source.extents
    # Neighbouring columns where those are neighbours in memory and numbers are not; else numbers.
    made, given = (
        [i for i, extent in enumerate(extents) if extent > 1 and lines.strides[i] == 1]
        for lines in (target, source)
    )
    rows_out, rows_in = target.number == 1 or not made, source.number == 1 or not given
    column = made[0] if not rows_out else given[0] if not rows_in else None
    if column is None and extents:
        column = max(range(len(extents)), key=lambda i: (extents[i], i))
    if not rows_out and not rows_in and made[0] != given[0]:
        rows_in = True
    blocks, batches = _grid(tuple(extent for i, extent in enumerate(extents) if i != column))
    begins, to = (
        FftPlaces(batch, block, stride, lines.step)
        for lines in (source, target) for batch, block, stride in (lines.places(column),)
    )  # fmt: skip
    return FftStep(
        each, plan.length, whole, source, target, ends.source, ends.target, begins, to,
        columns=1 if column is None else extents[column], rows_in=rows_in, rows_out=rows_out, blocks=blocks, batches=batches,
        numbers=FftPlaces(number=1), results=FftPlaces(number=1),
    )  # fmt: skip


def _shared(
    plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, whole: int, gpu: Gpu
) -> list[FftStep]:
    """A pass that is too long for a block: by the blocks of a cluster, or its first level and the others one after another."""
    step = _alone(plan, source, target, ends, whole)
    if cluster_of(step, gpu) > 1:
        return [step]
    (each,) = plan.passes
    first = each.radices[0]
    parts = Pass(first, (first,)), Pass(each.length // first, each.radices[1:])
    steps = _steps(replace(plan, passes=parts, storage=plan.work), source, target, ends, whole)
    steps[0].level = each
    return steps


def _steps(plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, whole: int) -> list[FftStep]:
    """Two passes, or three, of whole transforms between which numbers lie without gaps, row after row."""
    n, passes = plan.length, plan.passes
    between = _without_gaps(plan.storage, source.extents, n)
    blocks, batches = _grid(source.extents)
    rest = n // passes[0].length
    outer, inner, _ = source.places(None)
    first = FftStep(
        passes[0], n, whole, source, between, ends.source, 0,
        FftPlaces(outer, inner, source.step, rest * source.step), FftPlaces(blocks * n, n, 1, rest),
        columns=rest, rows_in=False, rows_out=False, blocks=blocks, batches=batches, left=n,
        numbers=FftPlaces(column=1, number=rest), downs=FftPlaces(blocks * rest, rest, 1),
    )  # fmt: skip
    k1, step = passes[0].length, target.step
    outer, inner, _ = target.places(None)
    if len(passes) == 2:
        last = FftStep(
            passes[1], n, whole, between, target, 0, ends.target,
            FftPlaces(blocks * n, n, rest, 1), FftPlaces(outer, inner, step, k1 * step),
            columns=k1, rows_in=True, rows_out=False, blocks=blocks, batches=batches,
            results=FftPlaces(column=1, number=k1), ups=FftPlaces(blocks * rest, rest, 0, 1),
        )  # fmt: skip
        return [first, last]
    k2, k3 = passes[1].length, passes[2].length
    rows = source.rows
    middle = FftStep(
        passes[1], n, whole, between, between, 0, 0,
        FftPlaces(n, rest, 1, k3), FftPlaces(n, rest, 1, k3),
        columns=k3, rows_in=False, rows_out=False, blocks=k1, batches=rows, known=True, left=rest,
        ups=FftPlaces(rest, 0, 1, k3), downs=FftPlaces(k1 * k3, k3, 1),
    )  # fmt: skip
    last = FftStep(
        passes[2], n, whole, between, target, 0, ends.target,
        FftPlaces(n, k3, rest, 1), FftPlaces(inner, k1 * step, step, k1 * k2 * step),
        columns=k1, rows_in=True, rows_out=False, blocks=k2, batches=rows, known=True,
        results=FftPlaces(block=k1, column=1, number=k1 * k2), ups=FftPlaces(k1 * k3, 0, k3, 1),
    )  # fmt: skip
    return [first, middle, last]


def _take_room(plan: FftPlan, steps: list[FftStep], rows: int, room: Room) -> None:
    """Memory between the steps.  The middle one of three leaves its results where its numbers were."""
    numbers = plan.length * rows
    for step, following in pairwise(steps):
        stays = step is not steps[0]
        step.target = following.source = (
            step.source if stays else room.take(pair_bytes(step.writes.format) * numbers)
        )
        if step.writes.format == "binary16":
            step.down = following.up = room.take((2 if step.of_lanes else 4) * numbers // step.each.length)


def _unfold_kernel(
    plan: FftPlan, target: FftLines, factor: float, source: Given, room: Room, gpu: Gpu
) -> KernelChoice:
    problem = FftUnfold()
    columns, batches = _grid(target.extents)
    problem.batch, problem.column, _ = target.places(None)
    problem.number, problem.half = target.number, plan.length
    problem.rows, problem.columns = columns * batches, columns
    problem.table = room.keep(_half_turn(2 * plan.length, plan.work, gpu)).address
    problem.factor = factor / 2
    macros = {
        "WORK": plan.work.upper(), "SOURCE": plan.work.upper(), "TARGET": target.format.upper(), "THREADS": _UNFOLDERS,
    }  # fmt: skip
    blocks = -(-columns * batches * (plan.length + 1) // _UNFOLDERS)
    takes = {"source": source, "target": OUT}
    return KernelChoice("fft_unfold", macros, blocks, _UNFOLDERS, problem, takes)
