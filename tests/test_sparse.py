"""Contract: sparse products are SciPy's: exactly for integers, within ``info.tolerance`` for floating point.

Whatever is guessed of the number of their entries, and however unevenly these
are spread; a product that does not pass its verification is computed anew, so
that a wrong one is never returned.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.algorithms import SparseInfo, sparse_bound, sparse_matmul
from tcu.algorithms import sparse as module
from tcu.algorithms.sparse import random_sparse
from tcu.algorithms.sparse_matrix import SparseMatrix
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.machine.executors import ModelExecutor
from tcu.machine.executors.ideal import IdealExecutor

sparse = pytest.importorskip("scipy.sparse", reason="sparse products need SciPy")


def draw(rng: np.random.Generator, shape: tuple[int, int], entries: int, dtype: type = np.int64) -> Any:
    where = rng.integers(0, shape[0], entries), rng.integers(0, shape[1], entries)
    values = rng.integers(-9, 10, entries) if dtype is np.int64 else rng.standard_normal(entries)
    return sparse.csr_array((values.astype(dtype), where), shape=shape)


def check(a: Any, b: Any, m: int = 16, **options: Any) -> SparseInfo:
    """The product is SciPy's; what it took."""
    c, info = sparse_matmul(tcu.Machine(m, 10), a, b, return_info=True, **options)
    expected = sparse.csr_array(a) @ sparse.csr_array(b)
    difference = abs(c - expected)
    assert c.shape == expected.shape
    assert c.has_canonical_format
    assert (c.data != 0).all()
    assert c.dtype == (np.int64 if info.tolerance == 0 and expected.dtype.kind in "iub" else np.float64)
    largest = difference.max() if difference.nnz else 0
    assert largest <= info.tolerance
    assert info.tolerance <= 1e-9 * max(1.0, float(abs(expected).max()) if expected.nnz else 0.0)
    assert info.rounds[-1].resolved or not expected.nnz
    return info


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("m", [16, 256])
def test_balanced_products(m: int, dtype: Any) -> None:
    rng = np.random.default_rng(m)
    for rows, inner, columns, entries in ((300, 300, 300, 300), (1000, 1000, 1000, 1200), (2000, 500, 1500, 900),
                                          (60, 2000, 3000, 3000), (1000, 1000, 1000, 4000)):  # fmt: skip
        info = check(draw(rng, (rows, inner), entries, dtype), draw(rng, (inner, columns), entries, dtype), m)
        assert info.rounds[0].buckets < (info.rounds[0].rows, info.rounds[0].columns)  # it was compressed
        assert info.restarts == 0


