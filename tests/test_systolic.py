"""Contract: the array of section 2.2, step by step, computes A·B and takes as many steps as the model charges.

√m steps to load, n + 2√m - 2 to pump n rows through; √m words enter in each,
so √m times the steps are n·√m + ℓ for ℓ = 3m - 2√m, tall or square.  Each
entry is c + a·b in the order of the rows of B, two roundings for each term:
a plain loop gives the same bits.  Entry c_rj leaves after step r + √m - 1 + j.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcu
from tcu.errors import ParameterError
from tcu.machine.executors import SystolicArray, SystolicExecutor

RNG = np.random.default_rng(5)


def in_a_loop(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = np.zeros((a.shape[0], b.shape[1]))
    for k in range(a.shape[1]):
        c = c + a[:, k, None] * b[k]
    return c


@pytest.mark.parametrize("side", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 8, 50])
def test_outputs_and_steps(side: int, rows: int) -> None:
    a, b = RNG.standard_normal((rows, side)), RNG.standard_normal((side, side))
    array = SystolicArray(side)
    array.load(b)
    assert array.steps == side
    assert array.stream(a).tobytes() == in_a_loop(a, b).tobytes()
    assert array.steps == side + rows + 2 * side - 2
    assert array.multiplications == rows * side * side


def test_outputs_leave_in_the_stated_step() -> None:
    """With one 1 in A and B each, the one product is in row r, column j: what leaves earlier or later is 0."""
    side, rows = 3, 5
    for row in range(rows):
        for column in range(side):
            a, b = np.zeros((rows, side)), np.zeros((side, side))
            a[row, 1], b[1, column] = 1, 1
            array = SystolicArray(side)
            array.load(b)
            result = array.stream(a)
            assert result[row, column] == 1
            assert result.sum() == 1


def test_b_stays_for_further_streams() -> None:
    a, b = RNG.standard_normal((2, 7, 4)), RNG.standard_normal((4, 4))
    array = SystolicArray(4)
    array.load(b)
    for rows in a:
        assert array.stream(rows).tobytes() == in_a_loop(rows, b).tobytes()


@pytest.mark.parametrize("m", [1, 4, 16, 64])
@pytest.mark.parametrize("rows", [1, 8, 9, 40])
def test_steps_agree_with_the_model_s_cost(m: int, rows: int) -> None:
    executor = SystolicExecutor()
    machine = tcu.Machine(m, executor.latency(m), executor=executor)
    side = machine.side
    machine.multiply(RNG.standard_normal((rows, side)), RNG.standard_normal((side, side)))
    assert executor.steps * side == machine.cost
    assert executor.multiplications == max(rows, side) * m


def test_integers_and_batches() -> None:
    executor = SystolicExecutor()
    machine = tcu.Machine(16, executor=executor)
    a, b = RNG.integers(-(2**30), 2**30, (3, 6, 4)), RNG.integers(-(2**29), 2**29, (4, 3))
    assert (machine.multiply(a, b) == a @ b).all()
    assert machine.ledger.tensor_calls == 3
    with pytest.raises(ParameterError, match="more than 63 bits: take the executor 'ideal'"):
        machine.multiply(a * 2**20, b)


def test_programs_run_on_it() -> None:
    machine = tcu.Machine(16, 0, executor="systolic")
    a, b = RNG.integers(-9, 9, (10, 7)), RNG.integers(-9, 9, (7, 9))
    assert (machine.matmul(a, b) == a @ b).all()
    assert (machine.strassen(a, b) == a @ b).all()
