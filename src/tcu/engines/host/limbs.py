"""Numbers as rows of limbs in the host's memory: each becomes an integer of Python's, and its result a row again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.model import long_integers

__all__ = ["multiply", "multiply_mod", "number_of", "powmod", "row_of"]


def number_of(row: Any) -> int:
    """The number that limbs make, the lowest first."""
    return int.from_bytes(row.astype(row.dtype.newbyteorder("<"), copy=False).tobytes(), "little")


def row_of(number: int, length: int, dtype: Any) -> Any:
    """So many limbs of a number that they hold."""
    text = number.to_bytes(length * dtype.itemsize, "little")
    return np.frombuffer(text, dtype.newbyteorder("<")).astype(dtype, copy=False)


def multiply(a: Any, b: Any) -> Any:
    """Products of (..., la) and (..., lb) limbs, whose leading axes broadcast, of la + lb limbs."""
    if a is b:
        return _each(lambda x: long_integers.product(x, x), 2 * a.shape[-1], a)
    return _each(long_integers.product, a.shape[-1] + b.shape[-1], a, b)


def multiply_mod(a: Any, b: Any, m: Any) -> Any:
    """The same modulo m, of m's limbs."""
    return _each(
        lambda x, y, z: long_integers.divided(long_integers.product(x, y), z)[1], m.shape[-1], a, b, m
    )


def powmod(a: Any, n: Any, m: Any) -> Any:
    """a to the n-th modulo m, of m's limbs."""
    return _each(long_integers.powmod, m.shape[-1], a, n, m)


def _each(function: Any, length: int, *operands: Any) -> Any:
    dtype = operands[0].dtype
    shape = np.broadcast_shapes(*(x.shape[:-1] for x in operands))
    result = np.empty((*shape, length), dtype)
    rows = [np.broadcast_to(x, (*shape, x.shape[-1])) for x in operands]
    for place in np.ndindex(shape):
        result[place] = row_of(function(*(number_of(x[place]) for x in rows)), length, dtype)
    return result
