"""Launch the kernels of sums along an axis that is not the last, one for each column of an array."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import NamedTuple

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS, compiled, loop_of
from tcu.plan import AddStep, MmaStep, Plan
from tcu.plan.plan import Step

__all__ = ["MOST_UNITS", "Columns", "ColumnsLaunch", "leaf_rows", "levels_of"]

MOST_UNITS = 1 << 31
"""Groups of neighbouring columns that a launch takes."""
_MAX_LEVELS = 12
_COLUMNS, _UNITS = {True: 8, False: 1}, {True: 8, False: 32}
"""Of a unit and of a warp, by whether numbers have 16 bits; as in cuda/columns.cu."""
_THREADS = 256
_ALONG_LEVELS = 3
"""Of the leaves that the eight warps of a block share where a warp for each column is not enough."""
_ENOUGH = 64
"""Warps per multiprocessor that keep memory busy, from the first wave of blocks to the last."""
_RESIDENT = {
    ("one leaf", "ALIGNED"): 4, ("one leaf", "SHIFTED"): 3, ("leaves", "ALIGNED"): 3, ("leaves", "SHIFTED"): 2
}  # fmt: skip
"""Blocks per multiprocessor; more of them gain more than the few registers cost that are kept in memory (sm_90)."""


class Columns(NamedTuple):
    """An array (outer, length, inner) of columns, the inner numbers side by side; strides in elements."""

    outer: int
    inner: int
    outer_stride: int
    stride: int
    """From row to row."""


class _Columns(ctypes.Structure):
    """As in cuda/columns.cu."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("outer_stride", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("pieces", ctypes.c_uint32),
        ("units", ctypes.c_uint32),
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

    ``aligned``: whether each row begins at a multiple of 16 bytes, which
    matters to 16-bit numbers alone.  ``room``: numbers of binary64 that a call needs memory for.
    """

    def __init__(
        self, plan: Plan, columns: Columns, aligned: bool, target: Format, gpu: Gpu, divisor: float
    ) -> None:
        self._lock = threading.Lock()
        element = get_format(plan.input)
        period = plan.block * (LOAD // element.dtype.itemsize)
        chunk = loop_of(plan)[0] * period
        chunks = -(-plan.n // chunk)
        results = columns.outer * columns.inner
        double = get_format("binary64")
        steps = plan.parts[0].steps
        self.room = chunks * results if chunks > 1 else 0
        if chunks == 1:
            self._start = _Start(
                element, columns, plan.n, chunk, period, steps, aligned, gpu, target, divisor
            )
            return
        self._start = _Start(element, columns, plan.n, chunk, period, steps, aligned, gpu, double, 1)
        totals = Columns(1, results, 0, results)
        self._finish = _Start(
            double, totals, chunks, chunks, plan.block, plan.final, True, gpu, target, divisor
        )

    def __call__(self, x: int, out: int, room: int, stream: int) -> None:
        """Put it on the stream, for numbers from address x on and results from address ``out`` on."""
        with self._lock:  # the driver copies the parameters before the launch returns
            if not self.room:
                self._start(x, out, stream)
                return
            self._start(x, room, stream)
            self._finish(room, out, stream)


class _Start:
    """One launch: sums of ``chunk`` rows each by the steps of a plan."""

    def __init__(
        self, element: Format, columns: Columns, length: int, chunk: int, period: int, steps: Sequence[Step],
        aligned: bool, gpu: Gpu, target: Format, divisor: float,
    ) -> None:  # fmt: skip
        short = element.bits == 16
        pieces = -(-columns.inner // _COLUMNS[short])
        units = columns.outer * pieces
        warps, chunks = -(-units // _UNITS[short]), -(-length // chunk)
        levels = [rows for rows in levels_of(steps) if rows < length]
        shared = (
            _ALONG_LEVELS
            if len(levels) >= _ALONG_LEVELS and warps * chunks < _ENOUGH * gpu.multiprocessors
            else 0
        )
        layout = "ALIGNED" if aligned or not short else "SHIFTED"
        own = len(levels) - shared
        function = compiled(
            "columns.cu", "columns", gpu.compute_capability, ELEMENTS[element.name], layout,
            (("LEVELS", own), ("ALONG", 1 << shared), ("THREADS", _THREADS),
             ("RESIDENT", _RESIDENT["leaves" if own else "one leaf", layout] if short else 3)),
        )  # fmt: skip
        distance = (ctypes.c_int32 * _MAX_LEVELS)(*levels)
        self._problem = _Columns(
            0, columns.outer_stride, columns.stride, columns.inner, pieces, units, length, chunk, period,
            columns.outer * columns.inner, 0, divisor, TARGETS[target.name], distance,
        )  # fmt: skip
        across = _THREADS // 32 >> shared
        self._kernel = KernelLaunch(function, -(-warps // across), _THREADS, self._problem, more=chunks)

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
            # The two accumulators of a leaf come together first.
            length = step.length // 2 if rows == leaf_rows(steps) > 1 else step.length
            half = ((1 << (length - 1).bit_length()) if length > 1 else 1) // 2
            while half:
                found.append(half * rows)
                half //= 2
            rows *= length
    return found
