"""Launch the kernels of running sums: of the rows of an array, in one pass over memory."""

from __future__ import annotations

import ctypes
import math
import threading
from dataclasses import dataclass

from tcu.errors import ParameterError
from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.functions import allow_shared, shared_memory_of
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.structs import Struct, constants, struct
from tcu.gpu.sums import ELEMENTS, TARGETS, compiled
from tcu.gpu.workspace import workspace
from tcu.plan.scan import ScanPlan

__all__ = ["ScanLaunch", "SegmentScanLaunch"]

_LANES, _LINES, _RADIX = 32, 16, 32
"""Groups of a line, lines of a chunk, and from there on totals of a run: as in the plan."""
_CHUNK = _LANES * _LINES
"""Groups of a block."""
_GROUP = 32
"""Bytes."""
_THREADS = 256
MAX_LEVELS = 6
"""Of chunks in a row: 32^6 of them are 2^44 bytes."""
LIMITS, LINES = constants(MAX_LEVELS=MAX_LEVELS), constants(LINES=_LINES)
BLOCK = constants(THREADS=_THREADS)
_MAX_SHARES = (1 << 31) - 1
"""Blocks of a grid."""
_SEGMENT_BLOCKS = 16
"""Blocks for each multiprocessor before one block takes several segments."""

_WARPS, _LINES_OF_ROW, _CHUNKS, _NARROW_CHUNKS = (0, 5, 2), (0, 4, 3), (4, 6, 2), (2, 4, 3)
"""Of cuda/kernels/scan.cu, (shares ahead, stages, blocks per multiprocessor) for rows of a warp, of a block and of several chunks,
the last where both the elements and the results have 16 bits.

The fastest on an H200 of those that leave the kernel its registers and 227 KB of shared memory; they change no bits.
"""
_BUFFERS, _SUMMING = 12, 4
"""Of cuda/kernels/long_scan.cu: chunks that a block has in shared memory, and warps that add up.

One to two more chunks take as long, and wide results leave no room for them (H200).  With 2 warps, 2^29 numbers of
binary16 take 15 % longer, with 8 all formats as long.
"""
_PIECE, _PIECES = (4, 1, 24), (4, 3, 17)
"""Of cuda/kernels/short_scan.cu: lines that a warp takes at a time, how many times it has room for them, and warps on a
multiprocessor; for rows of one piece, and of more.

A warp has one share, and the next one begins where memory is read and written anyway: 0.99 of a copy's speed on an
H200 for rows of one piece, 0.98 to 0.87 for those of 2 to 128.  Warps that went on with 80 shares, far from each other by
then, had 0.92, and 0.80 with more of them under way.
"""
_SHORT_CHUNKS, _EVEN = 32, 0.8
"""Of a row's chunks, the most whose totals a warp has; and the least share of a GPU's warps that is busy, where each has
one row after another."""


@struct()
class Slot(Struct):
    cuda = """
    u64 high, low;
    """


@struct()
class ScanCounters(Struct):
    cuda = """
    u32 launch, ticket, left, unused;
    """


@struct()
class Levels(Struct):
    cuda = """
    i64 count;  // levels: a row has at most 32^count chunks
    i64 chunks;  // in a row
    i64 first[MAX_LEVELS];  // the first slot of each level
    i64 runs[MAX_LEVELS];  // slots that a row has in each level
    """


@struct()
class Scan(Struct):
    cuda = """
    const void* data;
    void* out;
    i64 rows;
    i64 length;
    i64 stride;  // from row to row, in elements
    i64 out_stride;
    Slot* slots;
    ScanCounters* shared;
    Levels levels;
    i64 shares;  // pieces of work: chunks of all rows; or, of short rows, as many as a block or a warp takes at a time
    """


@struct()
class SegmentScan(Struct):
    cuda = """
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 per_block;
    """


_SLOT, _SHARED = ctypes.sizeof(Slot), ctypes.sizeof(ScanCounters)


