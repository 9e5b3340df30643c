"""What is calibrated: the CPU's BLAS, or the tensor cores of a GPU."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import MissingPackageError, ParameterError
from tcu.machine import Executor, GpuExecutor
from tcu.machine.executors import IdealExecutor

__all__ = ["Cpu", "Device", "GpuDevice", "find_device"]


_ENOUGH = 0.5
"""Seconds after which no further round is measured."""


class Device(ABC):
    """Where arrays live and time passes."""

    name: str
    executor: Executor
    dtype: np.dtype[Any]
    """Of the operands of tall products."""
    most_words: int
    """n·side of the largest product that is measured."""

    @abstractmethod
    def array(self, values: Any) -> Any:
        """The values on the device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for everything that was started."""

    def seconds(self, work: Callable[[], object], *, least: float = 2e-3, rounds: int = 5) -> float:
        """The time of one call: the least of ``rounds`` that each take ``least`` seconds or more in all.

        What else runs on the machine only adds to it, so the least is nearest to the device's own.
        """
        work()  # compiles, and fills the caches
        self.synchronize()
        calls = 1
        while (taken := self._time(work, calls)) < least and calls < 1 << 16:
            calls = max(2 * calls, int(calls * least / max(taken, 1e-9)))
        times = [taken]
        while len(times) < rounds and sum(times) < _ENOUGH:
            times.append(self._time(work, calls))
        return min(times) / calls

    def _time(self, work: Callable[[], object], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        self.synchronize()
        return time.perf_counter() - start


class Cpu(Device):
    """NumPy's BLAS in binary64, with the threads that it takes by itself."""

    name = "CPU, NumPy's BLAS in binary64"
    dtype = np.dtype(np.float64)
    most_words = 1 << 21

    def __init__(self) -> None:
        self.executor = IdealExecutor()

    def array(self, values: Any) -> Any:
        return np.asarray(values)

    def synchronize(self) -> None:
        pass


class GpuDevice(Device):
    """One instruction of a GPU, on arrays of CuPy, with all that the host does for each call."""

    most_words = 1 << 26

    def __init__(self, input: str = "binary64", device: int = 0) -> None:
        try:
            self._cupy = importlib.import_module("cupy")
        except ImportError as error:
            raise MissingPackageError(
                f"a GPU is calibrated on arrays of CuPy: pip install cupy-cuda13x, or cupy-cuda12x ({error})"
            ) from error
        self.executor = GpuExecutor(input, device=device)
        operand = self.executor.dtypes.operand
        assert operand is not None
        # bfloat16 is no dtype of CuPy's, which holds what the kernel rounds as it loads it.
        self.dtype = np.dtype(np.float32) if operand.name == "bfloat16" else operand
        self.name = self.executor.name

    def array(self, values: Any) -> Any:
        return self._cupy.asarray(values)

    def synchronize(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()


def find_device(name: str, input: str | None = None, device: int = 0) -> Device:
    """The device "cpu", or "gpu" with an input format.  Raises ParameterError, MissingPackageError, GpuError."""
    if name == "gpu":
        return GpuDevice("binary64" if input is None else input, device)
    if name == "cpu" and input is None:
        return Cpu()
    if name == "cpu":
        raise ParameterError(
            f"input={input!r}: the CPU's BLAS is calibrated in binary64; leave it out, or take 'gpu'"
        )
    raise ParameterError(f"device {name!r}: choose cpu or gpu")
