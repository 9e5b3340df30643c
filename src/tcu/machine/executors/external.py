"""A machine with two memories: the simulation in the proof of Theorem 8 (section 5), word by word."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.machine.executors.executor import Executor
from tcu.machine.executors.ideal import IdealExecutor

__all__ = ["ExternalMemoryExecutor", "InternalMemory"]


class InternalMemory:
    """M words beside the processor; one word (B = 1) moves in each I/O.

    Raises ParameterError when a program needs more.
    """

    def __init__(self, words: int) -> None:
        self.words = words
        self.used = 0
        self.peak = 0
        self.reads = 0
        self.writes = 0

    def _take(self, words: int) -> None:
        self.used += words
        self.peak = max(self.peak, self.used)
        if self.used > self.words:
            raise ParameterError(f"{self.used} words in an internal memory of {self.words}: free some first")

    def read(self, array: Any) -> Any:
        """A copy of external words in the internal memory, one I/O each."""
        self._take(array.size)
        self.reads += array.size
        return array.copy()

    def reserve(self, array: Any) -> Any:
        """Room for words that the processor makes itself; no I/O."""
        self._take(array.size)
        return array

    def write(self, array: Any) -> Any:
        """Internal words to the external memory, one I/O each; their room is free again."""
        self.writes += array.size
        self.free(array)
        return array.copy()

    def free(self, array: Any) -> None:
        self.used -= array.size

    @property
    def transfers(self) -> int:
        return self.reads + self.writes


class ExternalMemoryExecutor(Executor):
    """Carries out every call of a weak machine in an internal memory of 3m words, and counts what moves.

    Each √m × √m product reads both operands (2m words), multiplies them
    without any I/O and writes the result (m words).  The executor inside
    computes.
    """

    name = "external memory"

    def __init__(self, inside: Executor | None = None) -> None:
        self.inside = IdealExecutor() if inside is None else inside
        self.dtypes = self.inside.dtypes
        self.passes = self.inside.passes
        self._side = 1
        self.memory = InternalMemory(3)

    def check_side(self, side: int) -> None:
        self.inside.check_side(side)
        self._side = side
        self.memory = InternalMemory(3 * side * side)

    def multiply(self, a: Any, b: Any) -> Any:
        side = self._side
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        x = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:])
        y = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
        products = [
            np.concatenate([self._square(left[i : i + side], right) for i in range(0, len(left), side)])
            for left, right in zip(x, y, strict=True)
        ]
        return np.stack(products).reshape(*batch, a.shape[-2], b.shape[-1])

    def _square(self, a: Any, b: Any) -> Any:
        rows, columns = a.shape[0], b.shape[1]
        left, right = (self.memory.read(_square(x, self._side)) for x in (a, b))
        result = self.memory.reserve(self.inside.multiply(left, right))
        self.memory.free(left)
        self.memory.free(right)
        return self.memory.write(result)[:rows, :columns]


def _square(x: Any, side: int) -> Any:
    result = np.zeros((side, side), x.dtype)
    result[: x.shape[0], : x.shape[1]] = x
    return result
