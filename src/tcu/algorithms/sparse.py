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
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tcu.algorithms.matmul import matmul, strassen_like
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.algorithms.schemes import BilinearScheme
from tcu.algorithms.sketches import Sketch, rounding_of
from tcu.algorithms.sparse_matrix import SparseMatrix, scipy_sparse
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.formats.array import checked_seed
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
    ExtraMissingError:
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
    rng = np.random.default_rng(checked_seed(seed))
    x, y = _matrix("a", a), _matrix("b", b)
    if x.shape[1] != y.shape[0]:
        raise ShapeError(f"a {x.shape}, b {y.shape}: a needs as many columns as b has rows")
    problem = _Problem(machine, x, y, scheme, rng)
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
        self.a, self.b = (SparseMatrix(machine, x.astype(dtype)) for x in (a, b))
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
                return result.result()
            self.info.restarts += 1
            guess *= 2
        result = self._attempt(rows * columns)
        if not self._verified(result):
            raise InvalidOperationError(
                "the dense product did not pass its verification either: the machine's executor miscalculates"
            )
        return result.result()

    def _attempt(self, guess: int) -> SparseMatrix:
        """The whole product, by rounds on what is not resolved yet: disjoint rectangles of C."""
        rows = self.a.filled_rows(name="rows that are not empty")
        columns = self.b.filled_columns(name="columns that are not empty")
        shape = (self.a.shape[0], self.b.shape[1])
        known = SparseMatrix(self.machine, scipy_sparse().csr_array(shape, dtype=self.a.dtype))
        left = [_Rectangle(rows, columns, guess)]
        number = 0
        while left:
            rectangle = left.pop()
            if rectangle.rows.size and rectangle.columns.size:
                number += 1
                with self.machine.section(f"round {number}"):
                    found, more = self._round(known, rectangle)
                known = known.plus(found, name="add what was found")
                left += more
        return known.tidied(name="leave out zeros")

    def _round(self, known: SparseMatrix, rectangle: _Rectangle) -> tuple[Any, list[_Rectangle]]:
        """What it adds to what is known, and what it leaves."""
        rows, columns, guess = rectangle.rows, rectangle.columns, rectangle.guess
        buckets = _buckets(rows.size, columns.size, guess)
        a = self.a.rows(rows, name="select rows and columns")
        b = self.b.columns(columns, name="select rows and columns")
        if buckets == (rows.size, columns.size):
            found = self._dense(known, a, b, rows, columns)
            left: list[_Rectangle] = []
        else:
            found, left = self._sketched(known, a, b, rectangle, buckets)
        self.info.rounds.append(SparseRound(rows.size, columns.size, guess, buckets, found.nnz, not left))
        return found, left

    def _product(self, left: SparseMatrix, right: SparseMatrix) -> Any:
        """The dense product of two sparse matrices on the machine."""
        x, y = (matrix.dense(name="fill in zeros") for matrix in (left, right))
        result = (
            matmul(self.machine, x, y)
            if self.scheme is None
            else strassen_like(self.machine, x, y, self.scheme)
        )
        return left.product_on_host(right) if isinstance(result, ShapeArray) else result

    def _dense(
        self, known: SparseMatrix, a: SparseMatrix, b: SparseMatrix, rows: Any, columns: Any
    ) -> SparseMatrix:
        """What is missing, by the plain product."""
        cpu, name = self.machine.cpu, "read entries"
        largest = (
            cpu.total(np.max, x.norms(axis, name="norms"), name="norms") for x, axis in ((a, 1), (b, 0))
        )
        self._tolerate(math.prod(largest), a.shape[1])
        values = self._product(a, b)
        i, j = cpu.places(values, name=name)
        take = partial(cpu.each, operator.getitem, name=name)
        found = SparseMatrix.of_entries(
            self.machine, take(values, (i, j)), take(rows, i), take(columns, j), known.shape, name=name
        )
        return found.minus(known.within(rows, columns, name="what is known"), name="what is known")

    def _tolerate(self, norms: float, inner: int) -> None:
        if not self.exact:
            self.info.tolerance = max(self.info.tolerance, rounding_of(inner) * float(norms))

    def _sketched(
        self,
        known: SparseMatrix,
        a: SparseMatrix,
        b: SparseMatrix,
        rectangle: _Rectangle,
        buckets: tuple[int, int],
    ) -> tuple[SparseMatrix, list[_Rectangle]]:
        cpu, take = self.machine.cpu, partial(self.machine.cpu.each, operator.getitem, name="entries found")
        rows, columns = rectangle.rows, rectangle.columns
        sketches = [Sketch(self.machine, self.rng, self._product, a, b, buckets) for _ in range(_SKETCHES)]
        name = "what is known"
        row, column, values = known.within(rows, columns, name=name).entries(name=name)
        row, column = cpu.find(rows, row, name=name), cpu.find(columns, column, name=name)
        for sketch in sketches:
            self._tolerate(cpu.total(np.max, sketch.norms, name="norms"), a.shape[1])
            sketch.subtract(row, column, values)
        found: list[tuple[Any, Any, Any]] = []
        idle = 0
        for turn in range(_CYCLES * _SKETCHES):
            i, j, values = sketches[turn % _SKETCHES].entries()
            idle = 0 if i.size else idle + 1
            if idle == _SKETCHES:
                break
            if i.size:
                found.append((take(rows, i), take(columns, j), values))
                for sketch in sketches:
                    sketch.subtract(i, j, values)
        empty = [np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, known.dtype)]
        parts = zip(*found, strict=True) if found else ([self.machine.on_host(x)] for x in empty)
        i, j, values = (cpu.each(np.concatenate, list(part), name="entries found") for part in parts)
        values = self.machine.stored(values, known.dtype)
        entries = SparseMatrix.of_entries(self.machine, values, i, j, known.shape, name="entries found")
        return entries, _what_is_left(self.machine, rectangle, sketches)

    def _verified(self, result: SparseMatrix) -> bool:
        """Freivalds: C·x = A·(B·x) for random x; integers modulo 2^64, floating point within its rounding."""
        machine, columns = self.machine, self.b.shape[1]
        cpu, each = machine.cpu, partial(machine.cpu.each, name="verify")

        def both(matrices: Iterable[SparseMatrix], x: Any) -> tuple[Any, Any]:
            """C·x, and A·(B·x)."""
            a, b, c = matrices
            return c.times(x, name="verify"), a.times(b.times(x, name="verify"), name="verify")

        for _ in range(_CHECKS):
            matrices = (self.a, self.b, result)
            if self.exact:
                x = each(lambda: machine.on_host(self.rng.integers(0, 1 << 64, columns, np.uint64)))
                right = each(operator.eq, *both([matrix.stored(np.uint64) for matrix in matrices], x))
            else:
                x = each(
                    lambda: machine.on_host(
                        self.rng.uniform(0.5, 1.5, columns) * self.rng.choice((-1, 1), columns)
                    ),
                    work=3,
                )
                size = each(abs, x)
                slack = each(
                    operator.add, *both([matrix.magnitudes(name="verify") for matrix in matrices], size)
                )
                lost = each(operator.mul, rounding_of(self.b.shape[0] + columns), slack)
                allowed = each(
                    operator.add, lost, self.info.tolerance * cpu.total(np.sum, size, name="verify")
                )
                right = each(operator.le, each(abs, each(operator.sub, *both(matrices, x))), allowed)
            if not cpu.total(np.all, right, name="verify"):
                return False
        return True


