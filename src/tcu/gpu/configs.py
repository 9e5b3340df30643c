"""Launch configurations: what may be tuned of every kernel, and what was measured for the values that are in use.

They change speed, never bits.  Values are rows of tuning.json, by compute capability, kernel, format of the elements and,
where a kernel has them, size; :mod:`tcu.gpu.tuning` reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from tcu.errors import ParameterError
from tcu.gpu.structs import constants

__all__ = [
    "ELEMENTS", "KERNELS", "MEASURED", "SIZES", "ColumnScanConfig", "ColumnsConfig", "Config", "ExactColumnsConfig", "ExactConfig", "ExactRowsConfig", "ExactSegmentsConfig", "NarrowColumnsConfig", "RowsConfig",
    "ScanConfig", "SegmentScanConfig", "SegmentsConfig", "ShortSegmentsConfig", "Size", "StagedColumnsConfig", "SumConfig", "WideColumnsConfig",
]  # fmt: skip

ELEMENTS = ("binary16", "bfloat16", "binary32", "binary64")
_NARROW, _WIDE = ELEMENTS[:2], ELEMENTS[2:]
BLOCK = 256
"""Threads of a block whose sum has been tuned: B of tcu's own variants and of dot products, unless given."""
_MAX_LOADS = 128
"""Of a thread in a chunk of an exact sum."""
LIMITS = constants(MAX_LOADS=_MAX_LOADS)
_MAX_THREADS = 1024
Size = Literal["tiny", "small", "large", "any"]
"""Small: all blocks run at once.  Any: the kernel has one configuration for all sizes."""
SIZES: tuple[Size, ...] = ("tiny", "small", "large")


@dataclass(frozen=True)
class Config:
    """Of one kernel, for one format of the elements."""

    elements: ClassVar[tuple[str, ...]] = ELEMENTS
    sizes: ClassVar[tuple[Size, ...]] = ("any",)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            for each in _numbers(value):
                if isinstance(each, bool) or not isinstance(each, int | float) or each < 0:
                    raise ParameterError(f"{name} = {value!r}: choose numbers from 0")

    @classmethod
    def of(cls, values: dict[str, Any]) -> Config:
        """From what a file holds.  Raises ParameterError."""
        wanted = [field.name for field in fields(cls)]
        if sorted(values) != sorted(wanted):
            raise ParameterError(
                f"a configuration has {', '.join(values) or 'nothing'} in place of {', '.join(wanted)}"
            )
        return cls(**{name: _tuples(each) for name, each in values.items()})

    @property
    def compiled(self) -> tuple[object, ...]:
        """What of it makes a kernel of its own."""
        return tuple(vars(self).values())

    @classmethod
    def candidates(cls, size: Size, threads: int, quick: bool) -> list[Config]:
        """Those to try on a GPU whose multiprocessors run that many threads; none where nobody has said which."""
        return []


def _numbers(value: object) -> Iterator[object]:
    if not isinstance(value, tuple):
        yield value
        return
    for each in value:
        yield from _numbers(each)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


def _check_unroll_and_resident(unroll: object, resident: object) -> None:
    if not _whole(unroll) or unroll not in (1, 2, 4, 8):
        raise ParameterError(f"unroll = {unroll!r}: choose 1, 2, 4 or 8")
    if not isinstance(resident, int) or not _whole(resident) or not 1 <= resident <= 16:
        raise ParameterError(f"resident = {resident!r}: choose a whole number from 1 to 16")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class SumConfig(Config):
    """How cuda/kernels/sum.cu is compiled."""

    sizes = SIZES
    unroll: int
    """Loads of a thread in flight: 1, 2, 4 or 8."""
    resident: int
    """Blocks per multiprocessor that the registers must allow: 1 to 16."""

    def __post_init__(self) -> None:
        _check_unroll_and_resident(self.unroll, self.resident)

    @classmethod
    def candidates(cls, size: Size, threads: int, quick: bool) -> list[Config]:
        unrolls, residents = ((4, 8), (4, 8)) if quick else ((2, 4, 8), (2, 3, 4, 5, 6, 8))
        return [cls(*each) for each in itertools.product(unrolls, residents) if each[1] * BLOCK <= threads]


