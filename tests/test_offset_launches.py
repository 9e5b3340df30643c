"""Contract: offsets are copied and looked at in one launch, and the answer is there when the stream has come to it.

Few offsets that are wrong are copied as zeros; no byte beside the copy is
written.  Answers that are waited for at a time have words of their own; one
that has been given serves again, and none that a failure left behind.

The kernel runs on the host, thread by thread (cuda_on_host.py), and not
before somebody waits; the driver is a pretended one.
"""

from __future__ import annotations

import contextlib
import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_on_host import compiled_for_host, compiler_or_skip
from launches import ends_here

from tcu.gpu import Gpu, offsets
from tcu.gpu.errors import DriverError
from tcu.gpu.launch import KernelChoice

STREAM, GUARD = 5, 0x5A5A5A5A5A5A5A5A
FEW = offsets._FEW


class Driver:
    """Runs what was launched when somebody waits for it."""

    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)

    def __init__(self) -> None:
        self.words: list[Any] = []
        self.events = 0
        self.under_way: list[Any] = []
        self.failing = ""

    def call(self, name: str, *given: Any) -> Any:
        if name == "cuMemAllocHost":
            self.words.append((ctypes.c_uint64 * 1)(2**64 - 1))
            return ctypes.addressof(self.words[-1])
        assert (name, given) == ("cuEventCreate", (2,))
        self.events += 1
        return self.events

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        assert stream == STREAM
        return (int(self.failing == "cuEventRecord"),)

    def cuEventSynchronize(self, event: int) -> tuple[int]:
        for run in self.under_way:
            run()
        self.under_way.clear()
        return (int(self.failing == "cuEventSynchronize"),)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    compiler_or_skip()
    folder = tmp_path_factory.getbasetemp() / "offsets"
    folder.mkdir(exist_ok=True)
    driver = Driver()

    def start(choice: KernelChoice, kernel: Any, stream: int) -> None:
        assert stream == STREAM
        given = type(choice.problem).from_buffer_copy(choice.problem)
        driver.under_way.append(lambda: kernel(given, choice.blocks, choice.threads, together=2))

    def find(source: str, entry: str, macros: Any, gpu: Gpu) -> Any:
        return compiled_for_host(source, entry, "Offsets", macros, folder)

    def fail(function: str, status: Any) -> None:
        raise DriverError(f"{function} failed")

    monkeypatch.setattr(offsets, "cuda_module", lambda name: driver)
    monkeypatch.setattr(offsets, "call", driver.call)
    monkeypatch.setattr(offsets, "check", fail)
    monkeypatch.setattr(offsets, "any_time", contextlib.nullcontext)
    monkeypatch.setattr(offsets, "_answers", {})
    ends_here(monkeypatch, start, find)
    return driver


def launch_of(count: int, n: int, stride: int = 1, wide: bool = True) -> offsets.OffsetsLaunch:
    gpu = Gpu(0, "host", (9, 0))
    object.__setattr__(gpu, "multiprocessors", 2)
    return offsets.OffsetsLaunch(count, stride, wide, n, gpu)


def spoilt(line: Any, how: str, rng: Any) -> Any:
    line, at = line.copy(), int(rng.integers(1, max(line.size - 1, 2)))
    if how == "begins elsewhere":
        line[0] = 1
    elif how == "ends elsewhere":
        line[-1] += 1
    elif how == "falls" and line.size > 2:
        line[at] = line[at - 1] - 1
    elif how == "falls at last" and line.size > 2:
        line[-2] = line[-1] + 1
    return line


@pytest.mark.slow(8)
@pytest.mark.parametrize("count", [1, 2, 5, 33, 1024, 1025, FEW, FEW + 1, 9000])
@pytest.mark.parametrize("how", ["right", "begins elsewhere", "ends elsewhere", "falls", "falls at last"])
@pytest.mark.parametrize(("wide", "stride"), [(True, 1), (False, 1), (True, 3), (False, 2)])
def test_the_answer_and_the_copy(driver: Driver, count: int, how: str, wide: bool, stride: int) -> None:
    rng = np.random.default_rng(count)
    right = np.sort(rng.integers(0, 2 * count, count))
    right[0] = 0
    n = int(right[-1])
    line = spoilt(right, how, rng)
    is_right = np.array_equal(line, right)
    room = np.full(count * stride, -7, np.int64 if wide else np.int32)
    room[::stride] = line
    launch = launch_of(count, n, stride, wide)
    for copied in (True, False):
        copy = np.full(count + 2, GUARD, np.int64)
        answer = launch.ask(room.ctypes.data, copy[1:].ctypes.data if copied else 0, STREAM)
        assert answer.is_right() == is_right
        if copied:
            assert copy[0] == copy[-1] == GUARD
            wanted = line if is_right or not launch.few else np.zeros_like(line)
            assert launch.few == (count <= FEW)
            assert np.array_equal(copy[1:-1], wanted)
        else:
            assert (copy == GUARD).all()
    copy = np.full(count + 2, GUARD, np.int64)
    launch.copy(room.ctypes.data, copy[1:].ctypes.data, STREAM)
    driver.cuEventSynchronize(0)
    assert np.array_equal(copy, [GUARD, *line, GUARD])
    assert len(driver.words) == driver.events == 1


def test_answers_that_are_waited_for_at_a_time(driver: Driver) -> None:
    good, bad = np.array([0, 3, 5]), np.array([0, 6, 5])
    launch = launch_of(3, 5)
    for _ in range(3):
        answers = [launch.ask(line.ctypes.data, 0, STREAM) for line in (good, bad, good, bad)]
        assert [answer.is_right() for answer in reversed(answers)] == [False, True, False, True]
    assert len(driver.words) == 4


@pytest.mark.parametrize("function", ["cuEventRecord", "cuEventSynchronize"])
def test_what_a_failure_leaves_behind_is_not_used_again(driver: Driver, function: str) -> None:
    good, bad = np.array([0, 3, 5]), np.array([0, 6, 5])
    launch = launch_of(3, 5)
    driver.failing = function
    with pytest.raises(DriverError, match=f"{function} failed"):
        launch.ask(bad.ctypes.data, 0, STREAM).is_right()
    driver.failing = ""
    assert launch.ask(good.ctypes.data, 0, STREAM).is_right()
    assert launch.ask(good.ctypes.data, 0, STREAM).is_right()
    assert len(driver.words) == 2