def _what_is_left(machine: Machine, rectangle: _Rectangle, sketches: list[Sketch]) -> list[_Rectangle]:
    """The rectangles that hold all that the sketches did not resolve.

    What is not resolved of a row shows in its bucket of every sketch.  A row
    (or column) most of whose buckets are taken in every sketch holds more
    entries than its share: it goes on by itself, and does not keep all
    columns (or rows) in the rounds of the others.
    """
    rows, columns, guess = rectangle.rows, rectangle.columns, rectangle.guess
    cpu = machine.cpu
    each, total = (partial(operation, name="what is left") for operation in (cpu.each, cpu.total))
    by_row, by_column = (
        each(np.stack, shares) for shares in zip(*(s.unresolved() for s in sketches), strict=True)
    )
    if not total(np.any, by_row):
        return []
    open_rows, open_columns = (total(np.all, by, 0) for by in (by_row, by_column))
    if not (total(np.any, open_rows) and total(np.any, open_columns)):
        # The sketches disagree about what is left, so what was found is wrong somewhere.
        return [_Rectangle(rows, columns, 2 * guess)]
    heavy_rows, heavy_columns = (
        each(operator.gt, total(np.min, by, 0), _HEAVY) for by in (by_row, by_column)
    )

    def chosen(lines: Any, which: Any) -> Any:
        return each(operator.getitem, lines, cpu.places(which, name="what is left"))

    few = all(
        2 * total(np.sum, heavy) < total(np.sum, left)
        for heavy, left in ((heavy_rows, open_rows), (heavy_columns, open_columns))
    )
    if not few:  # the guess is too low for all of them
        return [_Rectangle(chosen(rows, open_rows), chosen(columns, open_columns), 2 * guess)]
    light_rows, light_columns = (
        each(operator.and_, left, each(operator.invert, heavy))
        for heavy, left in ((heavy_rows, open_rows), (heavy_columns, open_columns))
    )
    left = [
        _Rectangle(chosen(rows, heavy_rows), chosen(columns, open_columns), guess),
        _Rectangle(chosen(rows, light_rows), chosen(columns, heavy_columns), guess),
        _Rectangle(chosen(rows, light_rows), chosen(columns, light_columns), 2 * guess),
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
