"""Sparse matrices on a machine: what is done with their entries, charged where it is done."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.errors import ExtraMissingError
from tcu.machine import Machine

__all__ = ["SparseMatrix", "scipy_sparse"]


def scipy_sparse() -> Any:
    """The module scipy.sparse.  Raises ExtraMissingError where SciPy is not installed."""
    try:
        import scipy.sparse
    except ImportError:
        raise ExtraMissingError("sparse products need SciPy: pip install 'tcu[sparse]'") from None
    return scipy.sparse


class SparseMatrix:
    """A csr_array of which a program on a machine sees what it is charged for, and nothing else.

    Entries are taken row by row.  One step for each that is read, written,
    moved, added or multiplied; and for each row or column that is looked at.
    """

    def __init__(self, machine: Machine, matrix: Any) -> None:
        self._machine = machine
        self._matrix = matrix

    @classmethod
    def of_entries(
        cls, machine: Machine, values: Any, rows: Any, columns: Any, shape: tuple[int, int], *, name: str
    ) -> SparseMatrix:
        """Sorted by rows and columns, which takes a comparison for each bit of their number; sums where two meet."""
        machine.cpu.charge(len(values) * (2 + max(1, len(values)).bit_length()) + shape[0], name)
        rows, columns = np.asarray(rows, np.intp), np.asarray(columns, np.intp)
        return cls(machine, scipy_sparse().csr_array((np.asarray(values), (rows, columns)), shape=shape))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._matrix.shape
        return int(rows), int(columns)

    @property
    def dtype(self) -> Any:
        return self._matrix.dtype

    @property
    def nnz(self) -> int:
        return int(self._matrix.nnz)

    def stored(self, dtype: Any) -> SparseMatrix:
        """The same numbers in another of the host's dtypes; no cost."""
        return SparseMatrix(self._machine, self._matrix.astype(dtype))

    def _made(self, matrix: Any, steps: int, name: str) -> SparseMatrix:
        self._machine.cpu.charge(steps, name)
        return SparseMatrix(self._machine, matrix)

    def rows(self, index: Any, *, name: str) -> SparseMatrix:
        chosen = self._matrix[np.asarray(index)]
        return self._made(chosen, len(index) + 2 * chosen.nnz, name)

    def columns(self, index: Any, *, name: str) -> SparseMatrix:
        # The place of each column among the chosen is noted, and each entry looks for its own.
        chosen = self._matrix[:, np.asarray(index)]
        return self._made(chosen, self.shape[1] + len(index) + self.nnz + 2 * chosen.nnz, name)

    def filled_rows(self, *, name: str) -> Any:
        self._machine.cpu.charge(self.shape[0], name)
        return self._machine.on_host(np.flatnonzero(np.diff(self._matrix.indptr)))

    def filled_columns(self, *, name: str) -> Any:
        self._machine.cpu.charge(self.nnz + self.shape[1], name)
        return self._machine.on_host(
            np.flatnonzero(np.bincount(self._matrix.indices, minlength=self.shape[1]))
        )

    def plus(self, other: SparseMatrix, *, name: str) -> SparseMatrix:
        """By merging both in one pass."""
        return self._made(self._matrix + other._matrix, self.nnz + other.nnz + self.shape[0], name)

    def minus(self, other: SparseMatrix, *, name: str) -> SparseMatrix:
        return self._made(self._matrix - other._matrix, self.nnz + other.nnz + self.shape[0], name)

    def magnitudes(self, *, name: str) -> SparseMatrix:
        return self._made(abs(self._matrix), self.nnz, name)

    def by_rows(self, weights: Any, *, name: str) -> SparseMatrix:
        """Each row times its weight."""
        diagonal = scipy_sparse().diags_array(np.asarray(weights).astype(self.dtype), dtype=self.dtype)
        return self._made(diagonal @ self._matrix, self.nnz, name)

    def by_columns(self, weights: Any, *, name: str) -> SparseMatrix:
        diagonal = scipy_sparse().diags_array(np.asarray(weights).astype(self.dtype), dtype=self.dtype)
        return self._made(self._matrix @ diagonal, self.nnz, name)

    def sums_of_rows(self, bucket: Any, buckets: int, *, name: str) -> SparseMatrix:
        """(buckets, columns): rows of one bucket added up."""
        return self._made(_gather(bucket, buckets, self.dtype) @ self._matrix, self.nnz + buckets, name)

    def sums_of_columns(self, bucket: Any, buckets: int, *, name: str) -> SparseMatrix:
        gather = _gather(bucket, buckets, self.dtype).T.tocsr()
        return self._made(self._matrix @ gather, self.nnz + self.shape[0], name)

    def above(self, other: SparseMatrix, *, name: str) -> SparseMatrix:
        both = scipy_sparse().vstack([self._matrix, other._matrix], format="csr")
        return self._made(both, both.nnz, name)

    def beside(self, other: SparseMatrix, *, name: str) -> SparseMatrix:
        both = scipy_sparse().hstack([self._matrix, other._matrix], format="csr")
        return self._made(both, both.nnz, name)

    def times(self, x: Any, *, name: str) -> Any:
        """The product with a vector: a product and a sum for each entry."""
        self._machine.cpu.charge(2 * self.nnz + self.shape[0], name)
        return self._machine.on_host(self._matrix @ np.asarray(x))

    def row_sums(self, *, name: str) -> Any:
        self._machine.cpu.charge(self.nnz + self.shape[0], name)
        return self._machine.on_host(np.asarray(self._matrix.sum(axis=1)).ravel())

    def largest(self, *, name: str) -> float:
        self._machine.cpu.charge(self.nnz, name)
        return float(self._matrix.max()) if self.nnz else 0.0

    def norms(self, axis: int, *, name: str) -> Any:
        """Euclidean norms of the rows (axis 1) or columns (axis 0): a square and a sum each, and the roots."""
        squares = self._matrix.astype(np.float64)
        squares.data **= 2
        self._machine.cpu.charge(2 * self.nnz + self.shape[1 - axis], name)
        return self._machine.on_host(np.sqrt(np.asarray(squares.sum(axis=axis)).ravel()))

    def within(self, rows: Any, columns: Any, *, name: str) -> SparseMatrix:
        """The entries in these rows and columns, in the whole matrix's shape."""
        keep_rows, keep_columns = np.zeros(self.shape[0], bool), np.zeros(self.shape[1], bool)
        keep_rows[np.asarray(rows)], keep_columns[np.asarray(columns)] = True, True
        entries = self._matrix.tocoo()
        kept = keep_rows[entries.row] & keep_columns[entries.col]
        marks = sum(self.shape) + len(rows) + len(columns)
        matrix = scipy_sparse().csr_array(
            (entries.data[kept], (entries.row[kept], entries.col[kept])), shape=self.shape
        )
        return self._made(matrix, marks + 2 * self.nnz + matrix.nnz, name)

    def entries(self, *, name: str) -> tuple[Any, Any, Any]:
        """Rows, columns and values, row by row."""
        self._machine.cpu.charge(3 * self.nnz, name)
        entries = self._matrix.tocoo()
        row, column, value = (self._machine.on_host(x) for x in (entries.row, entries.col, entries.data))
        return row, column, value

    def dense(self, *, name: str) -> Any:
        rows, columns = self.shape
        self._machine.cpu.charge(rows * columns + self.nnz, name)
        return self._machine.on_host(self._matrix.toarray())

    def product_on_host(self, other: SparseMatrix) -> Any:
        """For a machine that only counts: what its product would be.  No cost: the machine's calls are its cost."""
        return (self._matrix @ other._matrix).toarray()

    def tidied(self, *, name: str) -> SparseMatrix:
        """Without stored zeros."""
        matrix = self._matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return self._made(matrix, self.nnz, name)

    def result(self) -> Any:
        """What users get."""
        return self._matrix


def _gather(bucket: Any, buckets: int, dtype: Any) -> Any:
    """(buckets, n): the matrix that adds up rows by buckets."""
    n = len(bucket)
    return scipy_sparse().csr_array(
        (np.ones(n, dtype), (np.asarray(bucket), np.arange(n))), shape=(buckets, n)
    )