@dataclass(frozen=True)
class ExactConfig(Config):
    """How cuda/kernels/exact.cu is compiled and launched."""

    sizes = SIZES
    threads: int
    """Of a block."""
    unroll: int
    resident: int
    loads: int
    """Loads of a thread in a chunk, at most 128; fewer where the array is small."""

    @property
    def compiled(self) -> tuple[object, ...]:
        return self.threads, self.unroll, self.resident

    def __post_init__(self) -> None:
        _check_unroll_and_resident(self.unroll, self.resident)
        if not _whole(self.threads) or self.threads % 32 or not 32 <= self.threads <= _MAX_THREADS:
            raise ParameterError(
                f"threads = {self.threads!r}: choose a multiple of 32, the threads of a warp, up to {_MAX_THREADS}"
            )
        if not _whole(self.loads) or not 1 <= self.loads <= _MAX_LOADS or self.loads & (self.loads - 1):
            raise ParameterError(f"loads = {self.loads!r}: choose a power of two up to {_MAX_LOADS}")
        if self.loads % self.unroll:
            raise ParameterError(
                f"loads = {self.loads}: choose a multiple of unroll = {self.unroll}, which are loaded together"
            )

    @classmethod
    def candidates(cls, size: Size, threads: int, quick: bool) -> list[Config]:
        # So many threads that each has 128, 85 or 64 registers.  The launch shortens the chunks of small arrays
        # by itself, so `loads` makes no difference to them.
        blocks = [(256, 3), (256, 4)] if quick else [
            (128, 4), (128, 6), (128, 8), (256, 2), (256, 3), (256, 4), (512, 1), (512, 2)
        ]  # fmt: skip
        loads = (32, 64, 128) if size == "large" and not quick else (64,)
        return [
            cls(width, unroll, resident, each)
            for (width, resident), unroll, each in itertools.product(blocks, (4, 8), loads)
            if width * resident <= threads
        ]


@dataclass(frozen=True)
class RowsConfig(Config):
    """Of cuda/kernels/rows.cu and packed_rows.cu."""

    short: tuple[int, int]
    """Blocks per multiprocessor, of aligned rows and of others, as many as leave the accumulators in registers (sm_90):
    for rows of fewer loads than eight warps have at a time;"""
    eight_tiles: tuple[int, int]
    """for rows of so many;"""
    two_turns: tuple[int, int]
    """of up to twice as many;"""
    turns: tuple[int, int]
    """of more."""
    enough: int
    """Rows from which on a warp for each, however long, keeps a GPU busy; fewer long rows have blocks of their own."""
    in_flight: int
    """Loads of a thread before it waits."""
    packed_resident: tuple[int, int]
    """Of packed_rows.cu: as many blocks, each a warp, as have room for their rings, or for the accumulators of eight tiles.
    With four warps a block, which leave together, rows of 16 numbers had 5 % less speed (H200)."""
    share: tuple[int, int]
    """Bytes of rows of a warp, about, and of rows that have up to four lanes: enough to forget its start, and little enough
    that what is read at a time lies together.  With 2^16, rows of 3 to 999 numbers had 4 to 6 % less speed (H200)."""
    few_lanes: int
    """Lanes of a row up to which rows without gaps are read through a ring, even aligned ones: 0.91 of reading alone in
    place of 0.90 (H200)."""


@dataclass(frozen=True)
class ColumnsConfig(Config):
    """Of cuda/kernels/columns.cu."""

    threads: int
    """Of a block whose warps share no columns."""
    together: int
    """Bytes of the neighbouring rows that lanes which share a column read: of rows of 16 bytes at most without gaps, of 16-bit
    numbers; of slim ones, of others."""
    along_levels: int
    """Levels of the leaves that the warps of a block share where a warp for each column is not enough."""
    enough: int
    """Warps per multiprocessor that keep memory busy, from the first wave of blocks to the last."""


