"""Sparse products on the (m, ℓ)-TCU machine: Theorem 3 of Silvestri and Vella, section 4.2.

After R. Jacob and M. Stöckel, *Fast output-sensitive matrix multiplication*
(ESA 2015): rows of A and columns of B are added up in about √Z buckets each, so
that one dense product holds all Z entries of C = A·B, about one to a bucket.
Here each row and column also comes with a random weight, and three products of
such sums by weights tell, for a bucket of one entry, which entry it is; it is
then taken out of the other sketches, where its neighbours become visible.

Whatever stays unresolved, because the guess of Z was too low or because a few
rows or columns hold more entries than the others, is the same problem on fewer
rows and columns, and is tried again with twice the buckets; in the end every
row and column has a bucket of its own, and the product is the plain dense one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.algorithms.matmul import matmul, strassen_like
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.algorithms.schemes import BilinearScheme
from tcu.algorithms.sketches import Sketch, norms_of, rounding_of, scipy_sparse
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray

__all__ = ["SparseInfo", "SparseRound", "random_sparse", "sparse_bound", "sparse_matmul"]

_SKETCHES = 3
_LOAD = 1.0
"""Entries of C to a bucket of one sketch.  Three sketches resolve loads up to about 2.4 (as hypergraphs peel);
the room is for outputs that are not balanced."""
_HEAVY = 0.5
"""The share of a row's buckets that must be unresolved for the row to count as one with too many entries."""
_CYCLES = 100
_CHECKS = 3
"""Random vectors of Freivalds' check.  In binary64 each is drawn from a continuum, modulo 2^64 from all words."""
_RESTARTS = 4


@dataclass(frozen=True)
class SparseRound:
    """One round of sketches."""

    rows: int
    columns: int
    """The rows of A and columns of B that took part."""
    guess: int
    """Z as it was guessed."""
    buckets: tuple[int, int]
    found: int
    """Entries that the round found."""
    resolved: bool
    """Whether nothing was left over."""


@dataclass
class SparseInfo:
    """How a sparse product came about."""

    rounds: list[SparseRound] = field(default_factory=list)
    restarts: int = 0
    """Times that the finished product failed its verification, and was computed anew."""
    tolerance: float = 0.0
    """Of floating point: no entry is further than this from A·B; smaller ones may be missing.  0 for integers."""


@overload
def sparse_matmul(
    machine: Machine, a: Any, b: Any, *, nonzeros: int | None = ..., scheme: str | BilinearScheme | None = ...,
    seed: int = ..., return_info: Literal[False] = ...,
) -> Any: ...  # fmt: skip
@overload
def sparse_matmul(
    machine: Machine, a: Any, b: Any, *, nonzeros: int | None = ..., scheme: str | BilinearScheme | None = ...,
    seed: int = ..., return_info: Literal[True],
) -> tuple[Any, SparseInfo]: ...  # fmt: skip
def sparse_matmul(
    machine: Machine,
    a: Any,
    b: Any,
    *,
    nonzeros: int | None = None,
    scheme: str | BilinearScheme | None = None,
    seed: int = 0,
    return_info: bool = False,
) -> Any:
    """A·B of sparse matrices, at a cost that depends on the entries of the product.

    Parameters
    ----------
    machine:
        Where the dense products run.  On one that only counts, SciPy
        multiplies the sketches, as what happens next depends on them.
    a, b:
        (rows, inner) and (inner, columns): SciPy's sparse arrays or matrices,
        or anything that they are made of; real numbers or integers, finite.
    nonzeros:
        Z, the entries of the product, if they are known; a wrong number costs
        time only.  None: guessed from the operands.
    scheme:
        The dense product: None for that of Theorem 2, or a Strassen-like one
        of Theorem 1, as :func:`~tcu.algorithms.matmul.strassen_like` takes it.
    seed:
        Of the hash functions, the weights and the verification.
    return_info:
        Return a :class:`SparseInfo` as well.

    Returns
    -------
    ``scipy.sparse.csr_array`` of int64 or float64, sorted, without stored
    zeros.  Integers are exact.  Floating point is as near as ``info.tolerance``
    says.  Either was verified by Freivalds' method, which misses an error below
    2^51 in an integer with a chance of at most 2^-39.

    Raises
    ------
    MissingPackageError:
        SciPy is missing: ``pip install 'tcu[sparse]'``.
    ShapeError:
        Operands that are no matrices or do not fit each other.
    DtypeError:
        Complex numbers, or none; a unit of narrow operands.
    InvalidOperationError:
        A NaN or an infinity.
    ParameterError:
        ``nonzeros`` below 0; integers so large that their weighted sums need
        more than 62 bits.
    """
    if nonzeros is not None and (
        isinstance(nonzeros, bool) or not isinstance(nonzeros, int | np.integer) or nonzeros < 0
    ):
        raise ParameterError(f"nonzeros={nonzeros!r}: give the entries of the product, or None")
    x, y = _matrix("a", a), _matrix("b", b)
    if x.shape[1] != y.shape[0]:
        raise ShapeError(f"a {x.shape}, b {y.shape}: a needs as many columns as b has rows")
    problem = _Problem(machine, x, y, scheme, np.random.default_rng(seed))
    with machine.section("sparse product"):
        result = problem.solve(nonzeros)
    return (result, problem.info) if return_info else result


