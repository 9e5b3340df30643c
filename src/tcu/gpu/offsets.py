"""Offsets of ragged segments in a GPU's memory: put in the form that kernels read, and looked at."""

from __future__ import annotations

import ctypes

from tcu.gpu.device import Gpu, call, read
from tcu.gpu.functions import find_function
from tcu.gpu.launch import KernelLaunch
from tcu.gpu.workspace import workspace

__all__ = ["copy_offsets", "offsets_are_right"]

_THREADS, _BLOCKS = 256, 8
"""Of a block, and for each multiprocessor."""


class _Offsets(ctypes.Structure):
    """As in cuda/offsets.cu."""

    _fields_ = (
        ("offsets", ctypes.c_uint64),
        ("count", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("wide", ctypes.c_int64),
        ("to", ctypes.c_uint64),
        ("n", ctypes.c_int64),
        ("wrong", ctypes.c_uint64),
    )


def copy_offsets(offsets: int, count: int, stride: int, wide: bool, to: int, gpu: Gpu, stream: int) -> None:
    """Put a copy as contiguous numbers of 64 bits on the stream.

    ``count`` offsets from address ``offsets`` on, ``stride`` elements apart,
    of 64 bits if ``wide``, else of 32.
    """
    _launch(_Offsets(offsets, count, stride, wide, to, 0, 0), gpu, stream)


def offsets_are_right(offsets: int, count: int, n: int, gpu: Gpu, stream: int) -> bool:
    """Whether contiguous offsets of 64 bits begin with 0, never fall and end with ``n``; waits for the stream."""
    wrong = workspace("offsets", gpu.ordinal, stream, 0, 1).words_address
    _launch(_Offsets(offsets, count, 1, 1, 0, n, wrong), gpu, stream)
    call("cuStreamSynchronize", stream)
    if not any(read(wrong, 8)):
        return True
    call("cuMemsetD8", wrong, 0, 8)
    return False


def _launch(problem: _Offsets, gpu: Gpu, stream: int) -> None:
    function = find_function("offsets.cu", "offsets", {}, gpu)
    blocks = min(-(-problem.count // _THREADS), gpu.multiprocessors * _BLOCKS)
    KernelLaunch(function, blocks, _THREADS, problem)(stream)