@dataclass(frozen=True)
class NarrowColumnsConfig(ColumnsConfig):
    """The same for 16-bit numbers."""

    elements = _NARROW
    loads: tuple[int, int]
    """Of a lane at a time, of aligned rows and of others: in rows of few numbers, those of several turns.  A vector that
    begins anywhere is two loads."""
    resident: int
    """Warps per multiprocessor: with more, accumulators are kept in memory, and arrays of 4096 rows took a third longer
    (sm_90)."""
    piped: int
    """Levels up to which a warp, of whose columns none keeps it for long, goes on with others.  With more, numbers that wait
    are kept in memory."""
    waves: int
    """Of blocks whose warps have many columns, one after another: so many that none keeps all others waiting."""


@dataclass(frozen=True)
class WideColumnsConfig(ColumnsConfig):
    """The same for numbers of more than 16 bits."""

    elements = _WIDE
    slim: int
    """Bytes of a row up to which lanes that share a column read neighbouring rows.  With 32, the bytes of a sector, rows of
    two numbers of binary32 had half the speed (H200)."""
    low: int
    """Levels of neighbouring rows that lanes share; of those above they share what a lane's own levels leave.  With all of
    them side by side, a lane reads rows that lie far apart."""
    least: int
    """Of these levels, however few rows a column has.  With two, 16 rows of 16 numbers of binary32 had 0.62 of memory's rate
    in place of 0.86 (H200)."""
    turns: tuple[int, int]
    """At a time, of rows that are not slim and of slim ones, with one column for a lane.  Two in place of one: 2^12 rows of
    binary32 had 0.93 in place of 0.91 of memory's rate, 2^15 rows 0.96 in place of 0.91 (H200)."""
    within: tuple[int, int]
    """Levels of a lane's leaves, which are added up at once, where there are several turns; of the same rows."""
    within_one: int
    """The same where there is one turn."""
    paired: tuple[int, int, int]
    """Bytes of a row from which on a lane has two columns, of one turn, of up to four and of more: 2^20 rows of 2 KB had 0.90
    in place of 0.93 of memory's rate then, and 2^12 of 128 bytes 0.89 in place of 0.95, but 2^18 rows of 8 KB 0.944 in place
    of 0.934 (H200)."""
    paired_turns: int
    """The turns at a time where a lane has two columns that are not slim and have several turns."""
    paired_loads: int
    """What a lane asks for at once then, of all turns together.  With one column for a lane, and 32 loads under way, 2^12 rows
    of binary32 had 0.93 in place of 0.97 of memory's rate; with 16 and 4 loads, or 24 and 40 warps, 0.90 at most (H200)."""
    paired_resident: int
    """Warps per multiprocessor then."""
    resident: tuple[int, int]
    """Warps per multiprocessor of one turn, where a lane has one column and where it has two."""
    resident_loops: tuple[int, int]
    """Where several turns need accumulators, of rows that are not slim and of slim ones.  With 32 of those that load 8 bytes,
    256 and 1024 rows of 16 numbers of binary32 had 0.83 and 0.81 of memory's rate in place of 0.93 (H200)."""


@dataclass(frozen=True)
class StagedColumnsConfig(Config):
    """Of cuda/kernels/staged_columns.cu, whose 16-bit numbers go through shared memory."""

    elements = _NARROW
    threads: int
    resident: int
    """Warps per multiprocessor."""
    enough: int
    """Warps per multiprocessor that keep memory busy."""
    stages: int
    """Tiles that a warp has room for."""
    turns: int
    """Of a column, up to which that is worth it: 4096 rows, two turns, had 0.94 of memory's rate in place of 0.91, but 8192
    rows 0.81 in place of 0.92, 16,384 rows 0.80 in place of 0.94, and 2^20 rows 0.81 in place of 0.95 (H200)."""
    line: int
    """Bytes of a row that are worth a way through shared memory: 64 rows of 32 bytes had 0.93 of memory's rate in place of
    0.87 (H200)."""
    kept: float
    """Of the second cache, what results of binary32 may have to stay there, beside numbers that do not
    (cuda/device/load/evict_first.cuh)."""
    waves: int
    """As of :class:`NarrowColumnsConfig`."""


