"""The kernels of fast Fourier transforms: passes over memory, and what makes transforms of real numbers of complex ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from tcu.formats import get_format
from tcu.gpu.device import Gpu, call
from tcu.gpu.errors import GpuError
from tcu.gpu.launch import OUT, ROOM, Given, KernelChoice, Launch, Recipe, X
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.tables import DeviceTable
from tcu.plan.butterflies import LENGTHS, butterfly
from tcu.plan.fft import MOST_SHIFT, TOP, FftPlan, Pass, half_turn, level_twiddles, pass_twiddles

__all__ = ["MOST_ROWS", "Chirp", "FftLaunch", "FftLines", "SourceKind", "transform_recipe"]

MOST_ROWS = 1 << 31
"""Transforms of a launch: kernels number them by 32 bits."""
_BANKS = 128
"""Bytes of a row of shared memory's banks."""
_TILE = 4096
"""Numbers of a block, unless its columns would be shorter than a few sectors of memory: four blocks and more on a multiprocessor."""
_MOST = {"binary32": 1 << 14, "binary64": 1 << 13}
"""Numbers of a block, at most: one block on a multiprocessor."""
_SEGMENT = 64
"""Bytes of neighbouring columns, at least, where a block has room for them."""
_REGISTERS = 65536
_STATIC = 8192
"""Bytes of shared memory that a block takes besides, at most."""
_UNFOLDERS = 256
"""Threads of a block that unfolds."""


def _pair_bytes(format: str) -> int:
    """Of a complex number whose parts have that format."""
    return 2 * get_format(format).dtype.itemsize


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
        f"const Floating v{2 * i + part} = x[{i}].{'im' if part else 're'};"
        for i in range(length)
        for part in (0, 1)
    ]
    for at, step in enumerate(program.steps, 2 * length):
        c = f"constant({step.factor('binary64').hex()}, {step.factor('binary32').hex()}f)"
        value = {
            "add": f"plus(v{step.x}, v{step.y})", "sub": f"minus(v{step.x}, v{step.y})",
            "mul": f"times({c}, v{step.x})", "fma": f"fused({c}, v{step.x}, v{step.y})",
        }[step.kind]  # fmt: skip
        lines.append(f"const Floating v{at} = {value};")
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
    FftPlaces ups, downs;       // in p.up and p.down
    i64 blocks, columns;
    i64 taken, made;            // numbers and results of the whole transform that there are
    i64 whole, stride;          // its length, and from a number of it to the next in memory (NEIGHBOURS, HERMITIAN, HALVES)
    const void* twiddles;       // of the levels, one after another: [level][k - 1][q]
    const void* high;           // roots of unity
    const void* low;
    i64 shift;
    const float* up;            // what columns were divided by, and are
    float* down;
    const void* table_in;
    const void* table_out;
    const void* halves;         // exp(-πik/whole), k up to whole
    double factor;
""")  # fmt: skip


FftUnfold = struct("FftUnfold", """
    const void* source;
    void* target;
    i64 batch, column, number;  // in the target, in pairs: a row is a column of a batch
    i64 rows, columns;          // of transforms
    i64 half;                   // of their length
    const void* table;          // exp(-πik/half), k up to half
    double factor;
""")  # fmt: skip


SourceKind = Literal["PAIRS", "REALS", "NEIGHBOURS", "HERMITIAN", "HALVES"]
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


@lru_cache(maxsize=64)
def _half_turn(n: int, work: str, gpu: Gpu) -> DeviceTable:
    return DeviceTable(half_turn(n, work), gpu)


Chirp = tuple[DeviceTable, DeviceTable]
"""Bluestein's: the sequence, and the transform of its conjugate."""


