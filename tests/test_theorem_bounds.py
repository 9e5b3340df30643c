"""Contract: every algorithm's ledger stays within its stated constant of its theorem's bound.

For n over three decades and more, m in {16, 256, 65536} and ℓ in {0, m, 100 m}.
The constant is as small as the run shows: some size needs more than half of
it.  No ledger is below a lower bound, and what a weak machine costs is at least
a third of the I/Os that its program makes, which are at least those that any
program needs (Theorem 8).  Nothing is computed: programs run on shapes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tcu.algorithms import COSTS, cost_of, simulate
from tcu.algorithms.costs import CostedAlgorithm
from tcu.errors import ParameterError, UnknownNameError

MACHINES = [(m, latency) for m in (16, 256, 65536) for latency in (0, m, 100 * m)]
DECADES = 1000


def worst_ratio(row: CostedAlgorithm) -> float:
    worst = 0.0
    for m, latency in MACHINES:
        for n in row.sizes(m):
            one = cost_of(row, n, m, latency)
            worst = max(worst, one.ratio)
            assert one.lower is None or one.ledger.cost >= one.lower * (1 - 1e-12), (row.name, n, m, latency)
    return worst


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "sparse" else name for name in COSTS]
)
def test_ledger_over_bound(name: str) -> None:
    row = COSTS[name]
    for m, _ in MACHINES:
        sizes = row.sizes(m)
        assert len(sizes) >= 5
        # The theorems' n is the entries of a matrix, the rows' its side.
        assert (max(sizes) / min(sizes)) ** (2 if row.n.startswith("rows") else 1) >= DECADES
    worst = worst_ratio(row)
    assert worst <= row.constant
    assert worst > row.constant / 2, "the stated constant is larger than it need be"


def test_a_wrong_constant_a_wrong_bound_and_a_missing_call_are_seen() -> None:
    row = COSTS["dft"]
    assert worst_ratio(row) > replace(row, constant=row.constant / 2).constant
    steeper = replace(row, bound=lambda machine, size: row.bound(machine, size) / math.sqrt(size["n"]))
    assert worst_ratio(steeper) > 100 * row.constant
    matmul = COSTS["matmul"]
    cheaper = replace(matmul, run=lambda machine, size: machine.step(size["n"]))
    with pytest.raises(AssertionError):
        worst_ratio(cheaper)


@pytest.mark.parametrize(("m", "latency"), [(m, latency) for m, latency in MACHINES if latency])
def test_one_resident_operand_beats_the_recursion_s_latency_term(m: int, latency: int) -> None:
    """(n / m)·ℓ of Theorem 2 against (n / m)^{3/2}·ℓ of Theorem 1: apart by √(n / m), the blocks of a side."""
    side = math.isqrt(m)
    for blocks in (2, 8, 32):
        tall, squares = (cost_of(name, blocks * side, m, latency) for name in ("matmul", "standard"))
        latencies = [one.ledger.tensor_calls * latency for one in (tall, squares)]
        assert latencies == [blocks**2 * latency, blocks**3 * latency]
        assert tall.ledger.cost < squares.ledger.cost
        without = [one.ledger.replay(latency=0).cost for one in (tall, squares)]
        assert without[0] == without[1]


@pytest.mark.parametrize("name", COSTS)
def test_theorem_8_on_weak_machines(name: str) -> None:
    row = COSTS[name]
    for m in (16, 256):
        for n in row.sizes(m)[:4]:
            one = cost_of(row, n, m, 0, weak=True)
            moved = simulate(one.ledger)
            assert moved.memory == 3 * m + 3
            assert moved.ratio <= 3
            if row.transfers is not None:
                least = row.transfers(moved.memory, one.size)
                assert moved.total >= least
                assert one.ledger.cost >= least / 3


def test_a_tall_call_costs_a_weak_machine_a_constant_factor_at_most() -> None:
    """Section 5: with ℓ = O(m), squares cost no more than (m + ℓ) / m times what tall calls do."""
    for name, row in COSTS.items():
        for m in (16, 256):
            tall, weak = (cost_of(row, row.sizes(m)[1], m, 3 * m, weak=weak) for weak in (False, True))
            assert weak.ledger.cost <= 4 * tall.ledger.cost, name


def test_errors() -> None:
    with pytest.raises(UnknownNameError, match="unknown algorithm 'fft': did you mean dft"):
        cost_of("fft", 8, 16, 0)
    with pytest.raises(ParameterError, match="n=0: give an integer of at least 1: complex numbers"):
        cost_of("dft", 0, 16, 0)
    with pytest.raises(ParameterError, match="matmul has no option 'points': it has none"):
        cost_of("matmul", 8, 16, 0, points=3)
    with pytest.raises(ParameterError, match="sum has no option 'points': it has variant, chain"):
        cost_of("sum", 8, 16, 0, points=3)
