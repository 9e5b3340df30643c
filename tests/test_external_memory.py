"""Contract: a weak machine's program runs in an internal memory of 3m words, and moves at most 3 words for a unit of time.

Carried out word by word, every algorithm gives what the machine itself gives,
never holds more than 3m words, and moves as many as the simulation of its
ledger says (Theorem 8 and its proof).  For dense products the I/Os are at
least those that any program needs.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcu
from tcu.algorithms import matmul_transfers_bound, simulate
from tcu.errors import ParameterError
from tcu.machine import ExternalMemoryExecutor, ModelExecutor
from tcu.machine.executors.external import InternalMemory

RNG = np.random.default_rng(8)

PROGRAMS = {
    "matmul": lambda m: m.matmul(RNG_A, RNG_B),
    "strassen": lambda m: m.strassen(RNG_A, RNG_B),
    "laderman": lambda m: m.strassen(RNG_A, RNG_B, "laderman"),
    "sum": lambda m: m.sum(RNG_A),
    "chained sum": lambda m: m.sum(RNG_A, "chained", chain=3),
    "dft": lambda m: m.dft(RNG_A.reshape(-1) + 1j),
    "dft of a prime length": lambda m: m.dft(RNG_A.reshape(-1)[:43]),
    "integer": lambda m: np.array([m.integer_multiply(3**500, -(7**200), algorithm="schoolbook")], object),
    "karatsuba": lambda m: np.array([m.integer_multiply(3**500, 7**300, algorithm="karatsuba")], object),
    "polynomial": lambda m: m.evaluate(RNG_A.reshape(-1)[:70], np.linspace(-1, 1, 20)),
}
RNG_A, RNG_B = RNG.standard_normal((21, 18)), RNG.standard_normal((18, 13))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_algorithm_in_two_memories(name: str) -> None:
    executor = ExternalMemoryExecutor()
    outside, plain = tcu.Machine(16, 2, executor=executor, weak=True), tcu.Machine(16, 2, weak=True)
    got, expected = PROGRAMS[name](outside), PROGRAMS[name](plain)
    if got.dtype != object:
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    else:
        assert (got == expected).all()
    assert outside.ledger == plain.ledger
    moved = outside.transfers()
    assert executor.memory.peak == 3 * 16
    assert executor.memory.used == 0
    assert executor.memory.transfers == moved.total - 3 * outside.ledger.steps
    assert (moved.reads, moved.writes) == (
        2 * 16 * outside.ledger.tensor_calls + 2 * outside.ledger.steps,
        16 * outside.ledger.tensor_calls + outside.ledger.steps,
    )
    assert moved.ratio <= 3
    assert moved.time == outside.cost


def test_dense_products_move_what_they_must() -> None:
    for n in (16, 64, 256):
        m = tcu.Machine(16, executor="count", weak=True)
        m.matmul(m.shape((n, n)), m.shape((n, n)))
        moved = simulate(m.ledger)
        least = matmul_transfers_bound(moved.memory, n, n, n)
        assert least <= moved.total <= 40 * least
    assert matmul_transfers_bound(51, 1, 1, 1) == 3


def test_tall_calls_are_not_weak() -> None:
    m = tcu.Machine(16)
    m.multiply(np.ones((9, 4)), np.ones((4, 4)), name="tall one")
    with pytest.raises(
        ParameterError,
        match=r"'tall one' has 9 rows: .* takes 4; run the program on Machine\(..., weak=True\)",
    ):
        m.transfers()
    assert simulate(tcu.Machine(16).ledger).ratio == 0


def test_the_internal_memory_is_not_exceeded() -> None:
    memory = InternalMemory(10)
    memory.read(np.ones(10))
    with pytest.raises(ParameterError, match="11 words in an internal memory of 10: free some first"):
        memory.read(np.ones(1))


def test_any_executor_computes_inside() -> None:
    unit = ModelExecutor("H100", "binary16")
    a, b = RNG.standard_normal((16, 16)), RNG.standard_normal((16, 16))
    outside = tcu.Machine(256, executor=ExternalMemoryExecutor(unit), weak=True)
    assert outside.matmul(a, b).tobytes() == tcu.Machine(256, executor=unit).matmul(a, b).tobytes()
