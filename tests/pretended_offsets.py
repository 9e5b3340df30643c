"""Offsets in the memory of a pretended GPU, which is the host's: what tcu.gpu.offsets does, in NumPy."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tcu.gpu.offsets
from tcu.engines.cuda import offsets as device_segments


def memory(address: int, count: int, dtype: Any) -> Any:
    room = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(room, np.uint8).view(dtype)


class Launch:
    """As tcu.gpu.offsets.OffsetsLaunch; ``few`` is what the state says."""

    def __init__(self, state: Any, count: int, stride: int, wide: bool, n: int) -> None:
        self.state, self.few = state, state.few
        self.given = count, stride, np.dtype(np.int64 if wide else np.int32), n

    def _line(self, offsets: int) -> Any:
        count, stride, dtype, _ = self.given
        return memory(offsets, (count - 1) * stride + 1, dtype)[::stride]

    def copy(self, offsets: int, to: int, stream: int) -> None:
        assert stream == 5
        memory(to, self.given[0], np.int64)[...] = self._line(offsets)

    def ask(self, offsets: int, to: int, stream: int) -> Any:
        assert stream == 5
        line = self._line(offsets)
        right = bool(line[0] == 0 and line[-1] == self.given[-1] and np.all(line[1:] >= line[:-1]))
        if to:
            memory(to, line.size, np.int64)[...] = line if right or not self.few else 0
        self.state.asked += 1

        def is_right() -> bool:
            self.state.asked -= 1
            self.state.waited += 1
            return right

        return SimpleNamespace(is_right=is_right)


def install(monkeypatch: pytest.MonkeyPatch, state: Any = None) -> None:
    """``state.waited`` counts how often the GPU is waited for, ``state.asked`` the answers that nobody has had."""
    state = SimpleNamespace() if state is None else state
    state.waited, state.asked, state.few = 0, 0, True

    def offsets_launch(count: int, stride: int, wide: bool, n: int, ordinal: int) -> Launch:
        return Launch(state, count, stride, wide, n)

    monkeypatch.setattr(device_segments, "offsets_launch", offsets_launch)
    monkeypatch.setattr(device_segments, "read", lambda at, size: bytes(memory(at, size, np.uint8)))
    monkeypatch.setattr(tcu.gpu.offsets, "offsets_launch", offsets_launch)