@pytest.mark.slow(2)
@pytest.mark.parametrize("guess", [0, 1, 50, 400, 1000, 10**9])
def test_any_guess_gives_the_product(guess: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (draw(rng, (600, 600), 900) for _ in range(2))
    info = check(a, b, nonzeros=guess)
    first = info.rounds[0]
    if guess < 400:  # too low: seen, and tried again with twice as many
        assert not first.resolved
        assert len(info.rounds) > 1
        assert info.rounds[1].guess == 2 * first.guess
    else:
        assert first.guess == guess
    if guess == 10**9:  # as many buckets as rows and columns: the dense product
        assert first.buckets == (first.rows, first.columns)


def test_unbalanced_products_stay_compressed() -> None:
    rng = np.random.default_rng(2)
    for kind in ("row", "column", "both", "block", "powers"):
        a, b = (draw(rng, (900, 900), 500).tolil() for _ in range(2))
        if kind in ("row", "both"):
            a[5, :] = 1
        if kind in ("column", "both"):
            b[:, 7] = 2
        if kind == "block":
            a[20:40, 20:40] = 3
            b[20:40, 20:40] = 1
        if kind == "powers":
            for i in range(9):
                a[i * 50, : 2**i] = 1
        info = check(a, b)
        assert len(info.rounds) > 1
        # A row and a column of many entries go on by themselves, each as a thin rectangle.
        others = [r for r in info.rounds if min(r.rows, r.columns) > 50 and r.buckets == (r.rows, r.columns)]
        assert not others


def test_laws() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (draw(rng, (500, 500), 700) for _ in range(3))
    machine = tcu.Machine(16)
    ab, ac = sparse_matmul(machine, a, b), sparse_matmul(machine, a, c)
    assert abs(sparse_matmul(machine, a, b + c) - ab - ac).nnz == 0
    assert abs(sparse_matmul(machine, b.T, a.T) - ab.T).nnz == 0
    eye = sparse.eye_array(500, dtype=np.int64)
    assert abs(sparse_matmul(machine, eye, a) - a).nnz == 0
    assert machine.sparse_matmul(a, b, seed=8).nnz == ab.nnz


def test_cancellation_leaves_no_entries() -> None:
    rng = np.random.default_rng(4)
    left = draw(rng, (400, 200), 500)
    a = sparse.hstack([left, left])
    right = draw(rng, (200, 400), 500)
    assert sparse_matmul(tcu.Machine(16), a, sparse.vstack([right, -right])).nnz == 0
    check(a, sparse.vstack([right, 2 * right]))


def test_small_and_empty_matrices() -> None:
    machine = tcu.Machine(16)
    for shape, other in (((0, 3), (3, 2)), ((2, 0), (0, 2)), ((3, 4), (4, 0))):
        assert sparse_matmul(machine, np.zeros(shape), np.zeros(other)).shape == (shape[0], other[1])
    assert machine.ledger.tensor_calls == 0
    check(np.array([[2]]), np.array([[3]]))
    check(np.eye(5, dtype=bool), np.arange(25, dtype=np.uint8).reshape(5, 5))
    check(np.eye(5, dtype=np.float32), np.ones((5, 2)))


def test_large_integers_are_exact() -> None:
    rng = np.random.default_rng(5)
    a, b = (draw(rng, (500, 500), 600) for _ in range(2))
    check(a * (1 << 18), b * (1 << 18))
    with pytest.raises(ParameterError, match="weights of 6 bits each need room in 62: pass float64"):
        sparse_matmul(tcu.Machine(16), a * (1 << 29), b * (1 << 29))
    check((a * (1 << 29)).astype(float), (b * (1 << 29)).astype(float))


def test_magnitudes_of_all_sizes() -> None:
    rng = np.random.default_rng(6)
    a, b = (draw(rng, (400, 400), 500, np.float64) for _ in range(2))
    a.data *= 10.0 ** rng.integers(-20, 20, a.nnz)
    c, info = sparse_matmul(tcu.Machine(16), a, b, return_info=True)
    assert abs(c - a @ b).max() <= info.tolerance <= 1e-8 * abs(a @ b).max()


@pytest.mark.parametrize("scheme", ["strassen", "standard"])
def test_dense_products_by_strassen_like_schemes(scheme: str) -> None:
    rng = np.random.default_rng(7)
    check(*(draw(rng, (500, 500), 700) for _ in range(2)), scheme=scheme)


class _Faulty(IdealExecutor):
    """Adds ``error`` to one entry of the first products."""

    def __init__(self, products: int, error: float) -> None:
        self.left, self.error = products, error

    def multiply(self, a: Any, b: Any) -> Any:
        product = super().multiply(a, b)
        if self.left:
            self.left -= 1
            product[0, 0] += self.error
        return product


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_an_executor_s_errors_are_never_in_the_result(dtype: Any) -> None:
    rng = np.random.default_rng(8)
    a, b = (draw(rng, (200, 200), 300, dtype) for _ in range(2))
    expected = a @ b
    for guess in (300, 10**9):  # a sketch, and the dense product
        for products in (1, 30):
            machine = tcu.Machine(16, executor=_Faulty(products, 1))
            c, info = sparse_matmul(machine, a, b, nonzeros=guess, return_info=True)
            assert abs(c - expected).max() <= info.tolerance
            assert info.restarts or len(info.rounds) > 1
    with pytest.raises(InvalidOperationError, match="the machine's executor miscalculates"):
        sparse_matmul(tcu.Machine(16, executor=_Faulty(10**9, 1)), a, b, nonzeros=10**9)


def test_verification_sees_every_single_change() -> None:
    rng = np.random.default_rng(9)
    for dtype in (np.int64, np.float64):
        a, b = (draw(rng, (100, 100), 200, dtype) for _ in range(2))
        problem = module._Problem(tcu.Machine(16), a, b, None, rng)
        right = problem.solve(None)
        assert problem._verified(SparseMatrix(problem.machine, right))
        for k in range(right.nnz):
            wrong = right.copy()
            wrong.data[k] += 1 if dtype is np.int64 else 1e-6
            assert not problem._verified(SparseMatrix(problem.machine, wrong))
            missing = right.copy()
            missing.data[k] = 0
            assert not problem._verified(SparseMatrix(problem.machine, missing))


def test_counting_runs_the_same_program() -> None:
    a, b = random_sparse(300, 2, 0), random_sparse(300, 2, 1)
    real, counting = tcu.Machine(16, 5), tcu.Machine(16, 5, executor="count")
    first, second = (sparse_matmul(machine, a, b) for machine in (real, counting))
    assert abs(first - second).nnz == 0
    assert real.ledger == counting.ledger


FIVE_BY_SEVEN = sparse.csr_array(
    [[1, 0, 0, 2, 0, 0, 3], [0, 0, 0, 4, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [0, 5, 0, 6, 0, 0, 0], [7, 8, 0, 0, 0, 0, 9]]
)  # fmt: skip
"""Nine entries, in four rows and four columns."""
TWO = sparse.csr_array(([1, 1], ([0, 2], [1, 2])), shape=(5, 7))
OPERATIONS: dict[str, tuple[Callable[[SparseMatrix, SparseMatrix], Any], int]] = {
    # Nine sorted by as many comparisons as nine has bits, read and written; and the rows are looked at.
    "of_entries": (lambda x, y: SparseMatrix.of_entries(
        x._machine, np.ones(9), np.array([4, 3, 2, 1, 0, 4, 3, 2, 1]), np.arange(9) % 7, (5, 7), name="n"), 9 * (4 + 2) + 5),
    "stored": (lambda x, y: x.stored(np.float64), 0),
    "rows": (lambda x, y: x.rows(np.array([0, 3]), name="n"), 2 + 2 * 5),
    "columns": (lambda x, y: x.columns(np.array([0, 3]), name="n"), 7 + 2 + 9 + 2 * 5),
    "filled_rows": (lambda x, y: x.filled_rows(name="n"), 5),
    "filled_columns": (lambda x, y: x.filled_columns(name="n"), 9 + 7),
    "plus": (lambda x, y: x.plus(y, name="n"), 9 + 2 + 5),
    "minus": (lambda x, y: x.minus(y, name="n"), 9 + 2 + 5),
    "magnitudes": (lambda x, y: x.magnitudes(name="n"), 9),
    "by_rows": (lambda x, y: x.by_rows(np.arange(5), name="n"), 9),
    "by_columns": (lambda x, y: x.by_columns(np.arange(7), name="n"), 9),
    "sums_of_rows": (lambda x, y: x.sums_of_rows(np.array([0, 1, 0, 1, 0]), 2, name="n"), 9 + 2),
    "sums_of_columns": (lambda x, y: x.sums_of_columns(np.arange(7) % 3, 3, name="n"), 9 + 5),
    "above": (lambda x, y: x.above(y, name="n"), 9 + 2),
    "beside": (lambda x, y: x.beside(y, name="n"), 9 + 2),
    "times": (lambda x, y: x.times(np.ones(7), name="n"), 2 * 9 + 5),
    "row_sums": (lambda x, y: x.row_sums(name="n"), 9 + 5),
    "largest": (lambda x, y: x.largest(name="n"), 9),
    # A square and a sum for each entry; a root for each row.
    "norms": (lambda x, y: x.norms(1, name="n"), 2 * 9 + 5),
    # Rows and columns are cleared, the chosen ones marked, two marks looked at for each entry, three entries moved.
    "within": (lambda x, y: x.within(np.array([0, 3]), np.array([0, 3]), name="n"), 5 + 7 + 2 + 2 + 2 * 9 + 3),
    "entries": (lambda x, y: x.entries(name="n"), 3 * 9),
    "dense": (lambda x, y: x.dense(name="n"), 5 * 7 + 9),
    "product_on_host": (lambda x, y: x.product_on_host(SparseMatrix(y._machine, y._matrix.T)), 0),
    "tidied": (lambda x, y: x.tidied(name="n"), 9),
    "result": (lambda x, y: x.result(), 0),
}  # fmt: skip
"""Operation → what it does with the two matrices, and its steps, counted by hand."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_steps_of_operations_on_sparse_matrices(name: str) -> None:
    operation, steps = OPERATIONS[name]
    machine = tcu.Machine(16)
    operation(SparseMatrix(machine, FIVE_BY_SEVEN), SparseMatrix(machine, TWO))
    assert machine.ledger.steps == machine.cost == steps


def test_every_operation_on_sparse_matrices_is_counted_by_hand() -> None:
    methods = {
        name
        for name, value in vars(SparseMatrix).items()
        if name[0] != "_" and not isinstance(value, property)
    }
    assert methods == set(OPERATIONS)
    machine = tcu.Machine(16)
    assert SparseMatrix(machine, FIVE_BY_SEVEN).norms(0, name="n").size == 7
    assert machine.cost == 2 * 9 + 7


def test_the_ledger_of_a_product() -> None:
    """Four rounds, as the guess is too low; what each of them sorts, looks up and knows already."""
    a, b = random_sparse(60, 2, 0), random_sparse(60, 2, 1)
    machine = tcu.Machine(16)
    c = sparse_matmul(machine, a, b, nonzeros=16)
    assert (a.nnz, b.nnz, c.nnz) == (120, 119, 238)
    counted: dict[str, int] = {}
    for entry in machine.ledger:
        counted[entry.name] = counted.get(entry.name, 0) + entry.count
    assert counted == {
        "rows that are not empty": 60, "columns that are not empty": 119 + 60, "select rows and columns": 4 * 777,
        "compress": 26708, "norms": 18640, "fill in zeros": 26966, "strip times block": 675, "add strips": 43680,
        "join blocks": 3120, "keys": 4320, "sort by bucket and weight": 18720, "what is known": 1266,
        "look for entries": 51244, "look up": 7200, "entries found": 3743, "take out": 8415, "what is left": 18060,
        "add what was found": 495, "leave out zeros": 238, "verify": 3942,
    }  # fmt: skip
    # Three sketches sort 60 rows and 60 columns, of which each key takes six comparisons and as many moves, and one more.
    assert counted["sort by bucket and weight"] == 4 * 3 * 2 * (2 * 60 * 6 + 60)
    known = {e.path[1]: e.count for e in machine.ledger if e.name == "what is known"}
    # Marks of 60 rows and 60 columns; of 16 entries two marks and the move; three words of each; bisection in both.
    assert known["round 4"] == 4 * 60 + 3 * 16 + 3 * 16 + 2 * 16 * 6


def test_a_tenth_of_the_dense_product() -> None:
    a, b = random_sparse(3000, 2, 0), random_sparse(3000, 2, 1)
    machine, dense = tcu.Machine(256, 0, executor="count"), tcu.Machine(256, 0, executor="count")
    c = sparse_matmul(machine, a, b)
    dense.matmul(dense.shape((3000, 3000)), dense.shape((3000, 3000)))
    assert machine.cost < dense.cost / 10
    assert machine.cost < 20 * sparse_bound(machine, 3000, c.nnz, a.nnz + b.nnz)


def test_bound() -> None:
    assert sparse_bound((16, 4), 100, 400, 7) == pytest.approx(5 * 125 * 20 + 7)
    assert sparse_bound((16, 4), 100, 3, 0) == sparse_bound((16, 4), 100, 16, 0)
    assert sparse_bound((16, 4), 100, 400, 0, 1.4) < sparse_bound((16, 4), 100, 400, 0)


def test_errors() -> None:
    machine, eye = tcu.Machine(16), np.eye(3)
    with pytest.raises(ShapeError, match=r"a has shape \(3,\): give a matrix"):
        sparse_matmul(machine, np.ones(3), eye)
    with pytest.raises(ShapeError, match=r"a \(3, 3\), b \(2, 3\): a needs as many columns as b has rows"):
        sparse_matmul(machine, eye, np.ones((2, 3)))
    with pytest.raises(DtypeError, match="b has dtype complex128: give real numbers or integers"):
        sparse_matmul(machine, eye, eye * 1j)
    with pytest.raises(InvalidOperationError, match="a holds a NaN or an infinity"):
        sparse_matmul(machine, eye * np.nan, eye)
    with pytest.raises(ParameterError, match="nonzeros=-1: give the entries of the product, or None"):
        sparse_matmul(machine, eye, eye, nonzeros=-1)
    with pytest.raises(ParameterError, match="seed='x': give a whole number of 0 or more, or None"):
        sparse_matmul(machine, eye, eye, seed="x")
    with pytest.raises(ParameterError, match="integers need to be below 2\\^63"):
        sparse_matmul(machine, np.full((1, 1), (1 << 64) - 1, np.uint64), np.ones((1, 1), int))
    half = tcu.Machine(256, executor=ModelExecutor("H100"))
    with pytest.raises(DtypeError, match="multiplies float16: sums by weights need a unit of binary64"):
        sparse_matmul(half, eye, eye)


def test_without_scipy() -> None:
    code = (
        "import sys; sys.modules['scipy'] = sys.modules['scipy.sparse'] = None\n"
        "import tcu\n"
        "try: tcu.Machine(16).sparse_matmul([[1]], [[1]])\n"
        "except tcu.TcuError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "sparse products need SciPy: pip install 'tcu[sparse]'" in out