@dataclass(frozen=True)
class SegmentsConfig(Config):
    """Of cuda/kernels/segments.cu, and of long_chunks.cu and list_segments.cu around it."""

    data: int
    """Bytes of data and offsets that a warp goes through: enough to forget its start, and little enough that the last warps
    do not keep all others waiting.  H200, 2^28 numbers of binary32, 48 KiB in place of 128: segments of 100 numbers on average
    3.50 in place of 3.34 TB/s, of 1000 3.27 in place of 3.32."""
    most_per_warp: int
    """Segments that a warp goes through at most, however short."""
    at_once: tuple[int, int]
    """The least and the most segments that a warp takes at a time: few where they are long, so that many warps have some."""
    busy: int
    """Warps that keep a GPU busy: with fewer segments, each has fewer of them."""
    more: int
    """How many times as many segments the first warps have, which forget their starts."""
    last: float
    """What the other warps have of all, which do not keep each other waiting at the end."""
    with_rests: int
    """The average bytes of a segment from which on its last, partial 64-byte chunk is taken together with its whole ones.
    Below that, the partial chunks of a group of segments have a turn of their own; and of binary32 and binary64, a lane has a
    segment to itself.

    H200, together and in a turn of their own, of memory's speed: binary32, means of 24, 32 and 40 numbers 0.600 and 0.707,
    0.624 and 0.641, 0.615 and 0.548; bfloat16, 40, 64 and 100 numbers 0.645 and 0.729, 0.746 and 0.842, 0.766 and 0.793;
    binary64, 16 and 20 numbers 2.76 and 2.92, 2.90 and 2.63 TB/s."""
    ring: tuple[int, int]
    """Bytes of a copy into a warp's ring in shared memory, and copies that have room there.

    With smaller rings more warps have room beside those that add up long segments, and less is asked for that these read
    again; with too small ones warps wait for copies.  H200, binary16, 4 copies of 1792, 1664, 1536 and 1408 bytes, of memory's
    speed: a power law 0.854, 0.857, 0.858 and 0.860; segments of 64 numbers on average 0.875, 0.871, 0.863 and 0.848, of 100
    numbers 0.847, 0.835, 0.824 and 0.814."""
    resident: int
    """As many blocks, each a warp, per multiprocessor as have registers and shared memory (sm_90)."""
    room: int
    """Numbers that a warp keeps in shared memory, one or four of every 64 bytes: few, so that all blocks have room."""
    long_threads: int
    """Of long_chunks.cu."""
    long_resident: int
    """As many of its blocks as leave every thread its registers."""
    early: int
    """Of these, those for each multiprocessor that are beside short segments (a power law of binary16, H200: with three 0.844,
    with four 0.853, with five, of which each has a ring of 11 KB, 0.814 of memory's speed)."""
    long_ring: tuple[int, int]
    """Bytes of a copy and copies, of long_chunks.cu (sm_90)."""
    listed: int
    """Bytes from which on long segments may be listed ahead: of less, the launches that this takes would be much."""
    sampled: int
    """Segments from which on a sample of them, a thread's each, says whether that is worth it."""
    list_threads: int
    """Of list_segments.cu."""
    list_resident: int
    """As many of its blocks as leave every thread its registers."""
    listing: int
    """Of these, those for each multiprocessor, which leave room for the launches behind it: with two, these began 11 us later
    (H200)."""


