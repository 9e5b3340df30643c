"""Contract: each counted operation does what NumPy's function does, and charges what it says.

One step for each word of a result, or of an operand that is summed, times the
work that a word takes; a comparison for each bit of the number of keys that are
sorted or looked up.  On shapes the charge is that of numbers.  Views, other
dtypes for the same words and the host's own questions are free.  The bounds of
whole calls are the theorems' where n fills the unit, and more below.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.algorithms import (
    dft_bound,
    karatsuba_bound,
    matmul_bound,
    polynomial_bound,
    schoolbook_bound,
    sum_bound,
)
from tcu.algorithms.whole_calls import (
    whole_dft_bound,
    whole_karatsuba_bound,
    whole_matmul_bound,
    whole_polynomial_bound,
    whole_schoolbook_bound,
    whole_strassen_like_bound,
    whole_sum_bound,
)
from tcu.errors import ParameterError

X = np.arange(12.0).reshape(3, 4)

OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Any, int]] = {
    "each": (lambda cpu, x: cpu.each(operator.add, x, x, name="n"), X + X, 12),
    "each that broadcasts": (lambda cpu, x: cpu.each(np.multiply, x[:, :1], x[:1], name="n"), X[:, :1] * X[:1], 12),
    "each of more work": (lambda cpu, x: cpu.each(np.hypot, x, x, name="n", work=4), np.hypot(X, X), 48),
    "each that moves": (lambda cpu, x: cpu.each(np.stack, [x, x, x], name="n"), np.stack([X, X, X]), 36),
    "padded": (lambda cpu, x: cpu.padded(x, (4, 6)), np.pad(X, ((0, 1), (0, 2))), 24),
    "padded in front": (lambda cpu, x: cpu.padded(x, (3, 9), at=(0, 2)), np.pad(X, ((0, 0), (2, 3))), 27),
    "padded by nothing": (lambda cpu, x: cpu.padded(x, (3, 4)), X, 0),
    "arranged": (lambda cpu, x: cpu.arranged(x.T, (2, 6), name="n"), X.T.reshape(2, 6), 12),
    "zeros": (lambda cpu, x: cpu.zeros((2, 5), np.float64, x, name="n"), np.zeros((2, 5)), 10),
    "total": (lambda cpu, x: cpu.total(np.sum, x, 0, name="n"), X.sum(0), 12),
    "update": (lambda cpu, x: cpu.update(operator.iadd, x[1:], x[:1], name="n"), X[1:] + X[:1], 8),
    "table": (lambda cpu, x: cpu.table(x, np.eye, 3, shape=(3, 3), name="n"), np.eye(3), 9),
    "table of more work": (lambda cpu, x: cpu.table(x, np.eye, 3, shape=(3, 3), work=5, name="n"), np.eye(3), 45),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_and_their_charge(name: str) -> None:
    operation, expected, steps = OPERATIONS[name]
    machine, counting = tcu.Machine(16), tcu.Machine(16, executor="count")
    got = operation(machine.cpu, X.copy())
    assert np.array_equal(got, expected)
    assert machine.cost == machine.ledger.steps == steps
    shape = operation(counting.cpu, counting.shape(X.shape))
    assert shape.shape == expected.shape
    assert counting.ledger == machine.ledger


def test_what_is_put_is_charged_where_it_lies() -> None:
    machine, x = tcu.Machine(16), X.copy()
    machine.cpu.put(x[:, 1:3], 7, "n")
    assert x[:, 1:3].tolist() == [[7, 7]] * 3
    assert machine.cost == 6
    machine.cpu.charge(5, "others")
    assert machine.cost == 11


def test_sorting_and_looking_up() -> None:
    machine, keys = tcu.Machine(16), np.array([5, 1, 4, 1, 9, 0, 3])
    order = machine.cpu.order(keys, name="sort")
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert machine.cost == 2 * 7 * 3
    machine.reset()
    assert machine.cpu.find(keys[order], np.array([4, 9]), name="find").tolist() == [4, 6]
    assert machine.cost == 2 * 3
    machine.reset()
    (where,) = machine.cpu.places(keys > 3, name="places")
    assert where.tolist() == [0, 2, 4]
    assert machine.cost == 7 + 3


def test_complex_products_and_magnitudes() -> None:
    machine = tcu.Machine(16)
    x, y = np.random.default_rng(0).standard_normal((2, 2, 3, 4))
    product = machine.cpu.complex_product(x, y, name="n")
    exact = (x[0] + 1j * x[1]) * (y[0] + 1j * y[1])
    np.testing.assert_allclose(product[0] + 1j * product[1], exact, rtol=1e-14)
    assert machine.cost == 6 * 12  # four products and two sums of reals, for each
    machine.reset()
    assert machine.cpu.largest(x, name="n").tolist() == np.max(abs(x), axis=(0, 2)).tolist()
    assert machine.cost == 2 * 24


def test_what_is_free() -> None:
    machine = tcu.Machine(16)
    assert machine.stored(X, np.float32).dtype == np.float32
    assert machine.magnitude(np.array([3, -9])) == 9
    assert machine.on_host(X) is X
    assert machine.array(X) is X
    assert machine.cost == 0


def test_what_an_executor_does_at_once_is_charged_as_its_steps() -> None:
    def program(machine: tcu.Machine, x: Any, times: int) -> None:
        for _ in range(times):
            x = machine.cpu.each(operator.add, x, x, name="double")

    machine, counting = tcu.Machine(16, 5), tcu.Machine(16, 5)
    for _ in range(2):
        machine.charge_as(program, X, 3)
        program(counting, X, 3)
    assert machine.ledger == counting.ledger
    assert machine.cost == 2 * 3 * 12


# The theorems' bounds in whole calls


def test_whole_calls_where_n_fills_the_unit() -> None:
    machine = (256, 40)
    assert whole_matmul_bound(machine, 64, 32, 16) == matmul_bound(machine, 64, 32, 16)
    assert whole_dft_bound(machine, 4096) == dft_bound(machine, 4096)
    assert whole_sum_bound(machine, 4096) == sum_bound(machine, 4096)
    words = 256 * 8
    assert (
        whole_schoolbook_bound(machine, 64 * words)
        == schoolbook_bound(machine, 64 * words) + words * 16 + 256 + 40
    )
    assert whole_karatsuba_bound(machine, 64 * words) == pytest.approx(27 * (256 * 16 + 256 + 40))
    assert whole_polynomial_bound(machine, 4096, 100) == polynomial_bound(machine, 4096, 100) + 40


def test_whole_calls_of_less() -> None:
    machine = (256, 40)
    assert whole_matmul_bound(machine, 1, 1, 1) == 256 + 40
    assert whole_strassen_like_bound(machine, 3, 16, 1, "laderman") == 256 + 40
    assert whole_dft_bound(machine, 2) == 256 + 40
    assert whole_sum_bound(machine, 2) == 256 + 2 * 40
    assert whole_karatsuba_bound(machine, 64) == 16 + 256 + 40
    assert whole_karatsuba_bound(tcu.Machine(256, 40, word_bits=32), 64) == 32 + 256 + 40
    assert whole_polynomial_bound(machine, 1, 1) == 1 + 256 + 40 / 256 + 40
    assert whole_karatsuba_bound(machine, 64 * 16) > karatsuba_bound(machine, 64 * 16)
    with pytest.raises(ParameterError, match="m=15"):
        whole_matmul_bound((15, 0), 4, 4, 4)
