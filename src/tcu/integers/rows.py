"""Numbers as rows of limbs in the host's memory: each becomes an integer of Python's, and its result a row again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.integers import numbers
from tcu.integers.operands import number_of, row_of

__all__ = ["multiply", "multiply_mod", "powmod"]


def multiply(a: Any, b: Any) -> Any:
    """Products of (..., la) and (..., lb) limbs, whose leading axes broadcast, of la + lb limbs."""
    if a is b:
        return _each(numbers.square, 2 * a.shape[-1], a)
    return _each(numbers.multiply, a.shape[-1] + b.shape[-1], a, b)


def multiply_mod(a: Any, b: Any, m: Any) -> Any:
    """The same modulo m, of m's limbs."""
    return _each(lambda x, y, z: numbers.mod(numbers.multiply(x, y), z), m.shape[-1], a, b, m)


def powmod(a: Any, n: Any, m: Any) -> Any:
    """a to the n-th modulo m, of m's limbs."""
    return _each(numbers.powmod, m.shape[-1], a, n, m)


def _each(function: Any, length: int, *operands: Any) -> Any:
    dtype = operands[0].dtype
    shape = np.broadcast_shapes(*(x.shape[:-1] for x in operands))
    result = np.empty((*shape, length), dtype)
    rows = [np.broadcast_to(x, (*shape, x.shape[-1])) for x in operands]
    for place in np.ndindex(shape):
        result[place] = row_of(function(*(number_of(x[place]) for x in rows)), length, dtype)
    return result
