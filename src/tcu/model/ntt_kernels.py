"""Number-theoretic transforms modulo p = 2^64 - 2^32 + 1 on one core; compiled by Numba.

2^64 is 2^32 - 1 modulo p and 2^96 is -1, so a product of 128 bits is reduced by one subtraction and one addition.  Numbers
are kept below 2^64, and below p where they come out.
"""
# Compiled by Numba, which types them; the intrinsic takes one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcu.model.jit import jit

__all__ = ["carry", "fill_roots", "multiply", "reorder", "to_digits", "transform", "transform_back"]

_P = np.uint64(0xFFFFFFFF00000001)
_EPSILON = np.uint64(0xFFFFFFFF)
"""2^64 modulo p, and 2^64 - p."""
_HALF = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_DIGIT = np.uint64(16)
_DIGIT_MASK = np.uint64(0xFFFF)


@intrinsic
def _high(typingctx, x, y):
    """The upper half of the product of two words."""

    def codegen(context, builder, signature, arguments):
        wide = ir.IntType(128)
        a, b = (builder.zext(each, wide) for each in arguments)
        upper = builder.lshr(builder.mul(a, b), ir.Constant(wide, 64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@numba.njit(nogil=True, inline="always")
def _times(x, y):
    high, low = _high(x, y), x * y
    top = high >> _HALF
    first = low - top
    if low < top:
        first -= _EPSILON
    second = (high & _EPSILON) * _EPSILON
    total = first + second
    return total + _EPSILON if total < second else total


@numba.njit(nogil=True, inline="always")
def _plus(x, y):
    """Of numbers below p."""
    total = x + y
    if total < x or total >= _P:
        total -= _P
    return total


@numba.njit(nogil=True, inline="always")
def _minus(x, y):
    """Of numbers below p."""
    return x - y if x >= y else x - y + _P


@numba.njit(nogil=True, inline="always")
def _below(x):
    return x - _P if x >= _P else x


@jit
def fill_roots(roots, steps):
    """At h + j the j-th power of a primitive 2h-th root, for h = 1, 2, 4, ...; ``steps``: that root for each h."""
    half, level = 1, 0
    while half < roots.size:
        step, root = steps[level], _ONE
        for j in range(half):
            roots[half + j] = root
            root = _below(_times(root, step))
        half, level = 2 * half, level + 1


@jit
def transform(x, roots):
    """Rows of (batch, n), below p, in place; results come with their numbers' bits reversed."""
    n = x.shape[1]
    for row in range(x.shape[0]):
        line = x[row]
        half = n >> 1
        while half:
            for first in range(0, n, 2 * half):
                for j in range(half):
                    a, b = line[first + j], line[first + half + j]
                    line[first + j] = _plus(a, b)
                    line[first + half + j] = _below(_times(_minus(a, b), roots[half + j]))
            half >>= 1


@jit
def transform_back(x, roots, factor):
    """Undoes it, of the same order, with the roots' inverses; all numbers times the factor."""
    n = x.shape[1]
    for row in range(x.shape[0]):
        line = x[row]
        half = 1
        while half < n:
            for first in range(0, n, 2 * half):
                for j in range(half):
                    a, b = line[first + j], _below(_times(line[first + half + j], roots[half + j]))
                    line[first + j] = _plus(a, b)
                    line[first + half + j] = _minus(a, b)
            half *= 2
        for i in range(n):
            line[i] = _below(_times(line[i], factor))


@jit
def reorder(x):
    """Rows whose places trade with those of reversed bits; every number below p."""
    n = x.shape[1]
    for row in range(x.shape[0]):
        line = x[row]
        other = 0
        for i in range(n):
            if i < other:
                line[i], line[other] = _below(line[other]), _below(line[i])
            elif i == other:
                line[i] = _below(line[i])
            bit = n >> 1
            while bit and other & bit:
                other ^= bit
                bit >>= 1
            other |= bit


@jit
def multiply(x, y):
    """x times y, number by number, in place."""
    for row in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[row, i] = _below(_times(x[row, i], y[row, i]))


@jit
def to_digits(halves, x):
    """Rows of digits of 16 bits as numbers, with zeros behind them."""
    for row in range(x.shape[0]):
        for i in range(halves.shape[1]):
            x[row, i] = np.uint64(halves[row, i])
        for i in range(halves.shape[1], x.shape[1]):
            x[row, i] = _ZERO


@jit
def carry(x, halves):
    """Rows of sums of products of digits as digits of 16 bits: a sum is below 2^63, and what is carried below 2^48."""
    for row in range(halves.shape[0]):
        carried = _ZERO
        for i in range(halves.shape[1]):
            total = carried + x[row, i] if i < x.shape[1] else carried
            halves[row, i] = np.uint16(total & _DIGIT_MASK)
            carried = total >> _DIGIT
