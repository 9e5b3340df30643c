"""The CPU of a machine: whatever a program does to words outside the unit, charged where it is done.

A program calls NumPy's functions through these methods alone.  What is
charged follows from the result or the operands: one step for each word that
is written, or read by a sum.  So nothing is declared beside the work, and
nothing is done without it; a test carries out every algorithm on arrays in an
external memory, whose every transfer must come with a step.

Free is what a RAM does by addressing: views, transposed or not, and parts of
an array.  Operands of the unit are matrices with two strides, which the
instruction can name; rows that overlap, and rows of more than two strides,
are moved first.  Free is also what the host does because it is no RAM: it
chooses the dtype that holds a word (:meth:`~tcu.machine.Machine.stored`), and
checks operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tcu.machine.constants import beside
from tcu.machine.executors import Executor
from tcu.machine.shapes import zeros

__all__ = ["Processor"]


class Processor:
    """Counted operations on arrays of any library, and on shapes.  ``name``: what the ledger calls the steps."""

    def __init__(self, executor: Executor, step: Callable[[int, str], None]) -> None:
        """executor: whose operations on arrays it takes where that has some; step: what charges."""
        self._executor = executor
        self._step = step

    def charge(self, steps: int, name: str) -> None:
        """For counted operations of other kinds of data, such as sparse matrices."""
        self._step(steps, name)

    def order(self, keys: Any, *, name: str) -> Any:
        """The order that sorts keys, equal ones as they stand: a comparison and a move for each bit of their number."""
        self._step(2 * len(keys) * max(1, len(keys)).bit_length(), name)
        return self._executor.on_host(np.argsort(keys, kind="stable"))

    def find(self, keys: Any, wanted: Any, *, name: str) -> Any:
        """Where ``wanted`` are, or would be, among sorted keys, by bisection."""
        self._step(len(wanted) * max(1, len(keys)).bit_length(), name)
        return self._executor.on_host(np.searchsorted(keys, wanted))

    def places(self, truth: Any, *, name: str) -> tuple[Any, ...]:
        """The indices at which it is true: each is looked at, and those found are written."""
        found = np.nonzero(truth)
        self._step(truth.size + sum(index.size for index in found), name)
        return tuple(self._executor.on_host(index) for index in found)

    def each(
        self, function: Callable[..., Any], *operands: Any, name: str, work: int = 1, **options: Any
    ) -> Any:
        """``function(*operands)``, which does one operation for each word of its result: arithmetic, or a move.

        ``work``: how many, where it does more.
        """
        result = function(*operands, **options)
        self._step(result.size * work, name)
        return result

    def update(self, function: Callable[..., Any], target: Any, *operands: Any, name: str) -> Any:
        """``function(target, *operands)``, such as ``operator.iadd``, which writes each word of the target once."""
        self._step(target.size, name)
        return function(target, *operands)

    def put(self, target: Any, values: Any, name: str) -> None:
        """``target[...] = values``."""
        self._step(target.size, name)
        target[...] = values

    def total(self, function: Callable[..., Any], x: Any, *others: Any, name: str, work: int = 1) -> Any:
        """``function(x, *others)``, which takes every word of x once, with ``work`` operations: a sum, a maximum."""
        self._step(x.size * work, name)
        return function(x, *others)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any, like: Any, *, name: str) -> Any:
        result = zeros(shape, dtype, like=like)
        self._step(result.size, name)
        return result

    def padded(self, x: Any, shape: tuple[int, ...], *, name: str = "pad", at: Sequence[int] = ()) -> Any:
        """x among zeros, from the place ``at`` on (the front); x itself where it has that shape already.

        Not by np.pad, whose zeros among Python's integers are NumPy's, which overflow.
        """
        if x.shape == shape:
            return x
        result = zeros(shape, x.dtype, like=x)
        places = (*at, *(0,) * (len(shape) - len(at)))
        result[tuple(slice(place, place + n) for place, n in zip(places, x.shape, strict=True))] = x
        self._step(result.size, name)
        return result

    def arranged(self, x: Any, shape: int | tuple[int, ...], *, name: str) -> Any:
        """x's words in the order of another shape, each moved once: what ``reshape`` does to a transposed array."""
        self._step(x.size, name)
        return x.reshape(shape)

    def table(
        self, like: Any, build: Callable[..., Any], *args: Hashable, shape: tuple[int, ...], work: int = 1,
        name: str,
    ) -> Any:  # fmt: skip
        """Constants that depend on sizes alone, made by the program: ``build(*args)``, ``work`` steps a word.

        The host keeps them for the next program; each program is charged.
        """
        self._step(math.prod(shape) * work, name)
        return beside(like, build, *args, shape=shape)

    def complex_product(self, x: Any, y: Any, *, name: str) -> Any:
        """x·y of planes (2, ...): each part by two products and one sum, rounded one by one."""
        self._step(3 * x.size, name)
        return self._executor.complex_product(x, y)

    def largest(self, z: Any, *, name: str) -> Any:
        """The largest magnitude of each transform in planes (2, transforms, numbers), on the host: two steps a word."""
        self._step(2 * z.size, name)
        return self._executor.largest(z)
