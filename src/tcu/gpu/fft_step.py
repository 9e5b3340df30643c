"""What a pass of fast Fourier transforms is: where everything lies, and what is done besides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from tcu.formats import get_format
from tcu.gpu.launch import ROOM, Given
from tcu.gpu.structs import Struct, struct
from tcu.gpu.tables import DeviceTable
from tcu.plan.fft import Pass

__all__ = ["FftLines", "FftPlaces", "FftStep", "Room", "SourceKind", "pair_bytes"]


def pair_bytes(format: str) -> int:
    """Of a complex number whose parts have that format."""
    return 2 * get_format(format).dtype.itemsize


FftPlaces = struct("FftPlaces", """
    i64 batch;   // from one to the next
    i64 block;
    i64 column;
    i64 number;  // of a column
""")  # fmt: skip


SourceKind = Literal["PAIRS", "REALS", "NEIGHBOURS", "HERMITIAN", "HALVES"]
"""As in device/fourier/passes.cuh."""


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
