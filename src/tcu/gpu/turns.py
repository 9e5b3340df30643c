"""Launches that take turns on the current GPU: memory for them, a stream of their own, and how long each takes.

They are timed by events, several in a row between two, queued behind fills of
memory that take longer than the host needs to queue a round.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from tcu.gpu.device import call
from tcu.gpu.imports import cuda_module

__all__ = ["SCRATCH_BYTES", "Turns", "memory"]

SCRATCH_BYTES = 256 << 20
_IN_A_ROW = (2, 16)
"""Fewest and most launches between two events."""
_BYTES_IN_A_ROW = 512 << 20
_MOST_FILLS = 256
"""The driver's queue takes 1024 launches before the host must wait."""


def memory(stack: contextlib.ExitStack, size: int) -> int:
    """The address of so many bytes, which are freed with the stack."""
    address = int(call("cuMemAlloc", size))
    stack.callback(call, "cuMemFree", address)
    return address


class Turns:
    """A stream, and ``scratch`` bytes of memory to fill; both go with the stack."""

    def __init__(self, stack: contextlib.ExitStack, scratch: int = SCRATCH_BYTES) -> None:
        self._scratch, self._size = memory(stack, scratch), scratch
        flag = cuda_module("cuda.bindings.driver").CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = int(call("cuStreamCreate", flag))
        stack.callback(call, "cuStreamDestroy", self.stream)
        stack.callback(call, "cuCtxSynchronize")

    def wait(self) -> None:
        """Until all that was queued has been done."""
        call("cuStreamSynchronize", self.stream)

    def fill(self, address: int, size: int, numbers: npt.NDArray[Any]) -> None:
        """The numbers, one copy after another until so many bytes are full."""
        filled = min(numbers.nbytes, size)
        call("cuMemcpyHtoD", address, numbers.ctypes.data, filled)
        call("cuCtxSynchronize")  # the copy may be under way still, and our stream does not wait for it
        while filled < size:
            more = min(filled, size - filled)
            self.copy(address + filled, address, more)
            filled += more

    def copy(self, target: int, source: int, size: int) -> None:
        """From one place in the GPU's memory to another, and wait."""
        call("cuMemcpyDtoDAsync", target, source, size, self.stream)
        self.wait()

    def times(self, launches: Sequence[Callable[[], None]], nbytes: int, rounds: int) -> list[list[float]]:
        """Seconds of a launch, which reads so many bytes: for each round, those of all in turn."""
        fewest, most = _IN_A_ROW
        count = max(fewest, min(most, _BYTES_IN_A_ROW // nbytes))
        with contextlib.ExitStack() as stack:
            events = [(_event(stack), _event(stack)) for _ in range(len(launches) + 1)]
            self._round(launches, events, count, 0)
            start = time.perf_counter()
            self._round(launches, events, count, 1, wait=False)
            queueing = time.perf_counter() - start
            self.wait()
            fill = max(_elapsed(*events[-1]), 1e-6)
            fills = min(_MOST_FILLS, math.ceil(1.5 * queueing / fill))
            taken = []
            for _ in range(rounds):
                self._round(launches, events, count, fills)
                taken.append([_elapsed(*pair) / count for pair in events[:-1]])
        return taken

    def _round(
        self, launches: Sequence[Callable[[], None]], events: Sequence[tuple[Any, Any]], count: int, fills: int,
        *, wait: bool = True,
    ) -> None:  # fmt: skip
        """Each launch ``count`` times in a row between its two events; the last two are the fills'."""
        begin, end = events[-1]
        call("cuEventRecord", begin, self.stream)
        for _ in range(fills):
            call("cuMemsetD8Async", self._scratch, 0, self._size, self.stream)
        call("cuEventRecord", end, self.stream)
        launches[0]()  # the fills have taken the data's place in L2
        for launch, (begin, end) in zip(launches, events, strict=False):
            launch()  # the kernel's instructions come to the multiprocessors
            call("cuEventRecord", begin, self.stream)
            for _ in range(count):
                launch()
            call("cuEventRecord", end, self.stream)
        if wait:
            self.wait()


def _event(stack: contextlib.ExitStack) -> Any:
    event = call("cuEventCreate", 0)
    stack.callback(call, "cuEventDestroy", event)
    return event


def _elapsed(begin: Any, end: Any) -> float:
    return float(call("cuEventElapsedTime", begin, end)) * 1e-3
