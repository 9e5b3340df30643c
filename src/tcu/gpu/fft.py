"""The kernels of fast Fourier transforms: passes over memory, and what makes transforms of real numbers of complex ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from tcu.gpu.device import Gpu
from tcu.gpu.launch import OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import constants, struct
from tcu.gpu.tables import DeviceTable
from tcu.model.fft import convolution_kernel, half_turn
from tcu.plan.butterflies import LENGTHS, butterfly
from tcu.plan.fft import MOST_SHIFT, TOP, FftPlan, Pass, level_twiddles, pass_twiddles

__all__ = ["FftLines", "SourceKind", "fold_recipe", "transform_recipe", "unfold_recipe"]

_BANKS = 128
"""Bytes of a row of shared memory's banks."""
_TILE = 4096
"""Numbers of a block, unless its columns would be shorter than a few sectors of memory: four blocks and more on a multiprocessor."""
_MOST = {"binary32": 1 << 14, "binary64": 1 << 13}
"""Numbers of a block, at most: one block on a multiprocessor."""
_SEGMENT = 64
"""Bytes of neighbouring columns, at least, where a block has room for them."""
_REGISTERS = 65536
_FOLDERS = 256
"""Threads of a block that folds."""
_SIZES = {"binary16": 2, "binary32": 4, "binary64": 8}


def _butterflies() -> str:
    """Every program, as CUDA runs it."""
    alone = (
        "template <>\nstruct Butterfly<1> {\n    __device__ static inline void run(Complex (&)[1]) {}\n};\n"
    )
    return "\n".join((alone, *map(_program_text, LENGTHS)))


def _program_text(length: int) -> str:
    """A specialisation of fft_pass.cu's Butterfly."""
    program = butterfly(length)
    lines = [
        f"const Real v{2 * i + part} = x[{i}].{'im' if part else 're'};"
        for i in range(length)
        for part in (0, 1)
    ]
    for at, step in enumerate(program.steps, 2 * length):
        c = f"constant({step.factor('binary64').hex()}, {step.factor('binary32').hex()}f)"
        value = {
            "add": f"plus(v{step.x}, v{step.y})", "sub": f"minus(v{step.x}, v{step.y})",
            "mul": f"times({c}, v{step.x})", "fma": f"fused({c}, v{step.x}, v{step.y})",
        }[step.kind]  # fmt: skip
        lines.append(f"const Real v{at} = {value};")
    lines += [
        f"x[{k}] = {{v{program.results[2 * k]}, v{program.results[2 * k + 1]}}};" for k in range(length)
    ]
    body = "\n        ".join(lines)
    return (
        f"template <>\nstruct Butterfly<{length}> {{\n"
        f"    __device__ static inline void run(Complex (&x)[{length}]) {{\n        {body}\n    }}\n}};\n"
    )


BUTTERFLIES = _butterflies
SCALES = constants(FIELD=TOP + 126, MOST_SHIFT=MOST_SHIFT)
"""Of binary32's exponent field, so much more than the power of two of a scale."""


FftPlaces = struct("FftPlaces", """
    i64 batch;   // from one to the next
    i64 block;
    i64 column;
    i64 number;  // of a column
""")  # fmt: skip


FftPass = struct("FftPass", """
    const void* source;
    void* target;
    FftPlaces reads, writes;    // in numbers, or pairs of them
    FftPlaces numbers, results; // which numbers of the whole transform they are
    FftPlaces ups;              // in p.up
    i64 blocks, columns;
    i64 taken, made;            // numbers and results of the whole transform that there are
    i64 whole, stride;          // its length, and from a number of it to the next in memory (NEIGHBOURS, HERMITIAN)
    const void* twiddles;       // of the levels, one after another: [level][k - 1][q]
    const void* high;           // roots of unity
    const void* low;
    i64 shift;
    const float* up;            // what columns were divided by, and are
    float* down;
    const void* table_in;
    const void* table_out;
    double factor;
""")  # fmt: skip


FftFold = struct("FftFold", """
    const void* source;
    void* target;
    FftPlaces reads, writes;  // without blocks
    i64 rows, columns;   // of transforms; a row is a column of a batch
    i64 half;            // of the transform's length
    i64 taken;           // numbers that there are
    const void* table;   // exp(-2πik/n), k up to half
    double factor;
""")  # fmt: skip


