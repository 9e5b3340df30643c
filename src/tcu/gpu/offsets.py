"""Offsets of ragged segments in a GPU's memory: put in the form that kernels read, and looked at."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from tcu.gpu.device import Gpu, call, check, find_gpu
from tcu.gpu.imports import cuda_module
from tcu.gpu.launch import OTHER, OUT, KernelChoice, Launch, Recipe, X
from tcu.gpu.structs import constants, struct
from tcu.gpu.workspace import any_time

__all__ = ["OffsetsLaunch", "offsets_launch"]

_THREADS, _BLOCKS = 256, 8
"""Of a block, and for each multiprocessor."""
_LONE_BLOCK = 1024
"""Threads of a block that is alone, at most."""
LIMITS = constants(LONE_BLOCK=_LONE_BLOCK)
_FEW = 4 * _LONE_BLOCK
"""Offsets that a block alone looks at."""


Offsets = struct("Offsets", """
    const void* offsets;
    i64 count;
    i64 stride;  // in elements
    i64 wide;    // whether they have 64 bits; else 32
    i64* to;     // the copy; null: none
    i64 n;       // what the last one must be
    u32* wrong;  // set to 1 if they cannot be offsets; null: they are not checked
""")  # fmt: skip


class Answer:
    """Whether offsets are right, which a GPU is asked: a word of the host's memory that it writes where they are not."""

    def __init__(self, ordinal: int) -> None:
        driver = cuda_module("cuda.bindings.driver")
        with any_time():
            self._word = ctypes.c_uint32.from_address(int(call("cuMemAllocHost", 8)))
            self._event = call("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._word.value = 0
        self._ordinal = ordinal
        self._record, self._wait = driver.cuEventRecord, driver.cuEventSynchronize
        self.address = ctypes.addressof(self._word)

    def record(self, stream: int) -> None:
        """It is there when the stream has come here."""
        (status,) = self._record(self._event, stream)
        if status:
            check("cuEventRecord", status)

    def is_right(self) -> bool:
        """Waits for the answer, which can be asked for once."""
        (status,) = self._wait(self._event)
        if status:
            check("cuEventSynchronize", status)
        found = not self._word.value
        self._word.value = 0
        _answers.setdefault(self._ordinal, []).append(self)
        return found


_answers: dict[int, list[Answer]] = {}
"""Of each GPU, those that nobody waits for; what a failure leaves behind is not used again."""


class OffsetsLaunch:
    """Offsets that are copied or looked at: everything but the addresses.

    ``count`` of them, ``stride`` elements apart, of 64 bits if ``wide``, else
    of 32; those that begin with 0, never fall and end with ``n`` are right.
    """

    def __init__(self, count: int, stride: int, wide: bool, n: int, gpu: Gpu) -> None:
        self.few = count <= _FEW
        """Whether a copy of wrong offsets is zeros, so that sums by it may follow before the answer is there."""
        self._ordinal = gpu.ordinal
        if self.few:
            blocks, threads = 1, min(-(-count // 32) * 32, _LONE_BLOCK)
        else:
            blocks, threads = min(-(-count // _THREADS), gpu.multiprocessors * _BLOCKS), _THREADS
        takes = {"offsets": X, "to": OUT, "wrong": OTHER}
        problem = Offsets(0, count, stride, wide, 0, n, 0)
        self._launch = Launch(Recipe((KernelChoice("offsets", {}, blocks, threads, problem, takes),)), gpu)

    def copy(self, offsets: int, to: int, stream: int) -> None:
        """Put a copy to address ``to``, as contiguous numbers of 64 bits, on the stream."""
        self._launch.start(offsets, 0, to, stream)

    def ask(self, offsets: int, to: int, stream: int) -> Answer:
        """The same with a look at them; without a copy if ``to`` is 0."""
        try:
            answer = _answers[self._ordinal].pop()
        except LookupError:
            answer = Answer(self._ordinal)
        self._launch.start(offsets, answer.address, to, stream)
        answer.record(stream)
        return answer


@lru_cache(maxsize=4096)
def offsets_launch(count: int, stride: int, wide: bool, n: int, ordinal: int) -> OffsetsLaunch:
    """The launch for such offsets on the GPU of that number: made once, and kept."""
    return OffsetsLaunch(count, stride, wide, n, find_gpu(ordinal))
