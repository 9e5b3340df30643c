"""Sums of a sparse product by buckets of its rows and columns, and the entries that they show."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import MissingPackageError, ParameterError
from tcu.machine import Machine

__all__ = ["Sketch", "norms_of", "rounding_of", "scipy_sparse"]

_WEIGHT_BITS = (6, 16)
"""The fewest bits of a weight that tell rows apart at all, and as many as are of use."""
_INT64 = 62


def scipy_sparse() -> Any:
    """The module scipy.sparse.  Raises MissingPackageError where SciPy is not installed."""
    try:
        import scipy.sparse
    except ImportError:
        raise MissingPackageError("sparse products need SciPy: pip install 'tcu[sparse]'") from None
    return scipy.sparse


class Sketch:
    """Sums of C by buckets: plain, weighted by row, by column, and by both; of all that is not found yet."""

    def __init__(
        self,
        machine: Machine,
        rng: np.random.Generator,
        multiply: Callable[[Any, Any], Any],
        a: Any,
        b: Any,
        buckets: tuple[int, int],
    ) -> None:
        self._machine = machine
        self._exact = a.dtype == np.int64
        self.buckets = buckets
        self._row_bucket = _balanced(rng, a.shape[0], buckets[0])
        self._column_bucket = _balanced(rng, b.shape[1], buckets[1])
        left = _gather(self._row_bucket, buckets[0], a.dtype)
        right = _gather(self._column_bucket, buckets[1], b.dtype).T.tocsr()
        self.norms = norms_of(abs(left @ a), 1)[:, None] * norms_of(abs(b @ right), 0)[None, :]
        bits = _WEIGHT_BITS[1]
        if self._exact:
            sizes = [abs(x).astype(np.float64) for x in (left, a, b, right)]
            bits = _weight_bits(sizes[0] @ sizes[1], sizes[2] @ sizes[3])
        self._row_weight = rng.integers(1, 1 << bits, a.shape[0])
        self._column_weight = rng.integers(1, 1 << bits, b.shape[1])
        sparse = scipy_sparse()
        weighted_a = sparse.diags_array(self._row_weight.astype(a.dtype), dtype=a.dtype) @ a
        weighted_b = b @ sparse.diags_array(self._column_weight.astype(b.dtype), dtype=b.dtype)
        self._machine.step(3 * (a.nnz + b.nnz), "compress")
        product = multiply(
            sparse.vstack([left @ a, left @ weighted_a], format="csr"),
            sparse.hstack([b @ right, weighted_b @ right], format="csr"),
        )
        r, c = buckets
        # Plain, by row, by column, by both.
        self._sums = np.stack([product[:r, :c], product[r:, :c], product[:r, c:], product[r:, c:]])
        scale = float(1 << bits)
        rounding = 0.0 if self._exact else rounding_of(a.shape[1])
        self._slack = [rounding * factor * self.norms for factor in (1.0, scale, scale, scale * scale)]
        self._rows = _Lookup(self._row_bucket, self._row_weight)
        self._columns = _Lookup(self._column_bucket, self._column_weight)

    def subtract(self, i: Any, j: Any, values: Any) -> None:
        """Takes entries (i, j) of C out."""
        self._machine.step(8 * len(values), "take out")
        where = (self._row_bucket[i], self._column_bucket[j])
        by_row = values * self._row_weight[i].astype(values.dtype)
        weight = self._column_weight[j].astype(values.dtype)
        for plane, term in zip(self._sums, (values, by_row, values * weight, by_row * weight), strict=True):
            np.subtract.at(plane, where, term)

    def entries(self) -> tuple[Any, Any, Any]:
        """(i, j, values) of the buckets that hold one entry, as their four sums say."""
        self._machine.step(6 * self._sums[0].size, "look for entries")
        r, c = np.nonzero(abs(self._sums[0]) > self._slack[0])
        value, by_row, by_column, by_both = self._sums[:, r, c]
        if self._exact:
            row, column = by_row // value, by_column // value
        else:
            row, column = np.rint(by_row / value), np.rint(by_column / value)
        slack = [s[r, c] for s in self._slack]
        good = (
            (abs(by_row - row * value) <= slack[1])
            & (abs(by_column - column * value) <= slack[2])
            & ((row > 0) & (row < 1 << _WEIGHT_BITS[1]))
            & ((column > 0) & (column < 1 << _WEIGHT_BITS[1]))
        )
        r, c, value, row, column, by_both = (v[good] for v in (r, c, value, row, column, by_both))
        good = abs(by_both - row * column * value) <= slack[3][good]
        i, i_known = self._rows.find(r, row)
        j, j_known = self._columns.find(c, column)
        good &= i_known & j_known
        return i[good], j[good], value[good]

    def unresolved(self) -> tuple[Any, Any]:
        """For each row, and each column, the share of its buckets that are not empty yet."""
        left = np.logical_or.reduce([abs(p) > s for p, s in zip(self._sums, self._slack, strict=True)])
        return left.mean(axis=1)[self._row_bucket], left.mean(axis=0)[self._column_bucket]


class _Lookup:
    """From (bucket, weight) to the row or column that has them."""

    def __init__(self, bucket: Any, weight: Any) -> None:
        key = bucket * (1 << _WEIGHT_BITS[1]) + weight
        self._order = np.argsort(key, kind="stable")
        self._keys = key[self._order]

    def find(self, bucket: Any, weight: Any) -> tuple[Any, Any]:
        key = bucket * (1 << _WEIGHT_BITS[1]) + np.asarray(weight, np.int64)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return self._order[place], self._keys[place] == key


def _balanced(rng: np.random.Generator, count: int, buckets: int) -> Any:
    """A random bucket for each of ``count``, all buckets equally full."""
    return rng.permutation(count) % buckets


def _gather(bucket: Any, buckets: int, dtype: Any) -> Any:
    """(buckets, n): the matrix that adds up rows by buckets."""
    n = len(bucket)
    return scipy_sparse().csr_array((np.ones(n, dtype), (bucket, np.arange(n))), shape=(buckets, n))


def _weight_bits(a: Any, b: Any) -> int:
    """Bits of the weights with which no weighted sum of products exceeds 62 bits."""
    # In binary64, whose rounding one part in 2^40 more than covers.
    rows = float(a.sum(axis=1).max()) * (1 + 2.0**-40)
    largest = math.ceil(rows) * int(b.max())
    bits = min(_WEIGHT_BITS[1], (_INT64 - largest.bit_length()) // 2)
    if bits < _WEIGHT_BITS[0]:
        raise ParameterError(
            f"sums of these products reach {largest.bit_length()} bits, and weights of {_WEIGHT_BITS[0]} "
            f"bits each need room in {_INT64}: pass float64, or matrices of smaller integers"
        )
    return bits


def norms_of(matrix: Any, axis: int) -> Any:
    """Euclidean norms of the rows (axis 1) or columns (axis 0)."""
    squares = matrix.astype(np.float64)
    squares.data **= 2
    return np.sqrt(np.asarray(squares.sum(axis=axis)).ravel())


def rounding_of(inner: int) -> float:
    """What a sum of ``inner`` products loses, relative to the norms of its operands, and what is taken out of it."""
    return (inner + 256) * 2.0**-52
