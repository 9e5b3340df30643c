"""Launch the kernels of sums along an axis that is not the last, one for each column of an array."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.functions import allow_shared
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, compiled, loop_of
from tcu.plan import AddStep, MmaStep, Plan
from tcu.plan.plan import Step

__all__ = ["MOST_COLUMNS", "Columns", "ColumnsLaunch", "leaf_rows", "levels_of"]

MOST_COLUMNS = (1 << 32) - (1 << 12)
"""Of a launch, so that 32 bits number all that its blocks have room for."""
_MAX_LEVELS = 12
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
_THREADS, _THREADS_ALONG = 128, 256
"""Of a block, and of one whose eight warps share columns."""
_LOADS = {"ALIGNED": 16, "SHIFTED": 8}
"""Of a lane at a time, of 16-bit numbers: in rows of few numbers, those of several turns.  A vector that begins anywhere
is two loads."""
_TURNS, _WITHIN, _WITHIN_SLIM = 4, 4, 2
"""Of other numbers in slim rows, turns at a time; and levels of a lane's leaves, which are added up at once: of slim
rows, fewer where there are several turns."""
_ALONG_LEVELS = 3
"""Of the leaves that the eight warps of a block share where a warp for each column is not enough."""
_ENOUGH = 64
"""Warps per multiprocessor that keep memory busy, from the first wave of blocks to the last."""
_RESIDENT = 16
"""Warps per multiprocessor, of 16-bit numbers: with more, accumulators are kept in memory, and arrays of 4096 rows took
a third longer (sm_90)."""
_RESIDENT_WIDE = {4: 48, 8: 32}
_RESIDENT_LOOPS = 24
"""Of others, by the bytes that a lane loads at once, and where several turns need accumulators."""
_STAGED, _STAGES, _STAGED_RESIDENT, _STAGED_ALONG, _STAGED_THREADS, _SHARES, _STAGED_WAVES, _STAGED_UNROLL = (
    0,
    2,
    16,
    64,
    128,
    0,
    32,
    4,
)
_STAGED_WIDE, _STAGES_WIDE, _STAGED_WIDE_RESIDENT, _STAGED_WITHIN, _STAGED_WIDE_ALONG = 0, 3, 24, 4, 3
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


class _Columns(ctypes.Structure):
    """As in cuda/columns.cuh."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("outer_stride", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("pieces", ctypes.c_uint32),
        ("units", ctypes.c_uint32),
        ("inverse", ctypes.c_uint64),
        ("length", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("period", ctypes.c_int64),
        ("results", ctypes.c_int64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("target", ctypes.c_int64),
        ("distance", ctypes.c_int32 * _MAX_LEVELS),
    )


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
        self._passes = [
            _Pass(
                element, columns, plan.n, chunk, period, plan.parts[0].steps, aligned, gpu,
                double if several else target, 1 if several else divisor,
            )
        ]  # fmt: skip
        if several:
            totals = Columns(1, results, 0, results)
            self._passes.append(
                _Pass(double, totals, chunks, chunks, plan.block, plan.final, True, gpu, target, divisor)
            )

    def __call__(self, x: int, out: int, room: int, stream: int) -> None:
        """Put it on the stream, for numbers from address x on and results from address ``out`` on."""
        with self._lock:  # the driver copies the parameters before the launch returns
            first, *rest = self._passes
            first(x, room if rest else out, stream)
            for last in rest:
                last(room, out, stream)


class _Pass:
    """One launch: sums of every ``chunk`` rows by the steps of a plan, which begin anew after ``period`` rows."""

    def __init__(
        self, element: Format, columns: Columns, length: int, chunk: int, period: int, steps: Sequence[Step],
        aligned: bool, gpu: Gpu, target: Format, divisor: float,
    ) -> None:  # fmt: skip
        short, size = element.bits == 16, element.dtype.itemsize
        narrow = short and columns.inner <= LOAD // size and columns.stride == columns.inner
        jumps = columns.outer_stride * size, 0 if narrow else columns.stride * size
        # A row is loaded in pieces of eight bytes.
        halved = short and not narrow and any(step % LOAD for step in jumps)
        grain = LOAD // 2 if halved else LOAD
        shifted = short and not (aligned and all(step % grain == 0 for step in jumps))
        unit = columns.inner if narrow else LOAD // size if short else _LANE // size
        taken = -(-min(length, chunk) // period)  # turns of a chunk
        whole = aligned and columns.inner % unit == 0 and all(step % _LANE == 0 for step in jumps)
        slim = narrow or (not short and columns.inner * size <= _SLIM)
        if not short and not (whole and (slim or taken == 1)):
            unit = 1  # with accumulators besides, several columns of a lane have too few loads under way
        pieces = -(-columns.inner // unit)
        units, chunks = columns.outer * pieces, -(-length // chunk)
        levels = [rows for rows in levels_of(steps) if rows < length]
        # Lanes that would have no column take leaves, and so do those that would read what follows in a sector later.
        apart = columns.inner * size * leaf_rows(steps)  # bytes from leaf to leaf
        together = (_TOGETHER_SHORT if short else _TOGETHER) // apart if slim else 1
        spread = min(max(_UNITS[short] // units, together, 1).bit_length() - 1, len(levels), 3 if short else 5)
        # Half a leaf leaves half of the lanes to other units.
        halves = short and not narrow and length <= leaf_rows(steps) // 2
        warps = -(-units // (_UNITS[short] << halves >> spread))
        busy = warps * chunks >= _ENOUGH * gpu.multiprocessors
        along = _ALONG_LEVELS if len(levels) - spread >= _ALONG_LEVELS and not busy else 0
        own = len(levels) - spread - along
        uneven = int(period & (period - 1) != 0)
        layout = "SHIFTED" if shifted else "ALIGNED"
        turns = 1
        if slim:
            most = 1 << (_LOADS[layout] // unit).bit_length() - 1 if short else _TURNS
            turns = min(most, 1 << (taken - 1).bit_length())
        lanes: tuple[tuple[str, int], ...] = ()
        if not short:
            low, within = min(spread, _LOW), _WITHIN_SLIM if slim and taken > 1 else _WITHIN
            lanes = ("LOW", spread if uneven else low), ("MOST_WITHIN", within)
        loops = taken > turns
        # Shifted ones have no registers for it.
        piped = short and not narrow and not shifted and along == 0 and own <= _PIPED and units < _MAX_PIPED
        if (
            _STAGED and short and not (narrow or shifted or halved or spread or uneven)
            and gpu.compute_capability >= (9, 0) and units < _MAX_PIPED
        ):  # fmt: skip
            self._stage(
                element,
                columns,
                pieces,
                units,
                own,
                halves,
                loops,
                along,
                length,
                chunk,
                period,
                levels,
                divisor,
                target,
                gpu,
                chunks,
            )
            return
        rows16 = aligned and all(step * size % LOAD == 0 for step in (columns.stride, columns.outer_stride))
        if (
            _STAGED_WIDE and element.name == "binary32" and rows16 and columns.inner % 4 == 0 and not uneven
            and spread == 0 and gpu.compute_capability >= (9, 0) and len(levels) - along >= _STAGED_WITHIN
        ):  # fmt: skip
            if along and _STAGED_WIDE_ALONG > 3 and len(levels) - _STAGED_WIDE_ALONG >= _STAGED_WITHIN:
                along = _STAGED_WIDE_ALONG
            self._stage_wide(
                element,
                columns,
                taken > 1,
                along,
                length,
                chunk,
                period,
                levels,
                divisor,
                target,
                gpu,
                chunks,
            )
            return
        resident = _RESIDENT if short else _RESIDENT_LOOPS if taken > 1 else _RESIDENT_WIDE[unit * size]
        threads = _THREADS_ALONG if along else _THREADS
        function = compiled(
            "columns.cu", "columns", gpu.compute_capability, ELEMENTS[element.name], layout,
            (("GRAIN", LOAD if shifted else grain), ("COLUMNS", unit), ("NARROW", int(narrow)), ("SPREAD", spread),
             ("LEVELS", own), ("HALVES", int(halves)), ("LOOPS", int(loops)), ("TURNS", turns), ("UNEVEN", uneven),
             ("ALONG", 1 << along), ("PIPED", int(piped)), ("THREADS", threads),
             ("RESIDENT", resident // (threads // 32)), *lanes),
        )  # fmt: skip
        distance = (ctypes.c_int32 * _MAX_LEVELS)(*levels)
        self._problem = _Columns(
            0, columns.outer_stride, columns.stride, columns.inner, pieces, units,
            -(-(1 << 64) // pieces) % (1 << 64), length, chunk, period,
            columns.outer * columns.inner, 0, divisor, TARGETS[target.name], distance,
        )  # fmt: skip
        blocks = -(-warps // (threads // 32 >> along))
        if piped:
            blocks = min(blocks, gpu.multiprocessors * resident // (threads // 32) * _WAVES)
        self._kernel = KernelLaunch(function, blocks, threads, self._problem, more=chunks)

    def _stage_wide(self, element: Format, columns: Columns, loops: bool, along: int, length: int, chunk: int, period: int, levels: list[int], divisor: float, target: Format, gpu: Gpu, chunks: int) -> None:  # fmt: skip
        pieces = columns.inner // 4
        units = columns.outer * pieces
        groups = -(-units // 8)
        threads = max(_STAGED_THREADS, 32 << along)
        gaps = columns.stride != columns.inner or columns.outer_stride != columns.stride * length
        many = along == 0
        resident = max(_STAGED_WIDE_RESIDENT // (threads // 32), 1)
        shared = threads // 32 * _STAGES_WIDE * (128 << _STAGED_WITHIN)
        function = compiled(
            "staged_lanes.cu", "columns", gpu.compute_capability, ELEMENTS[element.name], "ALIGNED",
            (("PIECES", pieces if pieces in (2, 4) and not gaps else 8), ("LEVELS", len(levels) - along), ("WITHIN", _STAGED_WITHIN),
             ("LOOPS", int(loops)), ("ALONG", 1 << along),
             ("STAGES", _STAGES_WIDE), ("SHARES", _SHARES), ("MANY", int(many)), ("THREADS", threads), ("RESIDENT", resident)),
        )  # fmt: skip
        if shared > 48 << 10:
            allow_shared(function, shared, gpu.ordinal)
        self._problem = _Columns(
            0, columns.outer_stride, columns.stride, columns.inner, pieces, units,
            -(-(1 << 64) // pieces) % (1 << 64), length, chunk, period,
            columns.outer * columns.inner, 0, divisor, TARGETS[target.name], (ctypes.c_int32 * _MAX_LEVELS)(*levels),
        )  # fmt: skip
        blocks = -(-groups // (threads // 32 >> along))
        if many:
            blocks = min(blocks, gpu.multiprocessors * resident * _STAGED_WAVES)
        self._kernel = KernelLaunch(function, blocks, threads, self._problem, shared, more=chunks)

    def _stage(self, element: Format, columns: Columns, pieces: int, units: int, own: int, halves: bool, loops: bool, along: int, length: int, chunk: int, period: int, levels: list[int], divisor: float, target: Format, gpu: Gpu, chunks: int) -> None:  # fmt: skip
        own, along = own + along, 0
        per_warp = 16 if halves else 8
        groups = -(-units // per_warp)
        # Warps share columns where there are too few of those.
        while along < 3 and own > 0 and groups * chunks << along < _STAGED_ALONG * gpu.multiprocessors:
            along, own = along + 1, own - 1
        threads = max(_STAGED_THREADS, 32 << along)
        gaps = columns.stride != columns.inner or columns.outer_stride != columns.stride * length
        together = pieces if pieces in (2, 4, 8) and not gaps else per_warp
        many = along == 0
        resident = max(_STAGED_RESIDENT // (threads // 32), 1)
        shared = threads // 32 * _STAGES * 4096
        function = compiled(
            "staged_columns.cu", "columns", gpu.compute_capability, ELEMENTS[element.name], "ALIGNED",
            (("PIECES", together), ("LEVELS", own), ("HALVES", int(halves)), ("LOOPS", int(loops)), ("ALONG", 1 << along),
             ("STAGES", _STAGES), ("UNROLL", _STAGED_UNROLL), ("SHARES", _SHARES), ("MANY", int(many)), ("THREADS", threads), ("RESIDENT", resident)),
        )  # fmt: skip
        if shared > 48 << 10:
            allow_shared(function, shared, gpu.ordinal)
        self._problem = _Columns(
            0, columns.outer_stride, columns.stride, columns.inner, pieces, units,
            -(-(1 << 64) // pieces) % (1 << 64), length, chunk, period,
            columns.outer * columns.inner, 0, divisor, TARGETS[target.name], (ctypes.c_int32 * _MAX_LEVELS)(*levels),
        )  # fmt: skip
        blocks = -(-groups // (threads // 32 >> along))
        if many:
            blocks = min(blocks, gpu.multiprocessors * resident * _STAGED_WAVES)
        self._kernel = KernelLaunch(function, blocks, threads, self._problem, shared, more=chunks)

    def __call__(self, x: int, out: int, stream: int) -> None:
        self._problem.data, self._problem.out = x, out
        self._kernel(stream)


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
