"""Contract: every variant sums exactly on integers, for every length, and its levels and calls are the papers'.

For n = m^j, the two-MMA reduction has j levels, so that five parallel steps
for each are the paper's 5 log n; the chained one R + 1 calls for R·m numbers.
On a unit the sums of a level are rounded to its operands.  The ledger, which
counts work and not parallel steps, is within (1 + 1 / (m - 1)) of its bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcu
from tcu.algorithms import sum_bound, tensor_sum
from tcu.errors import DtypeError, ParameterError
from tcu.machine import ModelExecutor
from tcu.plan.cost import modelled_time

VARIANTS = [("tall", 1), ("two-mma", 1), ("chained", 1), ("chained", 5)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1500), st.sampled_from(VARIANTS), st.sampled_from([4, 16, 64]))
def test_integers_are_summed_exactly(n: int, way: tuple[str, int], m: int) -> None:
    x = np.random.default_rng(n).integers(-(10**6), 10**6, n)
    variant, chain = way
    total = tcu.Machine(m).sum(x, variant, chain=chain)  # type: ignore[arg-type]
    assert total.shape == ()
    assert total == x.sum()
    assert total != x.sum() + 1


def test_shapes_dtypes_and_short_arrays() -> None:
    m = tcu.Machine(16)
    assert m.sum(np.ones((3, 4, 5))) == 60
    assert m.sum([1.5]) == 1.5
    assert m.sum(np.zeros(0)) == 0
    assert m.sum(np.zeros(0, np.int64)).dtype == np.int64
    assert m.sum(np.array([7], np.int8)) == 7
    assert m.sum([True, True, False]) == 2


def test_the_papers_steps_beside_the_ledger() -> None:
    side = 4
    for j in range(1, 6):
        n = 16**j
        m = tcu.Machine(16, 0, executor="count")
        m.sum(m.shape(n), "two-mma")
        levels = {entry.path for entry in m.ledger}
        assert 5 * len(levels) == modelled_time(n, m=side).two_mma
        groups = sum(16**i for i in range(j))
        assert m.ledger.tensor_calls == 2 * groups


def halved(machine: tcu.Machine, n: int) -> int:
    """The classic reduction, on the CPU: its levels."""
    x, levels = machine.shape(n), 0
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = machine.cpu.each(np.add, x[:half], x[half:], name="add halves")
        levels += 1
    return levels


@pytest.mark.parametrize("side", [2, 4, 8, 16])
def test_the_papers_speedup_by_what_runs(side: int) -> None:
    """Equation 17, 4/5 log₂ m², from levels that were executed: four steps for a halving, five for a pair of MMAs."""
    for j in range(1, 5):
        n = side ** (2 * j)
        pairs, classic = (tcu.Machine(side**2, executor="count") for _ in range(2))
        pairs.sum(pairs.shape(n), "two-mma")
        levels = len({entry.path for entry in pairs.ledger})
        assert 4 * halved(classic, n) / (5 * levels) == pytest.approx(4 / 5 * math.log2(side**2))
        assert classic.ledger.steps == n - 1  # the work, where the papers count levels
        assert modelled_time(n, m=side).speedup_two_mma == pytest.approx(4 / 5 * math.log2(side**2))


def test_longer_chains_take_longer_but_for_two_on_a_unit_of_side_two() -> None:
    """Section 4.3 of paper 000 says it of every R > 1: 4 (R - 1) log₂ m > 5 log₂ R fails for m = 2, R = 2 alone."""
    shorter = {
        (side, chain)
        for side in (*range(2, 65), 256, 1 << 20)
        for chain in range(2, 200)
        for n in (2, 1000, 1 << 20, 10**12)
        if modelled_time(n, chain, side).chained <= modelled_time(n, 1, side).chained
    }
    assert shorter == {(2, 2)}
    one, two = (modelled_time(1 << 20, chain, 2).chained for chain in (1, 2))
    assert (one, round(two, 1)) == (50.0, 46.7)
    # By what runs, too: whole levels of R m² numbers.
    executed = {}
    for chain in (1, 2):
        machine = tcu.Machine(4, executor="count")
        machine.sum(machine.shape(8**8), "chained", chain=chain)
        executed[chain] = (2 * chain + 3) * len({entry.path for entry in machine.ledger})
    assert executed == {1: 60, 2: 56}


@pytest.mark.parametrize("chain", [1, 2, 4, 5])
def test_chains_need_one_more_call_for_each(chain: int) -> None:
    m = tcu.Machine(16, 3, executor="count")
    m.sum(m.shape(16 * chain * 16 * chain), "chained", chain=chain)
    groups = 16 * chain + 1
    assert m.ledger.tensor_calls == (chain + 1) * groups
    assert sum(e.count for e in m.ledger if e.name == "add sums of rows") == (chain - 1) * 16 * groups
    # And the ones of both levels.
    assert m.ledger.steps == (chain - 1) * 16 * groups + 2 * 16
    levels = {entry.path for entry in m.ledger}
    assert math.isclose((2 * chain + 3) * len(levels), modelled_time((16 * chain) ** 2, chain, 4).chained)


def test_later_levels_add_little() -> None:
    for variant, chain in VARIANTS:
        for m, latency in ((16, 0), (16, 1600), (256, 256)):
            machine = tcu.Machine(m, latency, executor="count")
            machine.sum(machine.shape(m**4 * chain), variant, chain=chain)
            bound = sum_bound(machine, m**4 * chain, variant, chain)
            room = 1 / (math.isqrt(m) - 1) if variant == "tall" else 1 / (m - 1)
            steps = machine.ledger.steps / bound
            least = 2 * m / bound  # the last call has fewer than √m rows
            assert machine.cost / bound <= 1 + room + steps + least + 1e-9


def test_on_a_unit_the_levels_are_rounded() -> None:
    """4096 + 1 is no binary16 number: from the second level on the recurrence loses the 1."""
    m = tcu.Machine(256, executor=ModelExecutor("H100", "binary16"))
    x = np.zeros(16 * 16 * 2)
    x[0], x[1], x[300] = 4096, 1, 1
    assert m.sum(x, "tall") == 4097  # 4097 rounds to 4096 for level two, and the other 1 arrives
    assert m.sum(x[:16], "tall") == 4097


def test_errors() -> None:
    m = tcu.Machine(16)
    with pytest.raises(ParameterError, match="variant='pairs': choose one of tall, two-mma, chained"):
        m.sum([1.0], "pairs")  # type: ignore[arg-type]
    for chain in (0, 2, 1.5, True):
        with pytest.raises(ParameterError, match="chain="):
            m.sum([1.0], "tall", chain=chain)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="m=1: a unit for single numbers does not sum; take m=4"):
        tcu.Machine(1).sum([1.0, 2.0])
    with pytest.raises(DtypeError, match="x has dtype complex128: give real numbers or integers"):
        tensor_sum(m, [1j])