class _Room:
    """What launches have: memory between them, in bytes, and tables."""

    def __init__(self) -> None:
        self.size = 0
        self.tables: list[DeviceTable] = []

    def take(self, size: int) -> Given:
        begin = self.size
        self.size += -(-size // 256) * 256
        return ROOM, begin

    def keep(self, table: DeviceTable) -> DeviceTable:
        self.tables.append(table)
        return table

    @property
    def words(self) -> int:
        return -(-self.size // 8)


@dataclass
class _Step:
    """A pass: where everything lies, and what is done besides."""

    each: Pass
    n: int
    """Of the transform that the passes make."""
    whole: int
    """Of the transform that these serve."""
    reads: FftLines
    writes: FftLines
    source: Given
    target: Given
    begins: Struct
    to: Struct
    columns: int
    rows_in: bool
    rows_out: bool
    blocks: int = 1
    batches: int = 1
    known: bool = False
    """Whether blocks and columns depend on the plan alone."""
    left: int = 0
    """Of the transform, where results are multiplied by roots of unity; else 0."""
    numbers: Struct = field(default_factory=FftPlaces)
    results: Struct = field(default_factory=FftPlaces)
    ups: Struct = field(default_factory=FftPlaces)
    downs: Struct = field(default_factory=FftPlaces)
    up: Given | None = None
    down: Given | None = None
    taken: int | None = None
    """Numbers of the transform that there are; None: all."""
    made: int | None = None
    """Results that are wanted; None: all."""
    swap_in: bool = False
    swap_out: bool = False
    swap_last: bool = False
    table_in: DeviceTable | None = None
    table_out: DeviceTable | None = None
    halves: DeviceTable | None = None
    factor: float = 1.0

    @property
    def by_column(self) -> bool:
        return self.rows_in or self.rows_out

    @property
    def is_short(self) -> bool:
        all_there = {"NEIGHBOURS": 2 * self.n, "HALVES": self.n + 1}.get(self.reads.kind, self.n)
        return (self.taken is not None and self.taken < all_there) or (
            self.made is not None and self.made < self.n
        )


@dataclass(frozen=True)
class _Tile:
    """What a block has in hand."""

    columns: int
    threads: int
    resident: int
    """Blocks on a multiprocessor."""
    pitch: int
    shared: int
    in_parts: bool
    """Whether real and imaginary parts take turns in shared memory."""

    def of(self, step: _Step) -> int:
        """Tiles of a block of columns."""
        return -(-step.columns // self.columns)


def _tile(step: _Step, plan: FftPlan, gpu: Gpu) -> _Tile:
    each, wide = step.each, plan.work == "binary64"
    length, most = each.length, _MOST[plan.work] // each.length
    sides = ((step.reads, step.rows_in), (step.writes, step.rows_out))
    # Bytes of neighbouring columns' numbers; 0 where a column's numbers are neighbours.
    narrow = min((_pair_bytes(lines.format) for lines, in_rows in sides if not in_rows), default=0)
    count = max(1, min(_TILE // (2 if wide else 1) // length, most))
    count = 1 << count.bit_length() - 1
    while narrow and count * narrow < _SEGMENT and 2 * count <= most:
        count *= 2
    # A few columns, or few transforms, are shared among more blocks.
    lines = step.blocks * step.batches * step.columns
    while count > 1 and (
        count // 2 >= step.columns or (not narrow and lines < count * 2 * gpu.multiprocessors)
    ):
        count //= 2
    whole = _pair_bytes(plan.work)
    # Complex numbers, or where there is no room for them their parts, which take turns.
    sizes = (whole,) if step.writes.kind == "HALVES" else (whole, whole // 2)
    exchanges = len(each.radices) > 1 or step.writes.kind == "HALVES"
    while True:
        for size in sizes:
            pitch, shared = _places(length, count, size, by_column=step.by_column)
            shared = shared if exchanges else 0
            if shared + _STATIC <= gpu.shared_memory:
                break
        if shared + _STATIC <= gpu.shared_memory:
            break
        if count == 1:
            raise GpuError(
                f"a transform of {step.n:,} numbers takes {shared + _STATIC:,} bytes of a multiprocessor's shared memory, and "
                f"{gpu.name} has {gpu.shared_memory:,}: transform it on the host, which makes the same bits"
            )
        count //= 2
    # Numbers of a thread: of one butterfly of the first level, or of several; so that no thread is without.
    longest = max((1, *each.radices))
    own = longest * max(1, 16 // longest)
    threads = min(512 if wide else 1024, -(-length * count // own))
    resident = max(1, _REGISTERS // (128 if wide else 64) // threads)
    return _Tile(count, threads, resident, pitch, shared, size != whole)


def _places(length: int, columns: int, size: int, *, by_column: bool) -> tuple[int, int]:
    """(places from column to column, bytes) of shared memory for numbers of ``size`` bytes."""
    banks = _BANKS // size
    pitch = -(-(length + -(-length // banks)) // banks) * banks + banks // min(columns, banks)
    places = columns * pitch if by_column else length * columns + length * columns // banks + 1
    return pitch, places * size


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
    room = _Room()
    # Both halves of a transform meet in shared memory, where it has room for them.
    needed = _places(plan.length, 1, _pair_bytes(plan.work), by_column=True)[1] + _STATIC
    alone = plan.chirp is None and len(plan.passes) == 1 and needed <= gpu.shared_memory
    if target.kind != "HALVES" or alone:
        kernels = _transforms(plan, source, target, factor, inverse, chirp, room, OUT, gpu)
    else:
        between = _without_gaps(plan.work, source.extents, plan.length)
        place = room.take(_pair_bytes(plan.work) * plan.length * source.rows)
        kernels = _transforms(plan, source, between, 1.0, inverse, chirp, room, place, gpu)
        kernels.append(_unfold_kernel(plan, target, factor, place, room, gpu))
    return Recipe(tuple(kernels), room.words), room.tables


def _transforms(
    plan: FftPlan, source: FftLines, target: FftLines, factor: float, inverse: bool, chirp: Chirp | None, room: _Room, last: Given,
    gpu: Gpu,
) -> list[KernelChoice]:  # fmt: skip
    if plan.chirp is None:
        ends = _Ends(X, last, inverse, inverse, factor=factor)
        return _launches(plan, source, target, ends, room, gpu, plan.length)
    inner = plan.chirp
    assert chirp is not None
    sequence, transformed = (room.keep(table) for table in chirp)
    between = _without_gaps(inner.storage, source.extents, inner.length)
    place = room.take(_pair_bytes(inner.storage) * inner.length * source.rows)
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
    plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, room: _Room, gpu: Gpu, whole: int
) -> list[KernelChoice]:
    """``whole``: the length of the transform that these serve."""
    if len(plan.passes) == 1:
        steps = [_alone(plan, source, target, ends, whole)]
    else:
        steps = _steps(plan, source, target, ends, whole)
    first, last = steps[0], steps[-1]
    first.taken, first.swap_in, first.table_in = source.count, ends.swap_in, ends.table_in
    last.made, last.swap_out, last.swap_last = min(plan.length, target.count), ends.swap_out, ends.swap_last
    last.table_out, last.factor = ends.table_out, ends.factor
    if source.kind == "HALVES":
        first.halves = room.keep(_half_turn(2 * whole, plan.work, gpu))
    if target.kind == "HALVES":
        last.halves = room.keep(_half_turn(2 * plan.length, plan.work, gpu))
        last.factor = ends.factor / 2
    _take_room(plan, steps, source.rows, room)
    return [_pass_kernel(step, plan, room, gpu) for step in steps]


def _grid(extents: tuple[int, ...]) -> tuple[int, int]:
    """(blocks, batches) of transforms in up to two dimensions."""
    outer, inner = (*(1,) * (2 - len(extents)), *extents)
    return inner, outer


def _alone(plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, whole: int) -> _Step:
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
    return _Step(
        each, plan.length, whole, source, target, ends.source, ends.target, begins, to,
        columns=1 if column is None else extents[column], rows_in=rows_in, rows_out=rows_out, blocks=blocks, batches=batches,
        numbers=FftPlaces(number=1), results=FftPlaces(number=1),
    )  # fmt: skip


def _steps(plan: FftPlan, source: FftLines, target: FftLines, ends: _Ends, whole: int) -> list[_Step]:
    """Two passes, or three, of whole transforms between which numbers lie without gaps, row after row."""
    n, passes = plan.length, plan.passes
    between = _without_gaps(plan.storage, source.extents, n)
    blocks, batches = _grid(source.extents)
    rest = n // passes[0].length
    outer, inner, _ = source.places(None)
    first = _Step(
        passes[0], n, whole, source, between, ends.source, 0,
        FftPlaces(outer, inner, source.step, rest * source.step), FftPlaces(blocks * n, n, 1, rest),
        columns=rest, rows_in=False, rows_out=False, blocks=blocks, batches=batches, left=n,
        numbers=FftPlaces(column=1, number=rest), downs=FftPlaces(blocks * rest, rest, 1),
    )  # fmt: skip
    k1, step = passes[0].length, target.step
    outer, inner, _ = target.places(None)
    if len(passes) == 2:
        last = _Step(
            passes[1], n, whole, between, target, 0, ends.target,
            FftPlaces(blocks * n, n, rest, 1), FftPlaces(outer, inner, step, k1 * step),
            columns=k1, rows_in=True, rows_out=False, blocks=blocks, batches=batches,
            results=FftPlaces(column=1, number=k1), ups=FftPlaces(blocks * rest, rest, 0, 1),
        )  # fmt: skip
        return [first, last]
    k2, k3 = passes[1].length, passes[2].length
    rows = source.rows
    middle = _Step(
        passes[1], n, whole, between, between, 0, 0,
        FftPlaces(n, rest, 1, k3), FftPlaces(n, rest, 1, k3),
        columns=k3, rows_in=False, rows_out=False, blocks=k1, batches=rows, known=True, left=rest,
        ups=FftPlaces(rest, 0, 1, k3), downs=FftPlaces(k1 * k3, k3, 1),
    )  # fmt: skip
    last = _Step(
        passes[2], n, whole, between, target, 0, ends.target,
        FftPlaces(n, k3, rest, 1), FftPlaces(inner, k1 * step, step, k1 * k2 * step),
        columns=k1, rows_in=True, rows_out=False, blocks=k2, batches=rows, known=True,
        results=FftPlaces(block=k1, column=1, number=k1 * k2), ups=FftPlaces(k1 * k3, 0, k3, 1),
    )  # fmt: skip
    return [first, middle, last]


def _take_room(plan: FftPlan, steps: list[_Step], rows: int, room: _Room) -> None:
    """Memory between the steps.  The middle one of three leaves its results where its numbers were."""
    numbers = plan.length * rows
    for step, following in pairwise(steps):
        stays = step is not steps[0]
        step.target = following.source = (
            step.source if stays else room.take(_pair_bytes(plan.storage) * numbers)
        )
        if plan.storage == "binary16":
            step.down = following.up = room.take(4 * numbers // step.each.length)


def _pass_kernel(step: _Step, plan: FftPlan, room: _Room, gpu: Gpu) -> KernelChoice:
    tile = _tile(step, plan, gpu)
    tiles, rows = tile.of(step), step.blocks * step.batches
    macros: dict[str, object] = {
        "WORK": plan.work.upper(), **_macros(step, tile),
        "RESIDENT": tile.resident, "FLAT": int(rows == 1),
        "TILES": tiles if step.left or step.known else 0, "BLOCKS": step.blocks if step.known else 0,
    }  # fmt: skip
    problem = _problem(step, plan, room, gpu)
    return KernelChoice(
        "fft_pass", macros, tiles * rows, tile.threads, problem, _takes(step), shared=tile.shared
    )


def _problem(step: _Step, plan: FftPlan, room: _Room, gpu: Gpu) -> Struct:
    problem = FftPass()
    for name, places in (
        ("reads", step.begins), ("writes", step.to), ("numbers", step.numbers), ("results", step.results), ("ups", step.ups),
        ("downs", step.downs),
    ):  # fmt: skip
        setattr(problem, name, places)
    problem.blocks, problem.columns = step.blocks, step.columns
    problem.taken = step.n if step.taken is None else step.taken
    problem.made = step.n if step.made is None else step.made
    problem.whole, problem.stride = step.whole, step.reads.number
    problem.twiddles = room.keep(_twiddles(step.each, plan.work, gpu)).address
    if step.left:
        problem.shift, high, low = _coarse(step.left, plan.work, gpu)
        problem.high, problem.low = room.keep(high).address, room.keep(low).address
    for name in ("table_in", "table_out", "halves"):
        table = getattr(step, name)
        setattr(problem, name, 0 if table is None else table.address)
    problem.factor = step.factor
    return problem


def _takes(step: _Step) -> dict[str, Given]:
    given = {"source": step.source, "target": step.target, "up": step.up, "down": step.down}
    return {name: place for name, place in given.items() if place is not None}


def _macros(step: _Step, tile: _Tile) -> dict[str, object]:
    return {
        "LENGTH": step.each.length, "RADICES": ",".join(map(str, step.each.radices or (1,))), "COLUMNS": tile.columns,
        "THREADS": tile.threads, "PITCH": tile.pitch, "WHOLE": int(step.columns % tile.columns == 0),
        "READ_STEP": step.begins.number, "WRITE_STEP": step.to.number, "UP_STEP": step.ups.number,
        "ROWS_IN": int(step.rows_in), "ROWS_OUT": int(step.rows_out), "BY_COLUMN": int(step.by_column), "IN_PARTS": int(tile.in_parts),
        "SOURCE": step.reads.format.upper(), "TARGET": step.writes.format.upper(), "SOURCE_KIND": step.reads.kind,
        "TARGET_KIND": step.writes.kind, "SWAP_IN": int(step.swap_in),
        "SWAP_OUT": int(step.swap_out), "SWAP_LAST": int(step.swap_last), "SHORT": int(step.is_short),
        "TABLE_IN": int(step.table_in is not None), "TABLE_OUT": int(step.table_out is not None),
        "SCALED": int(step.factor != 1), "TURNED": int(step.left > 0), "UP": int(step.up is not None),
        "DOWN": int(step.down is not None),
    }  # fmt: skip


def _unfold_kernel(
    plan: FftPlan, target: FftLines, factor: float, source: Given, room: _Room, gpu: Gpu
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