@dataclass(frozen=True)
class ShortSegmentsConfig(Config):
    """Of cuda/kernels/short_segments.cu."""

    elements = ("binary16", "bfloat16", "binary32")
    means: tuple[int, int]
    """Numbers of a segment, on average, up to which a ring of the first size, and of the second one, nearly always has room
    for the segments of a turn.  Up to the second, this is the faster kernel: for 16, 20 and 24 of them 0.582, 0.571 and 0.563
    of memory's speed, and segments.cu 0.475, 0.550 and 0.617 (H200)."""
    per_lane: tuple[int, int]
    """Numbers of a lane in a window."""
    rings: tuple[int, int]
    """Numbers of such rings.  Of binary32, segments of 1 and 4 numbers on average were read at 2.84 and 2.97 TB/s with rings of
    1024, and at 3.34 and 3.50 with rings of 512; by segments.cu at 1.85 and 2.54 (H200)."""
    resident: tuple[int, int]
    """As many warps as leave each its registers and its shared memory (sm_90)."""
    data: int
    most_per_warp: int
    """As of :class:`SegmentsConfig`; here warps work ahead of what they need."""


@dataclass(frozen=True)
class ExactSegmentsConfig(Config):
    """Of cuda/kernels/exact_segments.cu and long_exact_segments.cu."""

    mean: int
    """Bytes of a segment, on average, up to which the first of the next three is the faster one."""
    tiles: tuple[int, int]
    """Loads of a lane in a window."""
    windows: tuple[int, int]
    """Of a warp that have room in shared memory."""
    resident: tuple[int, int]
    data: int
    """Bytes that a warp goes through, with its offsets and results."""
    most_per_warp: int
    """Segments of a warp."""
    full: int
    """Times as many warps as run at once that keep a GPU busy to its end; with fewer, a warp has fewer segments."""
    long: int
    """Bytes of the longest segment that is left to one warp."""
    long_tiles: int
    """Loads of a lane at a time, of long_exact_segments.cu."""
    long_resident: int
    """Of long_exact_segments.cu."""


@dataclass(frozen=True)
class ExactRowsConfig(Config):
    """Of cuda/kernels/exact_rows.cu, exact_short_rows.cu and exact_tile_rows.cu."""

    tiles: int
    """Loads of a lane at a time, at most."""
    resident: int
    ahead: int
    """1: a warp asks for its next loads before it adds up the present ones."""
    full: int
    """Times as many warps as run at once that keep a GPU busy to its end; with fewer, a warp has fewer rows."""
    least_part: int
    """Bytes of a part of a row that a warp is worth."""
    dense: int
    """Numbers of a row from which on a lane has neighbouring rows, if these lie one after another."""
    dense_up_to: tuple[int, int, int]
    """The most of them that leave a lane its registers with three, two blocks and one block per multiprocessor."""
    short_loads: int
    """Of a lane that has whole rows, at a time."""
    short_resident: int
    tile: tuple[int, int, int, int, int]
    """Of exact_tile_rows.cu: bytes of a warp's rows, warps on a multiprocessor, the least numbers of a row, the most of one that
    begins at a multiple of 16 bytes as all do, and the most of others."""


@dataclass(frozen=True)
class ExactColumnsConfig(Config):
    """Of cuda/kernels/exact_columns.cu."""

    loads: int
    """Of a lane in flight, where each has 16 bytes; of shorter ones, up to twice as many."""
    resident: int
    full: int
    """Times as many blocks as run at once that keep a GPU busy to its end; with fewer, threads share columns."""
    shifted: int
    """Bytes that all rows' beginnings have in common, up to which lanes load 16 bytes wherever rows begin."""
    least: int
    """Rows from which on they do."""
    tile: tuple[int, int]
    """Of exact_tile_columns.cu: the most bytes of a warp's numbers, and warps on a multiprocessor."""


