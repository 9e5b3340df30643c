"""Sums of a sparse product by buckets of its rows and columns, and the entries that they show."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tcu.algorithms.sparse_matrix import SparseMatrix
from tcu.errors import ParameterError
from tcu.machine import Machine
from tcu.machine.shapes import empty

__all__ = ["Sketch", "rounding_of"]

_WEIGHT_BITS = (6, 16)
"""The fewest bits of a weight that tell rows apart at all, and as many as are of use."""
_INT64 = 62


class Sketch:
    """Sums of C by buckets: plain, weighted by row, by column, and by both; of all that is not found yet."""

    def __init__(
        self,
        machine: Machine,
        rng: np.random.Generator,
        multiply: Callable[[SparseMatrix, SparseMatrix], Any],
        a: SparseMatrix,
        b: SparseMatrix,
        buckets: tuple[int, int],
    ) -> None:
        self._machine = machine
        self._exact = a.dtype == np.int64
        self.buckets = buckets
        cpu, each = machine.cpu, partial(machine.cpu.each, name="compress")
        # A random bucket for each row and column, all equally full.
        self._row_bucket, self._column_bucket = (
            each(_balanced, machine, rng, count, number, work=2)
            for count, number in zip((a.shape[0], b.shape[1]), buckets, strict=True)
        )
        left, right = self._compressed(a, b)
        row_norms, column_norms = (
            matrix.magnitudes(name="norms").norms(axis, name="norms")
            for matrix, axis in ((left, 1), (right, 0))
        )
        self.norms = cpu.each(np.multiply, row_norms[:, None], column_norms[None, :], name="norms")
        bits = _WEIGHT_BITS[1]
        if self._exact:
            magnitudes = (x.magnitudes(name="norms").stored(np.float64) for x in (a, b))
            sums, largest = self._compressed(*magnitudes)
            most = cpu.total(np.max, sums.row_sums(name="norms"), name="norms")
            bits = _weight_bits(float(most), largest.largest(name="norms"))
        self._row_weight, self._column_weight = (
            each(_drawn, machine, rng, bits, count) for count in (a.shape[0], b.shape[1])
        )
        weighted_left, weighted_right = self._compressed(
            a.by_rows(self._row_weight, name="compress"), b.by_columns(self._column_weight, name="compress")
        )
        product = multiply(
            left.above(weighted_left, name="compress"), right.beside(weighted_right, name="compress")
        )
        r, c = buckets
        # Plain, by row, by column, by both.
        self._sums = empty((4, r, c), product.dtype, like=product)
        for plane, part in zip(
            self._sums, (product[:r, :c], product[r:, :c], product[:r, c:], product[r:, c:]), strict=True
        ):
            cpu.put(plane, part, "compress")
        scale = float(1 << bits)
        rounding = 0.0 if self._exact else rounding_of(a.shape[1])
        self._slack = [
            cpu.each(np.multiply, rounding * factor, self.norms, name="norms")
            for factor in (1.0, scale, scale, scale * scale)
        ]
        self._rows = _Lookup(machine, self._row_bucket, self._row_weight)
        self._columns = _Lookup(machine, self._column_bucket, self._column_weight)

    def _compressed(self, a: SparseMatrix, b: SparseMatrix) -> tuple[SparseMatrix, SparseMatrix]:
        return (
            a.sums_of_rows(self._row_bucket, self.buckets[0], name="compress"),
            b.sums_of_columns(self._column_bucket, self.buckets[1], name="compress"),
        )

    def subtract(self, i: Any, j: Any, values: Any) -> None:
        """Takes entries (i, j) of C out."""
        cpu, each = self._machine.cpu, partial(self._machine.cpu.each, name="take out")
        take = partial(each, operator.getitem)
        where = (take(self._row_bucket, i), take(self._column_bucket, j))
        by_row = each(operator.mul, values, self._machine.stored(take(self._row_weight, i), values.dtype))
        weight = self._machine.stored(take(self._column_weight, j), values.dtype)
        terms = (values, by_row, each(operator.mul, values, weight), each(operator.mul, by_row, weight))
        for plane, term in zip(self._sums, terms, strict=True):
            # A term is read and the sum in its bucket; the difference is written.
            cpu.total(lambda term, plane: np.subtract.at(plane, where, term), term, plane, name="take out")

    def entries(self) -> tuple[Any, Any, Any]:
        """(i, j, values) of the buckets that hold one entry, as their four sums say."""
        machine = self._machine
        each = partial(machine.cpu.each, name="look for entries")
        take = partial(each, operator.getitem)
        filled = each(operator.gt, each(abs, self._sums[0]), self._slack[0])
        r, c = machine.cpu.places(filled, name="look for entries")
        value, by_row, by_column, by_both = (take(plane, (r, c)) for plane in self._sums)
        if self._exact:
            row, column = each(operator.floordiv, by_row, value), each(operator.floordiv, by_column, value)
        else:
            row, column = (each(np.rint, each(operator.truediv, by, value)) for by in (by_row, by_column))
        slack = [take(s, (r, c)) for s in self._slack]

        def near(sums: Any, product: Any, allowed: Any) -> Any:
            return each(operator.le, each(abs, each(operator.sub, sums, product)), allowed)

        good = each(
            operator.and_,
            near(by_row, each(operator.mul, row, value), slack[1]),
            near(by_column, each(operator.mul, column, value), slack[2]),
        )
        for weight in (row, column):
            good = each(operator.and_, good, each(operator.gt, weight, 0))
            good = each(operator.and_, good, each(operator.lt, weight, 1 << _WEIGHT_BITS[1]))
        kept = machine.cpu.places(good, name="look for entries")
        r, c, value, row, column, by_both, allowed = (
            take(v, kept) for v in (r, c, value, row, column, by_both, slack[3])
        )
        good = near(by_both, each(operator.mul, each(operator.mul, row, column), value), allowed)
        i, i_known = self._rows.find(r, row)
        j, j_known = self._columns.find(c, column)
        good = each(operator.and_, each(operator.and_, good, i_known), j_known)
        kept = machine.cpu.places(good, name="look for entries")
        return take(i, kept), take(j, kept), take(value, kept)

    def unresolved(self) -> tuple[Any, Any]:
        """For each row, and each column, the share of its buckets that are not empty yet."""
        cpu, each = self._machine.cpu, partial(self._machine.cpu.each, name="what is left")
        filled = [each(operator.gt, each(abs, p), s) for p, s in zip(self._sums, self._slack, strict=True)]
        left = filled[0]
        for one in filled[1:]:
            left = each(operator.or_, left, one)
        shares = (cpu.total(np.mean, left, axis, name="what is left") for axis in (1, 0))
        return tuple(
            each(operator.getitem, share, bucket)
            for share, bucket in zip(shares, (self._row_bucket, self._column_bucket), strict=True)
        )


class _Lookup:
    """From (bucket, weight) to the row or column that has them."""

    def __init__(self, machine: Machine, bucket: Any, weight: Any) -> None:
        self._machine = machine
        key = self._key(bucket, weight)
        self._order = machine.cpu.order(key, name="sort by bucket and weight")
        self._keys = machine.cpu.each(operator.getitem, key, self._order, name="sort by bucket and weight")

    def _key(self, bucket: Any, weight: Any) -> Any:
        each = partial(self._machine.cpu.each, name="keys")
        return each(operator.add, each(operator.mul, bucket, 1 << _WEIGHT_BITS[1]), weight)

    def find(self, bucket: Any, weight: Any) -> tuple[Any, Any]:
        each = partial(self._machine.cpu.each, name="look up")
        key = self._key(bucket, self._machine.stored(weight, np.int64))
        place = self._machine.cpu.find(self._keys, key, name="look up")
        place = each(np.minimum, place, len(self._keys) - 1)
        found = each(operator.eq, each(operator.getitem, self._keys, place), key)
        return each(operator.getitem, self._order, place), found


def _balanced(machine: Machine, rng: np.random.Generator, count: int, buckets: int) -> Any:
    return machine.on_host(rng.permutation(count) % buckets)


def _drawn(machine: Machine, rng: np.random.Generator, bits: int, count: int) -> Any:
    return machine.on_host(rng.integers(1, 1 << bits, count))


def _weight_bits(row: float, most: float) -> int:
    """Bits of the weights with which no weighted sum of products exceeds 62 bits.

    row: the largest sum of a row of |A|'s buckets; most: the largest of |B|'s.
    In binary64, whose rounding one part in 2^40 more than covers.
    """
    rows = row * (1 + 2.0**-40)
    largest = math.ceil(rows) * int(most)
    bits = min(_WEIGHT_BITS[1], (_INT64 - largest.bit_length()) // 2)
    if bits < _WEIGHT_BITS[0]:
        raise ParameterError(
            f"sums of these products reach {largest.bit_length()} bits, and weights of {_WEIGHT_BITS[0]} "
            f"bits each need room in {_INT64}: pass float64, or matrices of smaller integers"
        )
    return bits


def rounding_of(inner: int) -> float:
    """What a sum of ``inner`` products loses, relative to the norms of its operands, and what is taken out of it."""
    return (inner + 256) * 2.0**-52
