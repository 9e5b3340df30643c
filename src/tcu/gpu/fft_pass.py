"""The kernel of a pass of fast Fourier transforms: how its blocks share numbers, and what each pass does besides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from tcu.formats import get_format
from tcu.gpu.device import CLUSTERED, MOST_OF_CLUSTER, REGISTERS, Gpu
from tcu.gpu.launch import ROOM, Given, KernelChoice
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.tables import DeviceTable
from tcu.plan.butterflies import LENGTHS, butterfly
from tcu.plan.fft import MOST_SHIFT, TOP, FftPlan, Pass, level_twiddles, pass_twiddles

__all__ = [
    "FftLines", "FftPass", "FftPlaces", "FftStep", "Room", "SourceKind", "Tile", "cluster_of", "has_room", "pair_bytes", "pass_kernel",
    "pass_macros", "pass_problem", "pass_takes", "tile_of",
]  # fmt: skip

_BANKS = 128
"""Bytes of a row of shared memory's banks."""
_TILE = {"binary16": 8192, "binary32": 4096, "binary64": 2048}
"""Numbers of a block, unless its columns would be shorter than a few sectors of memory: four blocks and more on a multiprocessor."""
_MOST = {"binary16": 1 << 15, "binary32": 1 << 14, "binary64": 1 << 13}
"""Numbers of a block, at most: one block on a multiprocessor."""
_SECTOR = 32
"""Bytes of neighbouring columns, at least: of 16, as two blocks write parts of a sector, passes took 2 to 3 times as long (H200)."""
_NEIGHBOURS = 16
"""Columns of a block, if two blocks on a multiprocessor have room for them."""
_FEW = 1
"""Blocks of a multiprocessor, of which none reads while others compute; of two, 2^13 numbers of binary32 took 293 us in place of 275 (H200)."""
_STATIC = 8192
"""Bytes of shared memory that a block takes besides, at most."""


def pair_bytes(format: str) -> int:
    """Of a complex number whose parts have that format."""
    return 2 * get_format(format).dtype.itemsize


def _code(value: float) -> int:
    """Of a number of binary16."""
    return int(np.float16(value).view(np.uint16))


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
        c = f"constant({step.factor('binary64').hex()}, {step.factor('binary32').hex()}f, {_code(step.factor('binary16')):#06x})"
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
    const float* up;            // what columns were divided by, and are; of binary16 the upper halves of such numbers
    float* down;
    const void* table_in;
    const void* table_out;
    const void* halves;         // exp(-πik/whole), k up to whole
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
    even: bool = True
    """Whether the memory begins at a multiple of two numbers' bytes."""

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
    return DeviceTable(np.concatenate(tables).astype(get_format(work).dtype), gpu)


@lru_cache(maxsize=64)
def _coarse(n: int, work: str, gpu: Gpu) -> tuple[int, DeviceTable, DeviceTable]:
    shift, high, low = pass_twiddles(n, work)
    return shift, DeviceTable(high, gpu), DeviceTable(low, gpu)


class Room:
    """What launches have: memory between them, in bytes, and tables."""

    def __init__(self) -> None:
        self.size = 0
        self.tables: list[DeviceTable] = []
        self.groups = 0
        """Of which blocks tell each other."""

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
class FftStep:
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
    level: Pass | None = None
    """The pass whose first level this is, by whose twiddle factors results are multiplied."""
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
    of_lanes: bool = False
    """Whether all is done in binary16, of two numbers at a time."""
    halved: bool = False
    """Whether these are the even and the odd numbers of a column, else of two columns."""
    fall: int = 0
    drop: int = 0
    """Columns are divided by 2 to these besides, before the first level and with roots of unity."""

    @property
    def by_column(self) -> bool:
        return self.rows_in or self.rows_out

    @property
    def side(self) -> int:
        """Columns whose numbers are lanes of the same."""
        return 2 if self.of_lanes and not self.halved else 1

    @property
    def is_short(self) -> bool:
        all_there = {"NEIGHBOURS": 2 * self.n, "HALVES": self.n + 1}.get(self.reads.kind, self.n)
        return (self.taken is not None and self.taken < all_there) or (
            self.made is not None and self.made < self.n
        )