def _matrix(label: str, value: Any) -> Any:
    """As csr_array of int64 or float64, without duplicates or zeros."""
    sparse = scipy_sparse()
    if not sparse.issparse(value):
        value = np.asarray(value)
    if value.ndim != 2:
        raise ShapeError(f"{label} has shape {value.shape}: give a matrix")
    kind = value.dtype.kind
    if kind not in "iubf":
        raise DtypeError(f"{label} has dtype {value.dtype}: give real numbers or integers")
    matrix = sparse.csr_array(value)
    if kind == "u" and matrix.nnz and int(matrix.data.max()) >= 1 << 63:
        raise ParameterError(f"{label} holds {int(matrix.data.max())}: integers need to be below 2^63")
    matrix = matrix.astype(np.float64 if kind == "f" else np.int64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if kind == "f" and not np.isfinite(matrix.data).all():
        raise InvalidOperationError(
            f"{label} holds a NaN or an infinity: sums by weights need finite numbers"
        )
    return matrix


@dataclass(frozen=True)
class _Rectangle:
    """Rows of A and columns of B whose entries of C are not all known."""

    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    guess: int
    """How many they are taken to be."""


class _Problem:
    """A product on its way."""

    def __init__(
        self, machine: Machine, a: Any, b: Any, scheme: str | BilinearScheme | None, rng: np.random.Generator
    ) -> None:
        self.machine = machine
        self.exact = a.dtype == np.int64 and b.dtype == np.int64
        dtype = np.int64 if self.exact else np.float64
        self.a, self.b = a.astype(dtype), b.astype(dtype)
        self.scheme = scheme
        self.rng = rng
        self.info = SparseInfo()
        dtypes = machine.executor.dtypes
        double = dtypes.result == np.float64 and dtypes.operand in (None, np.dtype(np.float64))
        if machine.executor.computes and not double:
            raise DtypeError(
                f"{machine.executor!r} multiplies {dtypes.operand}: sums by weights need a unit of binary64"
            )

    def solve(self, nonzeros: int | None) -> Any:
        rows, columns = self.a.shape[0], self.b.shape[1]
        guess = max(self.a.nnz, self.b.nnz) if nonzeros is None else nonzeros
        # Fewer buckets than the unit has entries save nothing.
        guess = max(guess, self.machine.m)
        for _ in range(_RESTARTS):
            result = self._attempt(guess)
            if self._verified(result):
                return result
            self.info.restarts += 1
            guess *= 2
        result = self._attempt(rows * columns)
        if not self._verified(result):
            raise InvalidOperationError(
                "the dense product did not pass its verification either: the machine's executor miscalculates"
            )
        return result

    def _attempt(self, guess: int) -> Any:
        """The whole product, by rounds on what is not resolved yet: disjoint rectangles of C."""
        rows = np.flatnonzero(np.diff(self.a.indptr))
        columns = np.flatnonzero(np.bincount(self.b.indices, minlength=self.b.shape[1]))
        known = scipy_sparse().csr_array((self.a.shape[0], self.b.shape[1]), dtype=self.a.dtype)
        left = [_Rectangle(rows, columns, guess)]
        number = 0
        while left:
            rectangle = left.pop()
            if rectangle.rows.size and rectangle.columns.size:
                number += 1
                with self.machine.section(f"round {number}"):
                    found, more = self._round(known, rectangle)
                known = known + found
                left += more
        known.sum_duplicates()
        known.eliminate_zeros()
        return known

    def _round(self, known: Any, rectangle: _Rectangle) -> tuple[Any, list[_Rectangle]]:
        """What it adds to what is known, and what it leaves."""
        rows, columns, guess = rectangle.rows, rectangle.columns, rectangle.guess
        buckets = _buckets(rows.size, columns.size, guess)
        a, b = self.a[rows], self.b[:, columns]
        self.machine.step(a.nnz + b.nnz, "select rows and columns")
        if buckets == (rows.size, columns.size):
            found = self._dense(known, a, b, rows, columns)
            left: list[_Rectangle] = []
        else:
            found, left = self._sketched(known, a, b, rectangle, buckets)
        self.info.rounds.append(SparseRound(rows.size, columns.size, guess, buckets, found.nnz, not left))
        return found, left

    def _product(self, left: Any, right: Any) -> Any:
        """The dense product of two sparse matrices on the machine."""
        if self.machine.executor.computes:
            x, y = left.toarray(), right.toarray()
        else:
            x, y = ShapeArray(left.shape, left.dtype), ShapeArray(right.shape, right.dtype)
        result = (
            matmul(self.machine, x, y)
            if self.scheme is None
            else strassen_like(self.machine, x, y, self.scheme)
        )
        return (left @ right).toarray() if isinstance(result, ShapeArray) else result

    def _dense(self, known: Any, a: Any, b: Any, rows: Any, columns: Any) -> Any:
        """What is missing, by the plain product."""
        self._tolerate(norms_of(a, 1).max() * norms_of(b, 0).max(), a.shape[1])
        values = self._product(a, b)
        self.machine.step(values.size, "read entries")
        i, j = np.nonzero(values)
        shape = known.shape
        found = scipy_sparse().csr_array((values[i, j], (rows[i], columns[j])), shape=shape)
        return found - _restricted(known, rows, columns)

    def _tolerate(self, norms: float, inner: int) -> None:
        if not self.exact:
            self.info.tolerance = max(self.info.tolerance, rounding_of(inner) * float(norms))

    def _sketched(
        self, known: Any, a: Any, b: Any, rectangle: _Rectangle, buckets: tuple[int, int]
    ) -> tuple[Any, list[_Rectangle]]:
        rows, columns = rectangle.rows, rectangle.columns
        sketches = [Sketch(self.machine, self.rng, self._product, a, b, buckets) for _ in range(_SKETCHES)]
        before = _restricted(known, rows, columns).tocoo()
        local_rows, local_columns = np.searchsorted(rows, before.row), np.searchsorted(columns, before.col)
        for sketch in sketches:
            self._tolerate(sketch.norms.max(), a.shape[1])
            sketch.subtract(local_rows, local_columns, before.data)
        found: list[tuple[Any, Any, Any]] = []
        idle = 0
        for turn in range(_CYCLES * _SKETCHES):
            i, j, values = sketches[turn % _SKETCHES].entries()
            idle = 0 if i.size else idle + 1
            if idle == _SKETCHES:
                break
            if i.size:
                found.append((rows[i], columns[j], values))
                for sketch in sketches:
                    sketch.subtract(i, j, values)
        i, j, values = (np.concatenate(part) for part in zip(*found, strict=True)) if found else ((), (), ())
        entries = scipy_sparse().csr_array((np.asarray(values, known.dtype), (i, j)), shape=known.shape)
        return entries, _what_is_left(rectangle, sketches)

    def _verified(self, result: Any) -> bool:
        """Freivalds: C·x = A·(B·x) for random x; integers modulo 2^64, floating point within its rounding."""
        a, b, c = self.a, self.b, result
        self.machine.step(2 * _CHECKS * (a.nnz + b.nnz + c.nnz), "verify")
        for _ in range(_CHECKS):
            if self.exact:
                x = self.rng.integers(0, 1 << 64, b.shape[1], np.uint64)
                words = [matrix.astype(np.uint64) for matrix in (a, b, c)]
                if not np.array_equal(words[2] @ x, words[0] @ (words[1] @ x)):
                    return False
            else:
                x = self.rng.uniform(0.5, 1.5, b.shape[1]) * self.rng.choice((-1, 1), b.shape[1])
                slack = abs(c) @ abs(x) + abs(a) @ (abs(b) @ abs(x))
                depth = b.shape[0] + b.shape[1]
                allowed = rounding_of(depth) * slack + self.info.tolerance * abs(x).sum()
                if not (abs(c @ x - a @ (b @ x)) <= allowed).all():
                    return False
        return True


def _what_is_left(rectangle: _Rectangle, sketches: list[Sketch]) -> list[_Rectangle]:
    """The rectangles that hold all that the sketches did not resolve.

    What is not resolved of a row shows in its bucket of every sketch.  A row
    (or column) most of whose buckets are taken in every sketch holds more
    entries than its share: it goes on by itself, and does not keep all
    columns (or rows) in the rounds of the others.
    """
    rows, columns, guess = rectangle.rows, rectangle.columns, rectangle.guess
    by_row, by_column = (np.stack(shares) for shares in zip(*(s.unresolved() for s in sketches), strict=True))
    if not by_row.any():
        return []
    open_rows, open_columns = by_row.all(axis=0), by_column.all(axis=0)
    if not (open_rows.any() and open_columns.any()):
        # The sketches disagree about what is left, so what was found is wrong somewhere.
        return [_Rectangle(rows, columns, 2 * guess)]
    heavy_rows, heavy_columns = by_row.min(axis=0) > _HEAVY, by_column.min(axis=0) > _HEAVY
    few = 2 * heavy_rows.sum() < open_rows.sum() and 2 * heavy_columns.sum() < open_columns.sum()
    if not few:  # the guess is too low for all of them
        return [_Rectangle(rows[open_rows], columns[open_columns], 2 * guess)]
    light_rows, light_columns = open_rows & ~heavy_rows, open_columns & ~heavy_columns
    left = [
        _Rectangle(rows[heavy_rows], columns[open_columns], guess),
        _Rectangle(rows[light_rows], columns[heavy_columns], guess),
        _Rectangle(rows[light_rows], columns[light_columns], 2 * guess),
    ]
    return [part for part in left if part.rows.size and part.columns.size]


def _buckets(rows: int, columns: int, guess: int) -> tuple[int, int]:
    """Buckets of rows and of columns: about guess in all, no more than there are of either, square if it can be.

    (rows, columns) where compression would not save half of the product, which
    four sums for each bucket and three sketches eat up.
    """
    wanted = guess / _LOAD
    if 4 * _SKETCHES * wanted >= rows * columns:
        return rows, columns
    side = math.ceil(math.sqrt(wanted))
    if side > rows:
        return rows, min(columns, math.ceil(wanted / rows))
    if side > columns:
        return min(rows, math.ceil(wanted / columns)), columns
    return side, side


def _restricted(matrix: Any, rows: Any, columns: Any) -> Any:
    """The entries in these rows and columns, in the whole matrix's shape."""
    keep_rows, keep_columns = np.zeros(matrix.shape[0], bool), np.zeros(matrix.shape[1], bool)
    keep_rows[rows], keep_columns[columns] = True, True
    entries = matrix.tocoo()
    kept = keep_rows[entries.row] & keep_columns[entries.col]
    return scipy_sparse().csr_array(
        (entries.data[kept], (entries.row[kept], entries.col[kept])), shape=matrix.shape
    )


def sparse_bound(
    machine: MachineLike, inner: int, nonzeros: int, entries: int, exponent: float = 1.5
) -> float:
    """√(n / Z) · (Z / m)^ω_0 · (m + ℓ) + I of Theorem 3.

    inner: √n; nonzeros: Z, of the product; entries: I, of A and B together;
    exponent: ω_0 of the dense product, 3/2 for the standard one.  The theorem
    is for Z of at least m; a smaller Z counts as m.
    """
    m, latency = parameters(machine)
    z = max(nonzeros, m)
    return float(inner / math.sqrt(z) * (z / m) ** exponent * (m + latency) + entries)


def random_sparse(rows: int, per_row: int, seed: int = 0) -> Any:
    """A square csr_array of ``per_row`` random ones (or their sums) in each row and, on average, in each column.

    The product of two such has about rows · per_row² entries, evenly spread.
    """
    rng = np.random.default_rng(seed)
    columns = np.concatenate([rng.permutation(rows) for _ in range(per_row)])
    index = np.tile(np.arange(rows), per_row)
    return scipy_sparse().csr_array((np.ones(columns.size, np.int64), (index, columns)), shape=(rows, rows))
