"""Number-theoretic transforms modulo p = 2^64 - 2^32 + 1, and products of long integers by them, in the host's memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tcu.model import compiled
from tcu.plan.ntt import P, product_length, root_of_unity

__all__ = ["convolve", "transform"]

_KEPT = 4
"""Tables of roots, of 8 bytes for each number of a transform, each way."""


@lru_cache(maxsize=_KEPT)
def _roots(n: int, back: bool) -> Any:
    kernels = compiled.load("ntt_kernels")
    levels = n.bit_length() - 1
    steps = [root_of_unity(2 << level) for level in range(levels)]
    numbers = np.array([pow(step, -1, P) if back else step for step in steps] or [1], np.uint64)
    roots = np.ones(max(n, 1), np.uint64)
    kernels.fill_roots(roots, numbers)
    roots.flags.writeable = False
    return roots


def transform(x: Any, *, back: bool) -> Any:
    """Of every row of (batch, n), n a power of two; the inverse is divided by n."""
    kernels = compiled.load("ntt_kernels")
    n = x.shape[1]
    line = np.ascontiguousarray(np.where(x >= np.uint64(P), x - np.uint64(P), x))
    if back:
        kernels.reorder(line)
        kernels.transform_back(line, _roots(n, True), np.uint64(pow(n, -1, P)))
    else:
        kernels.transform(line, _roots(n, False))
        kernels.reorder(line)
    return line


def convolve(a: Any, b: Any) -> Any:
    """Products of numbers, a row each, of digits of 16 bits, of (batch, la) and (batch, lb), as (batch, la + lb).

    The same array twice is transformed once.
    """
    kernels = compiled.load("ntt_kernels")
    left, right = a.shape[1], b.shape[1]
    result = np.empty((a.shape[0], left + right), np.uint16)
    n = product_length(left, right)
    roots, inverse = _roots(n, False), _roots(n, True)
    factor = np.uint64(pow(n, -1, P))
    first = np.empty((1, n), np.uint64)
    second = first if a is b else np.empty((1, n), np.uint64)
    for row in range(a.shape[0]):
        kernels.to_digits(a[row : row + 1], first)
        kernels.transform(first, roots)
        if a is not b:
            kernels.to_digits(b[row : row + 1], second)
            kernels.transform(second, roots)
        kernels.multiply(first, second)
        kernels.transform_back(first, inverse, factor)
        kernels.carry(first, result[row : row + 1])
    return result
