"""Energy of back-to-back calls, by NVML's counter of the whole board (millijoules since the driver loaded)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcu.study.gpu.timing import Clock

WARM_UP = 0.3
BATCH = 0.25
"""Seconds between looks at the counter, which itself moves every 20 to 100 ms.

The GPU pauses meanwhile: with looks every 0.02 s it ran at 80 % of its speed.
"""


@dataclass(frozen=True)
class Energy:
    joules_per_terabyte: float
    watts: float
    terabytes_per_second: float
    seconds: float


class EnergyMeter:
    """GPU 0, as NVML counts."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._gpu = pynvml.nvmlDeviceGetHandleByIndex(0)

    def joules(self) -> float:
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu)) * 1e-3

    def measure(self, call: Callable[[], Any], nbytes: int, seconds: float, clock: Clock) -> Energy:
        """Between the first and the last step of the counter while the calls run without a pause."""
        count = self._calls_per_batch(call, clock)
        looks = [(time.perf_counter(), self.joules(), 0)]
        while looks[-1][0] - looks[0][0] < seconds or len(_steps(looks)) < 2:
            for _ in range(count):
                call()
            clock.synchronize()
            looks.append((time.perf_counter(), self.joules(), looks[-1][2] + count))
            if looks[-1][0] - looks[0][0] > 3 * seconds:
                raise RuntimeError("NVML's energy counter does not move")
        (start, first, done), *_, (end, last, all_done) = _steps(looks)
        terabytes = (all_done - done) * nbytes * 1e-12
        elapsed, used = end - start, last - first
        return Energy(used / terabytes, used / elapsed, terabytes / elapsed, elapsed)

    def _calls_per_batch(self, call: Callable[[], Any], clock: Clock) -> int:
        call()
        clock.synchronize()
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < WARM_UP:
            for _ in range(10):
                call()
            clock.synchronize()
            calls += 10
        return max(1, int(BATCH * calls / (time.perf_counter() - start)))


def _steps(looks: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """The looks at which the counter had moved since the look before."""
    return [look for before, look in itertools.pairwise(looks) if look[1] != before[1]]