@dataclass(frozen=True)
class ScanConfig(Config):
    """Of cuda/kernels/scan.cu, long_scan.cu, short_scan.cu and tile_scan.cu."""

    warps: tuple[int, int, int]
    """(shares ahead, stages, blocks per multiprocessor) of scan.cu for rows of a warp: like the next three the fastest on an
    H200 of those that leave the kernel its registers and 227 KB of shared memory."""
    lines: tuple[int, int, int]
    """For rows of a block."""
    chunks: tuple[int, int, int]
    """For rows of several chunks."""
    narrow_chunks: tuple[int, int, int]
    """The same where both the elements and the results have 16 bits."""
    buffers: int
    """Of long_scan.cu: chunks that a block has in shared memory.  One to two more take as long, and wide results leave no
    room for them (H200)."""
    summing: int
    """Warps of long_scan.cu that add up.  With 2, 2^29 numbers of binary16 take 15 % longer.  With 4 in place of 8, rows of
    65,000 numbers of bfloat16 have 0.73 in place of 0.85 of a copy's speed, and rows of 2^20 + 1, which begin anywhere, 0.55
    in place of 0.68 (binary16 0.56 and 0.73, binary32 0.80 and 0.87); all others are as fast (H200)."""
    piece: tuple[int, int, int]
    """Of short_scan.cu: lines that a warp takes at a time, how many times it has room for them, and warps on a
    multiprocessor; for rows of one piece.

    A warp has one share, and the next one begins where memory is read and written anyway: 0.99 of a copy's speed on an H200
    for rows of one piece, 0.98 to 0.87 for those of 2 to 128.  Warps that went on with 80 shares, far from each other by then,
    had 0.92, and 0.80 with more of them under way."""
    pieces: tuple[int, int, int]
    """For rows of more."""
    short_chunks: int
    """Of a row's chunks, the most whose totals a warp has."""
    even: float
    """The least share of a GPU's warps that is busy, where each has one row after another."""
    tile: tuple[int, int, int, int]
    """Of tile_scan.cu: bytes of rows that a block takes, its most shared memory, warps on a multiprocessor, and the most warps of
    a block.

    Shares of a copy's speed (H200): rows of 999 numbers of bfloat16 0.91, 0.93 and 0.92 with 4, 6 and 8 KiB.  Rows of 9001 and
    15,001 numbers of binary32 0.95 and 0.86 with twelve warps, 0.95 and 0.74 with eight, and by long_scan.cu 0.70 and 0.82.  With
    more than 36 warps too few registers are left: 0.63 in place of 0.96.  Of 16-bit numbers, rows of 60 KB have 0.63, and 0.66 by
    long_scan.cu."""
    few_lines: int
    """Lines of a row that a block of tile_scan.cu finishes as early as one of scan.cu, however few rows there are."""
    many: int
    """Tiles for each multiprocessor from which on it takes longer rows, too: 264 rows of 3,000 numbers of binary32 take 7.4 us
    with a warp each and 5.3 with a block each, 528 of them 8.1 and 9.1 (H200)."""


@dataclass(frozen=True)
class SegmentScanConfig(Config):
    """Of cuda/kernels/segment_tiles.cu and segment_chunks.cu; and of segment_scan.cu, for older GPUs."""

    mean: int
    """Bytes of a segment on average from which on the second of the next three is chosen."""
    tile: tuple[int, int]
    """Bytes of segments that a warp has room for; a longer segment is left to segment_chunks.cu."""
    data: tuple[int, int]
    """Bytes of the segments that a warp has."""
    resident: tuple[int, int]
    """Warps on a multiprocessor.  With 28 and windows of 6 KiB, binary64 of 4 numbers on average 3.9 in place of 3.6 TB/s with
    24 and 8 KiB, binary32 3.0 in place of 3.2 (H200)."""
    most_per_warp: int
    """Segments that a warp has at most, however short."""
    busy: int
    """Warps for each multiprocessor that keep a GPU busy: with fewer segments, each has fewer of them."""
    chunks: tuple[int, int, int]
    """Of segment_chunks.cu: threads of a block, chunks that a block has room for, and blocks on a multiprocessor.  With two
    warps that scan in place of four, segments of 20,000 numbers of binary32 on average 2.35 in place of 2.03 TB/s, of
    binary16 1.47 in place of 1.99 (H200)."""
    blocks: int
    """Of segment_scan.cu for each multiprocessor before one block takes several segments."""