SourceKind = Literal["PAIRS", "REALS", "NEIGHBOURS", "HERMITIAN"]
"""As in fft_pass.cu."""


@dataclass(frozen=True)
class FftLines:
    """Transforms in memory: up to three dimensions of them, outermost first; strides in pairs, or in real numbers where
    there are no pairs.
    """

    format: str
    """Of real numbers."""
    kind: SourceKind
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    number: int
    """From a number to the next; of neighbours, from a real number to the next."""
    count: int
    """Numbers along the axis; of neighbours, real ones."""

    @property
    def step(self) -> int:
        """From one number of a transform to the next."""
        return self.number * (2 if self.kind == "NEIGHBOURS" else 1)

    @property
    def rows(self) -> int:
        return math.prod(self.extents)

    def places(self, column: int | None) -> tuple[int, int, int]:
        """The strides of batch, block and column, one dimension of which is the column."""
        rest = [stride for i, stride in enumerate(self.strides) if i != column]
        outer, inner = (*(0,) * (2 - len(rest)), *rest)
        return outer, inner, 0 if column is None else self.strides[column]


class _Tile(NamedTuple):
    columns: int
    threads: int
    resident: int
    pitch: int
    shared: int


def _tile(
    plan: FftPlan, each: Pass, columns: int, by_column: bool, narrow: int, lines: int, gpu: Gpu
) -> _Tile:
    """``narrow``: bytes of neighbouring columns' numbers; 0 where a column's numbers are neighbours."""
    length, wide = each.length, plan.work == "binary64"
    most = _MOST[plan.work] // length
    count = max(1, min(_TILE // (2 if wide else 1) // length, most))
    count = 1 << count.bit_length() - 1
    while narrow and count * narrow < _SEGMENT and 2 * count <= most:
        count *= 2
    # A few columns, or few transforms, are shared among more blocks.
    while count > 1 and (count // 2 >= columns or (not narrow and lines < count * 2 * gpu.multiprocessors)):
        count //= 2
    # Numbers of a thread: of a butterfly of the first level, or of several; so that no thread is without.
    longest = max((1, *each.radices))
    own = longest * max(1, 8 // longest)
    threads = min(512 if wide else 1024, -(-length * count // own))
    size, banks = (16, _BANKS // 16) if wide else (8, _BANKS // 8)
    pitch = -(-(length + -(-length // banks)) // banks) * banks + banks // min(count, banks)
    places = count * pitch if by_column else length * count + length * count // banks + 1
    shared = places * size if len(each.radices) > 1 else 0
    registers = (64 if own > 8 else 48) * (2 if wide else 1)
    resident = max(1, _REGISTERS // registers // threads)
    return _Tile(count, threads, resident, pitch, shared)


@lru_cache(maxsize=64)
def _twiddles(each: Pass, work: str, gpu: Gpu) -> DeviceTable:
    tables, left = [np.zeros((0, 2))], each.length
    for radix in each.radices:
        if left > radix:
            tables.append(level_twiddles(left, radix, work).transpose(1, 0, 2).reshape(-1, 2))
        left //= radix
    dtype = np.float64 if work == "binary64" else np.float32
    return DeviceTable(np.concatenate(tables).astype(dtype), gpu)


@lru_cache(maxsize=64)
def _coarse(n: int, work: str, gpu: Gpu) -> tuple[int, DeviceTable, DeviceTable]:
    shift, high, low = pass_twiddles(n, work)
    return shift, DeviceTable(high, gpu), DeviceTable(low, gpu)


@lru_cache(maxsize=32)
def _chirp(n: int, length: int, work: str, gpu: Gpu) -> tuple[DeviceTable, DeviceTable]:
    kernel = convolution_kernel(n, length, work)
    return DeviceTable(kernel.chirp, gpu), DeviceTable(kernel.transformed, gpu)


@lru_cache(maxsize=64)
def _half_turn(n: int, work: str, gpu: Gpu) -> DeviceTable:
    return DeviceTable(half_turn(n, work), gpu)


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


class _Room:
    """Memory between launches, in bytes."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, size: int) -> Given:
        begin = self.size
        self.size += -(-size // 256) * 256
        return ROOM, begin


def transform_recipe(
    plan: FftPlan, source: FftLines, target: FftLines, factor: float, inverse: bool, gpu: Gpu, *, first: Given = X, last: Given = OUT,
    room: _Room | None = None,
) -> Recipe:  # fmt: skip
    """Transforms of complex numbers, or of what stands for some."""
    room = room or _Room()
    kernels: list[KernelChoice] = []
    if plan.chirp is None:
        ends = _Ends(first, last, inverse, inverse, factor=factor)
        kernels += _passes(plan, source, target, ends, room, gpu, plan.length)
    else:
        inner = plan.chirp
        chirp, transformed = _chirp(plan.length, inner.length, plan.work, gpu)
        between = _without_gaps(inner.storage, source.extents, inner.length)
        place = room.take(2 * _SIZES[inner.storage] * inner.length * source.rows)
        ends = _Ends(first, place, inverse, table_in=chirp, table_out=transformed)
        kernels += _passes(inner, source, between, ends, room, gpu, plan.length)
        ends = _Ends(place, last, True, True, inverse, table_out=chirp, factor=factor)
        kernels += _passes(inner, between, target, ends, room, gpu, plan.length)
    return Recipe(tuple(kernels), -(-room.size // 8))


def _without_gaps(format: str, extents: tuple[int, ...], n: int) -> FftLines:
    """Whole transforms, one after another."""
    strides = tuple(n * math.prod(extents[i + 1 :]) for i in range(len(extents)))
    return FftLines(format, "PAIRS", extents, strides, 1, n)


def _passes(
    plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, room: _Room, gpu: Gpu, whole: int
) -> Iterator[KernelChoice]:
    """``whole``: the length of the transform that these serve."""
    count, rows, n = len(plan.passes), source.rows, plan.length
    made = min(n, target.count)
    if count == 1:
        yield _alone(plan, source, target, ends, made, whole, gpu)
        return
    between = _without_gaps(plan.storage, source.extents, n)
    scratch = room.take(2 * _SIZES[plan.storage] * n * rows)
    scaled = plan.storage == "binary16"
    downs = [room.take(4 * rows * (n // each.length)) if scaled else None for each in plan.passes[:-1]]
    done, left = 1, n
    for number, each in enumerate(plan.passes):
        first, last = number == 0, number + 1 == count
        rest = left // each.length
        reads, writes = source if first else between, target if last else between
        if first:
            outer, inner, _ = reads.places(None)
            blocks, batches = _grid(reads.extents)
            columns = rest
            begins = FftPlaces(outer, inner, reads.step, rest * reads.step)
            to = FftPlaces(blocks * n, n, 1, rest)
            numbers = FftPlaces(0, 0, 1, rest)
            results, ups = FftPlaces(), FftPlaces()
        elif not last:  # the middle one of three: a block of the first pass's each
            blocks, batches, columns = done, rows, rest
            begins = to = FftPlaces(n, left, 1, rest)
            numbers, results = FftPlaces(), FftPlaces()
            ups = FftPlaces(n // plan.passes[0].length, 0, 1, rest)
        else:
            k1 = plan.passes[0].length
            blocks = done // k1
            columns, results = k1, FftPlaces(0, k1, 1, done)
            if count == 2:
                blocks, batches = _grid(writes.extents)
                outer, inner, _ = writes.places(None)
                begins = FftPlaces(blocks * n, n, left, 1)
                to = FftPlaces(outer, inner, writes.step, done * writes.step)
                results = FftPlaces(0, 0, 1, done)
                ups = FftPlaces(blocks * left, left, 0, 1)
            else:
                batches = rows
                begins = FftPlaces(n, left, n // k1, 1)
                to = FftPlaces(writes.places(None)[1], k1 * writes.step, writes.step, done * writes.step)
                ups = FftPlaces(k1 * left, 0, left, 1)
            numbers = FftPlaces()
        rows_in = last and not first
        yield _pass_kernel(
            plan, each, reads, writes, gpu,
            begins=begins, to=to, numbers=numbers, results=results, ups=ups, blocks=blocks, batches=batches, columns=columns,
            taken=reads.count if first else n, made=made if last else n, left=left, whole=whole,
            source=ends.source if first else scratch, target=ends.target if last else scratch,
            rows_in=rows_in, rows_out=False, turned=not last,
            swap_in=ends.swap_in and first, swap_out=ends.swap_out and last, swap_last=ends.swap_last and last,
            table_in=ends.table_in if first else None, table_out=ends.table_out if last else None,
            factor=ends.factor if last else 1.0, up=downs[number - 1] if not first else None,
            down=downs[number] if not last else None,
        )  # fmt: skip
        done, left = done * each.length, rest


def _grid(extents: tuple[int, ...]) -> tuple[int, int]:
    """(blocks, batches) of transforms in up to two dimensions."""
    outer, inner = (*(1,) * (2 - len(extents)), *extents)
    return inner, outer


def _alone(
    plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, made: int, whole: int, gpu: Gpu
) -> KernelChoice:
    """The one pass of transforms that a block has in hand."""
    (each,) = plan.passes
    extents = source.extents
    # Neighbouring columns where those are neighbours in memory and numbers are not; else numbers.
    unit = [i for i, extent in enumerate(extents) if extent > 1 and target.strides[i] == 1]
    reads = [i for i, extent in enumerate(extents) if extent > 1 and source.strides[i] == 1]
    rows_out = target.number == 1 or not unit
    rows_in = source.number == 1 or not reads
    column = unit[0] if not rows_out else reads[0] if not rows_in else None
    if column is None and extents:
        column = max(range(len(extents)), key=lambda i: (extents[i], i))
    if not rows_out and not rows_in and unit[0] != reads[0]:
        rows_in = True
    rest = [extent for i, extent in enumerate(extents) if i != column]
    blocks, batches = _grid(tuple(rest))
    begins, to = (FftPlaces(*lines.places(column), lines.step) for lines in (source, target))
    return _pass_kernel(
        plan, each, source, target, gpu,
        begins=begins, to=to, numbers=FftPlaces(0, 0, 0, 1), results=FftPlaces(0, 0, 0, 1), ups=FftPlaces(),
        blocks=blocks, batches=batches, columns=1 if column is None else extents[column],
        taken=source.count, made=made, left=plan.length, whole=whole, source=ends.source, target=ends.target,
        rows_in=rows_in, rows_out=rows_out, turned=False, swap_in=ends.swap_in, swap_out=ends.swap_out, swap_last=ends.swap_last,
        table_in=ends.table_in, table_out=ends.table_out, factor=ends.factor, up=None, down=None,
    )  # fmt: skip


def _pass_kernel(
    plan: FftPlan, each: Pass, reads: FftLines, writes: FftLines, gpu: Gpu, *, begins: Any, to: Any, numbers: Any, results: Any, ups: Any,
    blocks: int, batches: int, columns: int, taken: int, made: int, left: int, source: Given, target: Given, rows_in: bool,
    rows_out: bool, turned: bool, swap_in: bool, swap_out: bool, swap_last: bool, table_in: DeviceTable | None,
    table_out: DeviceTable | None, factor: float, up: Given | None, down: Given | None, whole: int,
) -> KernelChoice:  # fmt: skip
    by_column = rows_in or rows_out
    sizes = [
        2 * _SIZES[side.format] for side, in_rows in ((reads, rows_in), (writes, rows_out)) if not in_rows
    ]
    tile = _tile(plan, each, columns, by_column, min(sizes, default=0), blocks * batches * columns, gpu)
    problem = FftPass()
    for name, places in (
        ("reads", begins),
        ("writes", to),
        ("numbers", numbers),
        ("results", results),
        ("ups", ups),
    ):
        setattr(problem, name, places)
    problem.blocks, problem.columns = blocks, columns
    problem.taken, problem.made = taken, made
    problem.whole, problem.stride = whole, reads.number
    problem.twiddles = _twiddles(each, plan.work, gpu).address
    if turned:
        problem.shift, high, low = _coarse(left, plan.work, gpu)
        problem.high, problem.low = high.address, low.address
    for name, table in (("table_in", table_in), ("table_out", table_out)):
        setattr(problem, name, 0 if table is None else table.address)
    problem.factor = factor
    takes = {"source": source, "target": target}
    takes |= {name: given for name, given in (("up", up), ("down", down)) if given is not None}
    macros = {
        "WORK": plan.work.upper(), "LENGTH": each.length, "RADICES": ",".join(map(str, each.radices or (1,))),
        "COLUMNS": tile.columns, "THREADS": tile.threads, "RESIDENT": tile.resident, "PITCH": tile.pitch,
        "ROWS_IN": int(rows_in), "ROWS_OUT": int(rows_out), "BY_COLUMN": int(by_column),
        "ELEMENT": reads.format.upper(), "RESULT": writes.format.upper(), "SOURCE_KIND": reads.kind, "TARGET_KIND": writes.kind,
        "SWAP_IN": int(swap_in), "SWAP_OUT": int(swap_out), "SWAP_LAST": int(swap_last),
        "SHORT": int(taken < plan.length * (2 if reads.kind == "NEIGHBOURS" else 1) or made < plan.length), "TABLE_IN": int(table_in is not None),
        "TABLE_OUT": int(table_out is not None), "SCALED": int(factor != 1), "TURNED": int(turned), "UP": int(up is not None),
        "DOWN": int(down is not None), "WHOLE": int(columns % tile.columns == 0), "FLAT": int(blocks * batches == 1),
        "TILES": -(-columns // tile.columns) if left < whole or turned else 0, "BLOCKS": blocks if left < whole else 0, "READ_STEP": begins.number,
        "WRITE_STEP": to.number, "UP_STEP": ups.number,
    }  # fmt: skip
    count = -(-columns // tile.columns) * blocks * batches
    return KernelChoice("fft_pass", macros, count, tile.threads, problem, takes, shared=tile.shared)


def unfold_recipe(plan: FftPlan, source: FftLines, target: FftLines, factor: float, gpu: Gpu) -> Recipe:
    """Transforms of an even number of real numbers; ``source``: pairs of neighbouring ones, as complex numbers."""
    room = _Room()
    between = _without_gaps(plan.work, source.extents, plan.length)
    place = room.take(2 * _SIZES[plan.work] * plan.length * source.rows)
    made = transform_recipe(plan, source, between, 1.0, False, gpu, last=place, room=room)
    unfold = _fold_kernel("unfold_halves", plan, between, target, factor / 2, place, OUT, gpu)
    return Recipe((*made.kernels, unfold), -(-room.size // 8))


def fold_recipe(plan: FftPlan, source: FftLines, target: FftLines, factor: float, gpu: Gpu) -> Recipe:
    """An even number of real numbers from half their transforms; ``target``: pairs of neighbouring ones."""
    room = _Room()
    between = _without_gaps(plan.work, source.extents, plan.length)
    place = room.take(2 * _SIZES[plan.work] * plan.length * source.rows)
    fold = _fold_kernel("fold_halves", plan, source, between, 1.0, X, place, gpu)
    made = transform_recipe(plan, between, target, factor, True, gpu, first=place, room=room)
    return Recipe((fold, *made.kernels), -(-room.size // 8))


def _fold_kernel(
    entry: str, plan: FftPlan, reads: FftLines, writes: FftLines, factor: float, source: Given, target: Given, gpu: Gpu
) -> KernelChoice:  # fmt: skip
    problem = FftFold()
    columns, batches = _grid(reads.extents)
    for name, side in (("reads", reads), ("writes", writes)):
        outer, inner, _ = side.places(None)
        setattr(problem, name, FftPlaces(outer, 0, inner, side.number))
    half = plan.length
    problem.rows, problem.columns, problem.half, problem.taken = columns * batches, columns, half, reads.count
    problem.table = _half_turn(2 * half, plan.work, gpu).address
    problem.factor = factor
    macros = {
        "WORK": plan.work.upper(),
        "ELEMENT": reads.format.upper(),
        "RESULT": writes.format.upper(),
        "THREADS": _FOLDERS,
    }
    count = columns * batches * (half + 1 if entry == "unfold_halves" else half)
    return KernelChoice(
        "fft_fold",
        macros,
        -(-count // _FOLDERS),
        _FOLDERS,
        problem,
        {"source": source, "target": target},
        entry=entry,
    )