class ScanLaunch:
    """The running sums of each row by the plan of one: everything but the addresses.

    ``stride_in`` and ``stride_out`` are the distances of rows in elements;
    ``aligned_in`` and ``aligned_out``: whether each row begins at a multiple
    of 16 bytes there.  Raises ParameterError for arrays beyond 2^31 chunks.
    """

    def __init__(
        self, plan: ScanPlan, rows: int, stride_in: int, stride_out: int, aligned_in: bool, aligned_out: bool,
        target: Format, gpu: Gpu, *, exclusive: bool, reverse: bool,
    ) -> None:  # fmt: skip
        size = get_format(plan.input).dtype.itemsize
        per_group = _GROUP // size
        groups = max(-(-plan.n // per_group), 1)
        chunks = -(-groups // _CHUNK)
        per_row = min(1 << (groups - 1).bit_length(), _CHUNK)
        aligned = aligned_in and aligned_out and (not reverse or plan.n % per_group == 0)
        shares = rows * chunks if chunks > 1 else -(-rows * per_row // _CHUNK)
        if shares > _MAX_SHARES:
            raise ParameterError(
                f"{rows} rows of {plan.n} numbers are more than one scan takes: scan fewer rows at a time"
            )
        self._gpu = gpu
        self._lock = threading.Lock()
        copied = aligned and gpu.compute_capability >= (9, 0)
        dense = stride_in == stride_out == plan.n == groups * per_group
        exact = plan.input == target.name == "binary16"
        alone = copied and exact and dense and _is_short(rows, groups, gpu)
        levels, self._slots = _levels(rows, chunks) if chunks > 1 and not alone else (Levels(), 0)
        if alone:
            way = _short_way(rows, groups)
        elif copied and chunks > 1 and _is_long(size, target.dtype.itemsize, gpu):
            way = _long_way(levels.count, shares, target.dtype.itemsize > size, gpu)
            self._slots = shares if levels.count == 1 else 2 * shares
        else:
            way = _any_way(per_row, chunks, shares, copied, size == target.dtype.itemsize == 2, gpu)
        function = compiled(
            way.source, way.source.removesuffix(".cu"), gpu.compute_capability, ELEMENTS[plan.input],
            "ALIGNED" if aligned else "SHIFTED",
            (("RESULT", TARGETS[target.name]), ("EXCLUSIVE", int(exclusive)), ("REVERSE", int(reverse)), *way.macros),
        )  # fmt: skip
        if way.shared:
            allow_shared(function, way.shared, gpu.ordinal)
        self._problem = Scan(0, 0, rows, plan.n, stride_in, stride_out, 0, 0, levels, way.shares)
        self._kernel = KernelLaunch(
            function, way.blocks, way.threads, self._problem, way.shared, cooperative=way.cooperative
        )

    def __call__(self, x: int, out: int, stream: int) -> None:
        """Put it on the stream, for rows from address x on and results from address ``out`` on."""
        shared = 0
        if self._slots:
            words = (_SHARED + _SLOT * self._slots) // 8
            shared = workspace("scan", self._gpu.ordinal, stream, 0, words).words_address
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            problem.data, problem.out = x, out
            problem.shared, problem.slots = shared, shared + _SHARED
            self._kernel(stream)


def _levels(rows: int, chunks: int) -> tuple[Levels, int]:
    """Where the totals of chunks, of runs of chunks and so on have their slots; and how many slots there are."""
    levels = Levels(0, chunks)
    slots, runs = 0, chunks
    while True:
        levels.first[levels.count], levels.runs[levels.count] = slots, runs
        levels.count += 1
        slots += rows * runs
        if runs <= _RADIX:
            return levels, slots
        runs = -(-runs // _RADIX)


@dataclass(frozen=True)
class _Way:
    """A kernel, how it is compiled and its grid."""

    source: str
    macros: tuple[tuple[str, int], ...]
    shares: int
    blocks: int
    threads: int
    shared: int
    """Bytes of shared memory of a block."""
    cooperative: bool = False
    """Whether blocks wait for each other, and so all run at the same time."""


def _any_way(per_row: int, chunks: int, shares: int, copied: bool, narrow: bool, gpu: Gpu) -> _Way:
    if chunks > 1:
        ahead, stages, resident = _NARROW_CHUNKS if narrow else _CHUNKS
    else:
        ahead, stages, resident = _LINES_OF_ROW if per_row > 2 * _LANES else _WARPS
    macros = (
        ("PER_ROW", per_row), ("CHUNKED", int(chunks > 1)), ("AHEAD", ahead), ("STAGES", stages),
        ("RESIDENT", resident),
    )  # fmt: skip
    shared = stages * (_CHUNK * _GROUP + 8 * _THREADS // _LANES) if copied else 0
    return _Way("scan.cu", macros, shares, min(shares, gpu.multiprocessors * resident), _THREADS, shared)


def _is_long(size: int, target_size: int, gpu: Gpu) -> bool:
    """Whether cuda/kernels/long_scan.cu has such results, of rows of several chunks, and room on the GPU, for two blocks at least."""
    if target_size not in (size, 2 * size) or gpu.multiprocessors < 2:
        return False
    return shared_memory_of(gpu) >= long_scan_bytes(wide=True)


def _long_way(levels: int, shares: int, wide: bool, gpu: Gpu) -> _Way:
    finding = int(levels > 1)  # a block that finds what comes before chunks of long rows
    macros = (("LEVELS", levels), ("BUFFERS", _BUFFERS), ("SUMMING", _SUMMING))
    threads = (_LINES + _SUMMING + 4) * _LANES
    blocks = min(shares + finding, gpu.multiprocessors)
    return _Way("long_scan.cu", macros, shares, blocks, threads, long_scan_bytes(wide), cooperative=True)


def _is_short(rows: int, groups: int, gpu: Gpu) -> bool:
    """Whether a warp for each of so many rows of whole groups is what cuda/kernels/short_scan.cu can do, and fast."""
    lines, _, resident = _PIECES
    if groups <= _CHUNK and groups & (groups - 1) == 0:
        return True
    waves = rows / (gpu.multiprocessors * resident)
    even = waves >= _EVEN * math.ceil(waves)
    return groups % (lines * _LANES) == 0 and groups <= _SHORT_CHUNKS * _CHUNK and even


def _short_way(rows: int, groups: int) -> _Way:
    lines, buffers, resident = _PIECE if groups <= _PIECE[0] * _LANES else _PIECES
    shares = -(-rows * groups // max(groups, lines * _LANES))
    macros = (("PER_ROW", groups), ("TOGETHER", lines), ("BUFFERS", buffers), ("RESIDENT", resident))
    return _Way("short_scan.cu", macros, shares, shares, _LANES, short_scan_bytes(lines, buffers))


def long_scan_bytes(wide: bool) -> int:
    """Shared memory of a block of cuda/kernels/long_scan.cu.

    That is for chunks, for what is known of their lines and of them, and for a line of results for each
    warp that scans, where they are wide.
    """
    results = _LINES * _LANES * 2 * _GROUP if wide else 16
    return _aligned(_BUFFERS * (_CHUNK * _GROUP + 8 * _LINES + 84)) + results


def short_scan_bytes(lines: int, buffers: int) -> int:
    """Shared memory of a warp of cuda/kernels/short_scan.cu."""
    return _aligned(buffers * (lines * _LANES * _GROUP + 8))


def _aligned(size: int) -> int:
    return -(-size // 16) * 16


class SegmentScanLaunch:
    """The running sums of the ragged segments of a line of ``n`` elements, each by the plan of its own length.

    A segment has one block at most, so a few long ones leave most of a GPU idle.
    """

    def __init__(
        self, n: int, segments: int, input_format: Format, target: Format, gpu: Gpu,
        *, exclusive: bool, reverse: bool,
    ) -> None:  # fmt: skip
        function = compiled(
            "segment_scan.cu", "segment_scan", gpu.compute_capability, ELEMENTS[input_format.name], "SHIFTED",
            (("RESULT", TARGETS[target.name]), ("EXCLUSIVE", int(exclusive)), ("REVERSE", int(reverse))),
        )  # fmt: skip
        per_block = max(1, min(_THREADS, segments // (gpu.multiprocessors * _SEGMENT_BLOCKS)))
        per_block = max(per_block, -(-segments // _MAX_SHARES))
        self._problem = SegmentScan(0, n, 0, segments, 0, per_block)
        self._kernel = KernelLaunch(function, max(-(-segments // per_block), 1), _THREADS, self._problem)
        self._lock = threading.Lock()

    def __call__(self, x: int, offsets: int, out: int, stream: int) -> None:
        """Put it on the stream; int64 offsets, one more than there are segments."""
        problem = self._problem
        with self._lock:  # the driver copies the parameters before the launch returns
            problem.data, problem.offsets, problem.out = x, offsets, out
            self._kernel(stream)
