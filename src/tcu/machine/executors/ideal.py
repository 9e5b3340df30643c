"""The machine of the theorems: binary64, and integers without error."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.machine.executors.executor import Dtypes, Executor, is_integer, magnitude

__all__ = ["IdealExecutor"]

_EXACT = 53
"""Integers below 2^53 are exact in binary64, in which BLAS multiplies them."""
_WORD = 63


class IdealExecutor(Executor):
    """Real numbers in binary64 by BLAS; integers exactly, whatever their size.

    Integers whose sums stay below 2^53 go through BLAS as they are; longer
    ones are cut into pieces that do, and the pieces' products are added in
    int64, or as Python's integers where 63 bits are not enough.
    """

    name = "ideal"
    dtypes = Dtypes(None, np.dtype(np.float64), integer_bits=1 << 20, sum_bits=1 << 20)

    def multiply(self, a: Any, b: Any) -> Any:
        if a.dtype.kind in "iub" and b.dtype.kind in "iub":
            a, b = (x.astype(np.int8) if x.dtype.kind == "b" else x for x in (a, b))
        if is_integer(a) and is_integer(b):
            return exact_product(a, b)
        return np.matmul(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False))


def exact_product(a: Any, b: Any) -> Any:
    """A·B of integers, exactly: int64 where every entry fits, Python's integers as objects otherwise."""
    depth = max(a.shape[-1], 1).bit_length()
    bits_a, bits_b = magnitude(a).bit_length(), magnitude(b).bit_length()
    if bits_a + bits_b + depth <= _EXACT:
        return np.matmul(_real(a), _real(b)).astype(np.int64)
    piece = (_EXACT - depth) // 2
    if piece < 1:
        raise ParameterError(
            f"a product over {a.shape[-1]} terms is too deep to be exact: give smaller matrices"
        )
    small = bits_a + bits_b + depth <= _WORD
    total: Any = None
    for shift_a, part_a in _pieces(a, bits_a, piece):
        for shift_b, part_b in _pieces(b, bits_b, piece):
            term: Any = np.matmul(part_a, part_b).astype(np.int64)
            if not small:
                term = term.astype(object)
            term = term * (1 << (shift_a + shift_b))
            total = term if total is None else total + term
    return total


def _real(array: Any) -> Any:
    return array.astype(np.float64)


def _pieces(array: Any, bits: int, piece: int) -> list[tuple[int, Any]]:
    """(shift, binary64 values below 2^piece) whose shifted sum is the array; negative numbers by magnitude."""
    if bits <= piece:
        return [(0, _real(array))]
    if bits > _WORD:
        array = array.astype(object)
    elif array.dtype.kind == "u":
        array = array.astype(np.int64)
    sign = np.where(array < 0, -1, 1)
    value = array * sign
    mask = (1 << piece) - 1
    return [(shift, _real(((value >> shift) & mask) * sign)) for shift in range(0, bits, piece)]