@dataclass(frozen=True)
class ColumnScanConfig(Config):
    """Of cuda/kernels/column_walk.cu and column_scan.cu."""

    walks: tuple[tuple[int, int, int, int, float], ...]
    """Of column_walk.cu, the first for most columns: bytes of a row that a lane has, groups of the plan that a warp has room for,
    warps that share columns, blocks per multiprocessor that the registers must allow, and blocks per multiprocessor from which
    on it is chosen.  Shares of a copy's speed (H200, binary16, bfloat16, binary32, binary64): 1000 x 512 KB 0.94, 0.94, 0.92, 0.93;
    256 x 512 x 2 KB 0.87, 0.94, 0.94, 0.95; 8192 x 64 KB 0.94, 0.92, 0.96, 0.91; 8192 x 32 KB 0.88, 0.84, 0.91, 0.88; 2^14 x 16 KB
    0.79, 0.70, 0.89, and binary64 by column_look_back.cu 0.77.  With a warp for each strip, 8192 x 32 KB has 0.30, 0.29, 0.21, 0.22;
    by column_scan.cu 2^14 x 16 KB had 0.47, 0.42, 0.49, 0.53.  With 4 bytes 1000 x 512 KB of binary16 has 0.82, with 16 bytes it had 0.74."""
    short_walk: tuple[int, int, int, int, float]
    """For columns of one group: 16 x 2^24 numbers of binary16 0.94 to 0.98, by column_scan.cu 0.84."""
    walks_anywhere: tuple[tuple[int, int, int, int, float], ...]
    """Where rows begin anywhere, and a lane has numbers that lie apart.  999 x 512 KB has 0.55, 0.57, 0.80, 0.79, with one number to a
    lane 0.36, 0.39, and by column_scan.cu binary32 0.51; 8190 x 64 KB 0.62, 0.56, 0.72, 0.78; 256 x 513 x 2055 bytes 0.64, 0.56,
    0.71, 0.77: sectors of memory that two strips share are written in parts."""
    walks_in_place: tuple[tuple[int, int, int, int, float], ...]
    """The same where results begin where their numbers do in 16 bytes, and sectors are written whole.  Shares of a copy's speed (H200;
    binary16, bfloat16, binary32, binary64): 1000 x 1 MB 0.76, 0.74, 0.81, 0.82; slabs of 555 x 3333 numbers 0.75, 0.77, 0.86, 0.91,
    which had 0.51, 0.60, 0.74, 0.84; of 2000 x 1111 0.57, 0.58, 0.76, 0.81, which had 0.47, 0.47, 0.65, 0.67."""
    short_walk_anywhere: tuple[int, int, int, int, float]
    """The same for columns of one group: 16 x 32 MB of binary16 has 0.70, by column_scan.cu 0.49."""
    look_back: tuple[int, int, int, int, int]
    """Of column_look_back.cu: bytes of a row of a strip, groups of a thread, tiles that are added up before the results of one are written, tiles that
    a block has room for, and blocks per multiprocessor."""
    look_back_anywhere: tuple[int, int, int, int, int]
    """The same where rows begin anywhere: 2^17 x 2055 bytes 0.47, 0.41, 0.57, 0.58."""
    busy: float
    """Blocks that it must keep busy, of those that there is room for."""
    tile: int
    """Of column_scan.cu: bytes."""
    few_runs: tuple[int, int, int, int]
    """Threads of a block, tiles that it has room for, blocks per multiprocessor, and tiles that it adds up before it writes
    the results of one; for columns of up to 16 runs.  Of these configurations, (512, 2, 3, 0) and (256, 3, 2, 1) have, of a copy's
    speed (H200): 8192 x 32768 numbers of binary16 0.50 and 0.45, of binary32 0.53 and 0.42; 2^20 x 256 of them 0.18 and 0.37,
    0.27 and 0.39.  The floor is a copy: in half of the time, blocks wait at their barriers and too little is read."""
    many_runs: tuple[int, int, int, int]
    """For longer ones, which wait more for each other.  A block that holds further tiles while it waits keeps those waiting
    that need their totals: 2^20 x 256 numbers of binary16 had 0.44 of a copy's speed with one tile, 0.38 with three of which
    one is added up ahead, and 0.18 with two (H200)."""
    many_runs_anywhere: tuple[int, int, int, int]
    """The same where rows begin anywhere.  2^18 x 1027 numbers of bfloat16 had 0.13 with (128, 1, 5, 0), and 0.26 with (512, 1, 2, 0)."""
    line: int
    """Bytes of a row that are read together, at least, where a row has so many."""
    waste: float
    """Columns that a tile has room for, of those that there are, for a part to be as wide as it can."""


