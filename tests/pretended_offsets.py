"""Offsets in the memory of a pretended GPU, which is the host's: what tcu.gpu.offsets does, in NumPy."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcu.collectives import device_segments


def memory(address: int, count: int, dtype: Any) -> Any:
    room = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(room, np.uint8).view(dtype)


def copy_offsets(offsets: int, count: int, stride: int, wide: bool, to: int, gpu: Any, stream: int) -> None:
    line = memory(offsets, (count - 1) * stride + 1, np.int64 if wide else np.int32)
    memory(to, count, np.int64)[...] = line[::stride]


def install(monkeypatch: pytest.MonkeyPatch, state: Any = None) -> None:
    """``state.waited`` counts how often the GPU is waited for."""

    def offsets_are_right(offsets: int, count: int, n: int, gpu: Any, stream: int) -> bool:
        if state is not None:
            state.waited += 1
        line = memory(offsets, count, np.int64)
        return line[0] == 0 and line[-1] == n and bool(np.all(line[1:] >= line[:-1]))

    monkeypatch.setattr(device_segments, "find_gpu", lambda ordinal: SimpleNamespace())
    monkeypatch.setattr(device_segments, "copy_offsets", copy_offsets)
    monkeypatch.setattr(device_segments, "offsets_are_right", offsets_are_right)
    monkeypatch.setattr(device_segments, "read", lambda at, size: bytes(memory(at, size, np.uint8)))