@dataclass(frozen=True)
class Tile:
    """What a block has in hand."""

    columns: int
    threads: int
    resident: int
    """Blocks on a multiprocessor."""
    pitch: int
    shared: int
    in_parts: bool
    """Whether real and imaginary parts take turns in shared memory."""
    cluster: int = 1
    """Blocks that share a transform."""
    side: int = 1
    """Transforms in each of the columns."""

    @property
    def width(self) -> int:
        """Transforms of a block."""
        return self.columns * self.side

    def of(self, step: FftStep) -> int:
        """Tiles of a block of columns."""
        return -(-step.columns // self.width)

    def by(self, threads: int, step: FftStep, plan: FftPlan) -> Tile:
        """The same, of fewer threads."""
        if threads == self.threads:
            return self
        own = step.each.length * self.columns // threads
        return replace(self, threads=threads, resident=_resident(step, own, threads, plan))


def tile_of(step: FftStep, plan: FftPlan, gpu: Gpu) -> Tile:
    each, side = step.each, step.side
    # Of binary16, the numbers of both lanes.
    whole = 8 if step.of_lanes else pair_bytes(plan.work)
    cluster = cluster_of(step, gpu)
    if cluster > 1:
        first = each.radices[0]
        pitch, shared = _places(each.length // first, first // cluster, whole, by_column=True)
        threads, resident = _threads(step, each.length // cluster, plan)
        return Tile(1, threads, resident, pitch, shared, in_parts=False, cluster=cluster)
    count = _columns(step, plan, gpu)
    # Complex numbers, or where there is no room for them their parts, of each lane, which take turns.
    sizes = (whole,) if step.writes.kind == "HALVES" else (whole, 2) if step.of_lanes else (whole, whole // 2)
    exchanges = len(each.radices) > 1 or step.writes.kind == "HALVES"
    while True:
        for size in sizes:
            pitch, shared = _places(each.length, count // side, size, by_column=step.by_column)
            shared = shared if exchanges else 0
            if shared + _STATIC <= gpu.shared_memory:
                threads, resident = _threads(step, each.length * count // side, plan)
                return Tile(count // side, threads, resident, pitch, shared, size != whole, side=side)
        count = max(side, count // 2)


def _columns(step: FftStep, plan: FftPlan, gpu: Gpu) -> int:
    """Of a block."""
    length, tile = step.each.length * (2 if step.halved else 1), _TILE[plan.work]
    most = 1 << max(1, _MOST[plan.work] // length).bit_length() - 1
    sides = ((step.reads, step.rows_in), (step.writes, step.rows_out))
    # Bytes of neighbouring columns' numbers; 0 where a column's numbers are neighbours.
    narrow = min((pair_bytes(lines.format) for lines, in_rows in sides if not in_rows), default=0)
    count = 1 << max(1, tile // length).bit_length() - 1

    def tiles(count: int) -> int:
        return -(-step.columns // count) * step.blocks * step.batches

    if narrow:
        least = min(_SECTOR // narrow, most)
        count = max(count, min(_NEIGHBOURS, most))
        while count > least and (count * length > 2 * tile or 2 * tiles(count) <= gpu.multiprocessors):
            count //= 2
        # So many that none are left over, if that is possible.
        fitting = range(min(count, _NEIGHBOURS), min(2 * count, 2 * tile // length + 1))
        count = min(
            (c for c in fitting if step.columns % c == 0 and c % step.side == 0),
            key=lambda c: abs(c - count),
            default=count,
        )
    # A few columns, or few transforms, are shared among more blocks.
    lines = step.blocks * step.batches * step.columns
    while count > 1 and (
        count // 2 >= step.columns or (not narrow and lines < count * 2 * gpu.multiprocessors)
    ):
        count //= 2
    return max(step.side, count)


def _threads(step: FftStep, numbers: int, plan: FftPlan) -> tuple[int, int]:
    """(threads of a block of so many numbers, blocks of a multiprocessor)."""
    # Numbers of a thread: of one of the longest butterflies, or of several; so that no thread is without.
    longest = max((1, *step.each.radices))
    own = longest * max(1, 16 // longest)
    threads = min(512 if plan.work == "binary64" else 1024, -(-numbers // own))
    return threads, _resident(step, own, threads, plan)


def _resident(step: FftStep, own: int, threads: int, plan: FftPlan) -> int:
    """Blocks of a multiprocessor whose threads have so many numbers each."""
    # Those of powers of two, of each lane, beside numbers: within 64, three passes of 2^24 took 511 us in place of 443 (H200).
    powers = step.of_lanes and step.ups.column
    registers = 128 if plan.work == "binary64" or own > 16 else 80 if powers else 64
    return max(1, REGISTERS // registers // threads)


def has_room(length: int, work: str, gpu: Gpu, *, parts: bool) -> bool:
    """Whether a block has room for a transform: for its complex numbers, or for their ``parts``, which take turns."""
    size = pair_bytes(work) // (2 if parts else 1)
    return (
        length <= _MOST[work] and _places(length, 1, size, by_column=True)[1] + _STATIC <= gpu.shared_memory
    )


def cluster_of(step: FftStep, gpu: Gpu) -> int:
    """Blocks that share a transform that one has no room for, if they can; else 1."""
    length = step.each.length
    if length <= _MOST["binary32"] or step.writes.format != "binary32" or gpu.compute_capability < CLUSTERED:
        return 1
    if not step.by_column or step.writes.kind == "HALVES":
        return 1
    first, size = step.each.radices[0], pair_bytes("binary32") // (2 if step.writes.kind == "REALS" else 1)
    blocks = [
        b for b in range(2, MOST_OF_CLUSTER + 1)
        if first % b == 0 and length // first % b == 0 and first // b * size >= _SECTOR and length // b <= 2 * _TILE["binary32"]
    ]  # fmt: skip
    return next((b for b in blocks if length // b <= _TILE["binary32"]), blocks[-1] if blocks else 1)


def _places(length: int, columns: int, size: int, *, by_column: bool) -> tuple[int, int]:
    """(places from column to column, bytes) of shared memory for numbers of ``size`` bytes."""
    if length % 2:
        return length, columns * length * size
    banks = _BANKS // size
    pitch = -(-(length + -(-length // banks)) // banks) * banks + banks // min(columns, banks)
    places = columns * pitch if by_column else length * columns + length * columns // banks + 1
    return pitch, places * size


def _ahead(step: FftStep, tile: Tile, gpu: Gpu) -> int:
    """How many blocks later the block comes whose numbers the second cache is to fetch; 0: none.

    Whole transforms of which a multiprocessor has one block: 2^14 of binary32 took 326 us in place of 348.  What passes along columns,
    and several passes, ask for is gone before it is read: 2^22 took 785 us in place of 672 (H200).
    """
    kind = step.reads.kind == "PAIRS" and step.begins.number == 1
    alone = step.rows_in and step.rows_out and not step.is_short and step.columns % tile.width == 0
    few = tile.resident <= _FEW and tile.cluster == 1 and gpu.compute_capability >= CLUSTERED
    return tile.resident * gpu.multiprocessors if kind and alone and few else 0


def pass_kernel(step: FftStep, plan: FftPlan, room: Room, gpu: Gpu) -> KernelChoice:
    tile = tile_of(step, plan, gpu)
    macros = {**pass_macros(step, tile, plan), "AHEAD": _ahead(step, tile, gpu)}
    blocks = tile.of(step) * step.blocks * step.batches * tile.cluster
    return KernelChoice(
        "fft_pass", macros, blocks, tile.threads, pass_problem(step, plan, room, gpu), pass_takes(step), shared=tile.shared,
        cluster=tile.cluster,
    )  # fmt: skip


def pass_macros(step: FftStep, tile: Tile, plan: FftPlan) -> dict[str, object]:
    """What device/fourier/pass.cuh is compiled with."""
    tiles, rows = tile.of(step), step.blocks * step.batches
    return {
        "WORK": plan.work.upper(), **_macros(step, tile), "RESIDENT": tile.resident, "FLAT": int(rows == 1), "AHEAD": 0, "READ_ONCE": 0, "WRITTEN_ONCE": 0,
        "TILES": tiles if step.left or step.known else 0, "BLOCKS": step.blocks if step.known else 0, "BLOCKS_INNER": 0,
    }  # fmt: skip


def pass_problem(step: FftStep, plan: FftPlan, room: Room, gpu: Gpu) -> Struct:
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
    if step.level:
        problem.high = room.keep(_twiddles(step.level, plan.work, gpu)).address
    elif step.left:
        problem.shift, high, low = _coarse(step.left, plan.turns, gpu)
        problem.high, problem.low = room.keep(high).address, room.keep(low).address
    for name in ("table_in", "table_out", "halves"):
        table = getattr(step, name)
        setattr(problem, name, 0 if table is None else table.address)
    problem.factor = step.factor
    return problem


def pass_takes(step: FftStep) -> dict[str, Given]:
    given = {"source": step.source, "target": step.target, "up": step.up, "down": step.down}
    return {name: place for name, place in given.items() if place is not None}


def _macros(step: FftStep, tile: Tile) -> dict[str, object]:
    return {
        "LENGTH": step.each.length, "RADICES": ",".join(map(str, step.each.radices or (1,))), "COLUMNS": tile.columns,
        "CLUSTER": tile.cluster, "THREADS": tile.threads, "PITCH": tile.pitch, "WHOLE": int(step.columns % tile.width == 0),
        "READ_STEP": step.begins.number, "WRITE_STEP": step.to.number, "UP_STEP": step.ups.number,
        "ROWS_IN": int(step.rows_in), "ROWS_OUT": int(step.rows_out), "BY_COLUMN": int(step.by_column), "IN_PARTS": int(tile.in_parts),
        "SOURCE": step.reads.format.upper(), "TARGET": step.writes.format.upper(), "SOURCE_KIND": step.reads.kind,
        "TARGET_KIND": step.writes.kind, "SWAP_IN": int(step.swap_in),
        "SWAP_OUT": int(step.swap_out), "SWAP_LAST": int(step.swap_last), "SHORT": int(step.is_short),
        "TABLE_IN": int(step.table_in is not None), "TABLE_OUT": int(step.table_out is not None),
        "SCALED": int(step.factor != 1), "TURNED": "BY_TABLE" if step.level else "BY_PRODUCTS" if step.left else 0, "UP": int(step.up is not None),
        "DOWN": int(step.down is not None), **_macros_of_lanes(step),
    }  # fmt: skip


def _macros_of_lanes(step: FftStep) -> dict[str, object]:
    if not step.of_lanes:
        return {"HALVED": 0}
    return {
        "HALVED": int(step.halved), "TWO_IN": int(_beside(step, step.reads, step.begins)),
        "TWO_OUT": int(not step.halved and _beside(step, step.writes, step.to)), "UP_BESIDE": step.ups.column, "FALL": step.fall, "DROP": step.drop,
    }  # fmt: skip


def _beside(step: FftStep, lines: FftLines, places: Struct) -> bool:
    """Whether lanes are beside each other in memory, where 8 bytes begin."""
    apart, others = (
        (places.number, (places.column, places.block, places.batch))
        if step.halved
        else (places.column, (places.number, places.block, places.batch, step.columns))
    )
    return (
        lines.even
        and lines.kind == "PAIRS"
        and apart == 1
        and not step.is_short
        and not any(x % 2 for x in others)
    )