@dataclass(frozen=True)
class SlabScanConfig(Config):
    """Of cuda/kernels/slab_scan.cu."""

    tile_bytes: int
    """Bytes of numbers, as far as they make whole groups.  Of 2, 4, 8 and 16 KB, binary16 of 8192 x 2^15 x 2 has 0.89, 0.93, 0.92, 0.88 of
    a copy's speed, and binary32 0.91, 0.92, 0.92, 0.81 (H100); rows of 8 numbers have 0.03 more with 8 than with 4 KB."""
    least_groups: int
    """Of a tile, however long rows are: rows of 100 numbers of bfloat16 have 0.93 with four and 0.87 with eight."""
    stages: int
    """Tiles that a block has room for, where a slab has so many.  With three fewer blocks have room, and most are slower."""
    threads: int
    """Of a block, at most."""
    threads_resident: int
    """Per multiprocessor that the registers must allow, at most."""
    many: int
    """Blocks per multiprocessor that there must be for a block to have more than one slab."""
    enough: float
    """Blocks per multiprocessor from which on each takes the tiles of its slabs one after another."""
    few: int
    """Tiles that a block takes one after another in any case."""
    turns: int
    """Blocks per place of a multiprocessor where there are two passes."""
    strip: int
    """Bytes: where rows are multiples of it, and begin at multiples of 16 bytes, the kernels of wide rows are as fast."""
    row_twice: int
    """Bytes of a row up to which there are two passes."""
    walk: tuple[int, int, int, int]
    """Of slab_walk.cu: columns at most, turns of a slab at least, bytes per multiprocessor that are on their way, and groups of a
    lane at most where it has one column.  Shares of a copy's speed (H200; binary16, bfloat16, binary32, binary64): 5368 x 1000 x
    100 0.85, 0.84, 0.85, 0.88, by slab_scan.cu 0.78, 0.66, 0.87, 0.84; 1789 x 100,000 x 3 0.61, 0.58, 0.76, by slab_scan.cu 0.59,
    0.51, 0.72; 777 x 7 0.84, 0.78, 0.91, 0.89, by slab_scan.cu 0.38, 0.34, 0.60, 0.73.  With 48 KiB on their way in place of 24,
    5368 x 1000 x 100 have 0.83 (binary16) and 0.85 (binary64)."""
    walk_resident: tuple[int, int, int]
    """Warps per multiprocessor that its registers must allow: where a lane has one column, up to four, and more.  5368 x 1000 x
    100 numbers of bfloat16 have 0.84 of a copy's speed with 12, 0.72 with 20; 1789 x 100,000 x 3 have 0.50 and 0.58."""
    walk_least: tuple[int, int, int]
    """Slabs per multiprocessor from which on each has a warp, in the same cases."""


KERNELS: dict[str, type[Config]] = {
    "sum": SumConfig, "dot": SumConfig, "exact": ExactConfig, "rows": RowsConfig, "narrow columns": NarrowColumnsConfig,
    "wide columns": WideColumnsConfig, "staged columns": StagedColumnsConfig, "segments": SegmentsConfig,
    "short segments": ShortSegmentsConfig, "exact segments": ExactSegmentsConfig, "exact rows": ExactRowsConfig,
    "exact columns": ExactColumnsConfig, "scan": ScanConfig, "segment scan": SegmentScanConfig, "column scan": ColumnScanConfig,
    "slab scan": SlabScanConfig,
}  # fmt: skip
"""Sums (16-bit elements by MMAs, others by binary64 additions), products, exact sums; those of rows, columns and segments;
running sums."""
MEASURED = ("sum", "dot", "exact")
"""Those that ``tcu tune`` measures; the others have what was measured by hand."""
