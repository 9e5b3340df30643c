"""Numbers from the host through a GPU, a piece at a time: copying, summing and reading the next piece overlap.

A feed has a piece of pinned memory, a piece of the GPU's memory and a stream
of its own; several threads with a feed each keep the bus and the GPU busy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu, call, current
from tcu.gpu.imports import cuda_module
from tcu.gpu.launch import KernelChoice, Launch, bind
from tcu.gpu.rows import rows_recipe
from tcu.gpu.staging import array_at
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import COUNTS, ELEMENTS, EMPTY_BITS, LIMB_BITS, WORDS_OF, exact_recipe
from tcu.plan import Plan, granularity
from tcu.plan.plan import Part

__all__ = ["Feed"]

_WORDS = WORDS_OF[False]
_BLOCKS, _THREADS = 1024, 256
BLOCK = constants(THREADS=_THREADS)


Magnitudes = struct("Magnitudes", """
    Code* x;
    i64 n;
    u64* top;  // zero
""")  # fmt: skip


class Feed:
    """Room for ``size`` numbers of a format on a GPU; one thread's own."""

    def __init__(self, gpu: Gpu, element: Format, size: int, chunks: int) -> None:
        """``chunks``: how many chunk totals a piece can have."""
        self._gpu, self._element = gpu, element
        nbytes = max(1, size) * element.dtype.itemsize
        # Of the results: two exact sums, the largest magnitude, chunk totals.
        self._results_bytes = 8 * (2 * _WORDS + 1 + chunks)
        with current(gpu):
            flag = cuda_module("cuda.bindings.driver").CUstream_flags.CU_STREAM_NON_BLOCKING
            self._stream = int(call("cuStreamCreate", flag))
            self._host, self._host_results = (
                int(call("cuMemHostAlloc", each, 0)) for each in (nbytes, self._results_bytes)
            )
            self._data, self._results = (
                int(call("cuMemAlloc", each)) for each in (nbytes, self._results_bytes)
            )
        self.buffer: npt.NDArray[Any] = array_at(self._host, element.dtype, size)
        """Pinned memory for the next piece."""
        self._found = array_at(self._host_results, np.dtype(np.int64), self._results_bytes // 8)

    def close(self) -> None:
        with current(self._gpu):
            call("cuStreamSynchronize", self._stream)
            for address in (self._host, self._host_results):
                call("cuMemFreeHost", address)
            for address in (self._data, self._results):
                call("cuMemFree", address)
            call("cuStreamDestroy", self._stream)

    def start(self, n: int, plan: Plan | None, magnitudes: bool) -> None:
        """Copy ``n`` numbers of the buffer to the GPU and add them up: exactly, by the plan's chunks, without signs."""
        with current(self._gpu):
            call("cuMemcpyHtoDAsync", self._data, self._host, n * self._element.dtype.itemsize, self._stream)
            call("cuMemsetD8Async", self._results, 0, self._results_bytes, self._stream)
            exact = _exact_launch(n, self._element, self._gpu)
            exact.start(self._data, self._data, self._results, self._stream)
            if plan is not None:
                self._add_chunks(n, plan)
            if magnitudes:
                problem = Magnitudes(self._data, n, self._results + 16 * _WORDS)
                macros = {"ELEMENT": ELEMENTS[self._element.name], "LAYOUT": "ALIGNED"}
                bind(KernelChoice("magnitudes", macros, _BLOCKS, _THREADS, problem), self._gpu)(self._stream)
                exact.start(self._data, self._data, self._results + 8 * _WORDS, self._stream)
            call("cuMemcpyDtoHAsync", self._host_results, self._results, self._results_bytes, self._stream)

    def _add_chunks(self, n: int, plan: Plan) -> None:
        chunk = chunk_of(plan)
        whole, rest = divmod(n, chunk)
        at = self._results + 8 * (2 * _WORDS + 1)
        for rows, length, first in ((whole, chunk, 0), (1 if rest else 0, rest, whole)):
            if rows:
                start = self._data + first * chunk * self._element.dtype.itemsize
                _rows_launch(plan, rows, length, self._gpu).start(start, start, at + 8 * first, self._stream)

    def finish(self) -> None:
        """Wait for what was started; the results are there then."""
        with current(self._gpu):
            call("cuStreamSynchronize", self._stream)

    def exact(self, of_magnitudes: bool = False) -> tuple[int, int, int, int]:
        """The exact sum in units of 2^-1074, and how many were inf, -inf and NaN."""
        start = _WORDS if of_magnitudes else 0
        words = self._found[start : start + _WORDS].tolist()
        integer = sum(word << (LIMB_BITS * i) for i, word in enumerate(words[:-COUNTS]))
        positive, negative, nans = words[-COUNTS:]
        return integer >> EMPTY_BITS, positive, negative, nans

    def top(self) -> float:
        """The largest magnitude."""
        code = self._found[2 * _WORDS : 2 * _WORDS + 1].astype(self._element.code_dtype)
        return float(code.view(self._element.dtype)[0])

    def chunk_totals(self, count: int) -> npt.NDArray[np.float64]:
        start = 2 * _WORDS + 1
        return self._found[start : start + count].view(np.float64).copy()


def chunk_of(plan: Plan) -> int:
    """Numbers of a chunk of the plan, which its part's steps reduce to one."""
    return granularity(plan.parts[0].steps)


@lru_cache(maxsize=64)
def _exact_launch(n: int, element: Format, gpu: Gpu) -> Launch:
    return Launch(exact_recipe(n, element, "ALIGNED", element, gpu, state=True), gpu)


@lru_cache(maxsize=64)
def _rows_launch(plan: Plan, rows: int, length: int, gpu: Gpu) -> Launch:
    """Each chunk as a row with a plan of its own, which is the part's steps."""
    part = Part(0, length, plan.parts[0].steps)
    row = Plan(length, plan.input, plan.variant, plan.chain, plan.block, (part,), (), plan.result)
    return Launch(rows_recipe(row, rows, length, True, get_format("binary64"), gpu, 1.0), gpu)
