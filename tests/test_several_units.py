"""Contract: p units run p calls at once, share the rows of fewer calls, and change no bit.

A batch of calls takes as many rounds as p units need for it; the calls of the
last round, if fewer than p, share out their rows, at least √m to a unit.  So
cost falls with p, never below a p-th of that of one unit nor below the CPU's
steps.  The ledger of what was computed is that of shapes, and JSON brings it
back.  Results have the bits of one unit, carried out block by block.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import tcu
from tcu.algorithms import COSTS, cost_of
from tcu.cli import main
from tcu.errors import DataFileError, ParameterError
from tcu.machine import Ledger, ModelExecutor
from tcu.machine.executors import SystolicExecutor

RNG = np.random.default_rng(34)
A, B = RNG.standard_normal((90, 50)), RNG.standard_normal((50, 70))
PROGRAMS = {
    "matmul": lambda m: m.matmul(A, B),
    "strassen": lambda m: m.strassen(A, B),
    "sum": lambda m: m.sum(A),
    "two-mma": lambda m: m.sum(A, "two-mma"),
    "dft": lambda m: m.dft(A.reshape(-1)),
    "dft of a prime length": lambda m: m.dft(A.reshape(-1)[:331]),
    "integer": lambda m: np.array(m.integer_multiply(3**2000, 7**900, algorithm="schoolbook"), object),
}


def entries(m: tcu.Machine) -> list[tuple[int, int, int | None]]:
    return [(e.rows, e.count, e.rounds) for e in m.ledger]


def test_rounds_of_calls_and_shares_of_rows() -> None:
    m = tcu.Machine(16, 10, executor="count", units=4)
    m.multiply(m.shape((10, 7, 4)), m.shape((4, 4)))
    # Eight calls in two rounds; the last two on two units each, of four rows and three.
    assert entries(m) == [(7, 8, 2), (4, 4, 1)]
    assert m.cost == 2 * (7 * 4 + 10) + (4 * 4 + 10)
    assert (m.ledger.tensor_calls, m.ledger.steps) == (12, 0)
    m.reset()
    m.multiply(m.shape((1000, 4)), m.shape((4, 4)))
    assert entries(m) == [(250, 4, 1)]
    assert m.cost == 250 * 4 + 10
    m.reset()
    m.multiply(m.shape((9, 4)), m.shape((4, 4)))
    assert entries(m) == [(4, 3, 1)]  # a unit of fewer rows than √m gains nothing
    m.cpu.each(np.add, m.shape(5), m.shape(5), name="add")
    assert m.cost == 4 * 4 + 10 + 5
    assert str(m.ledger).splitlines() == [
        "cost 31 on m = 16, latency 10, 4 units",
        "├── multiply: 3 × 4 rows in 1 rounds, cost 26",
        "└── add: 5 steps, cost 5",
    ]


@pytest.mark.slow(3)
@pytest.mark.parametrize("name", [name for name in COSTS if name != "sparse"])
def test_cost_falls_with_the_units_and_the_cpu_remains(name: str) -> None:
    row = COSTS[name]
    for n in (*row.sizes(16)[1:4], row.sizes(16)[2] + 13):
        for weak in (False, True):
            alone = cost_of(row, n, 16, 16, weak=weak).ledger
            before = alone.cost
            for units in (2, 3, 16, 1000, 10**60):
                one = cost_of(row, n, 16, 16, weak=weak, units=units)
                assert alone.steps <= one.ledger.cost <= before
                assert one.ledger.cost >= alone.tensor_cost / units + alone.steps
                assert one.ledger.steps == alone.steps
                assert one.lower is None or one.ledger.cost >= one.lower
                # Every unit but a round's last has at least half of what the fullest has.
                assert one.ledger.tensor_cost >= alone.tensor_cost / units
                before = one.ledger.cost


def test_four_units_divide_dense_products_by_four() -> None:
    alone, four = (cost_of("matmul", 4096, 256, 0, units=units).ledger for units in (1, 4))
    assert four.tensor_cost == alone.tensor_cost / 4


@pytest.mark.some(24)
@pytest.mark.slow(1)
@pytest.mark.parametrize("units", [2, 3, 100])
@pytest.mark.parametrize(
    ("name", "executor"),
    [(name, executor) for name in PROGRAMS for executor in ("ideal", "binary16")]
    + [("two-mma", "systolic"), ("matmul", "systolic")],
)
def test_results_keep_their_bits(name: str, executor: str, units: int) -> None:
    if executor == "binary16":
        inside, m = ModelExecutor("H100", "binary16"), 256
    else:
        inside, m = executor, 16
    alone, several = tcu.Machine(m, 5, executor=inside), tcu.Machine(m, 5, executor=inside, units=units)
    expected, got = PROGRAMS[name](alone), PROGRAMS[name](several)
    assert np.array_equal(got, expected) if got.dtype == object else got.tobytes() == expected.tobytes()
    assert alone.ledger.steps == several.ledger.steps
    assert several.cost < alone.cost
    assert Ledger.from_json(several.ledger.to_json()) == several.ledger


def test_counting_charges_what_computing_charges() -> None:
    for program in (lambda m: m.matmul(m.array(A), m.array(B)), lambda m: m.dft(m.array(A.reshape(-1)))):
        computing, counting = tcu.Machine(16, 5, units=3), tcu.Machine(16, 5, executor="count", units=3)
        program(computing)
        program(counting)
        assert computing.ledger == counting.ledger


def test_what_one_unit_carries_out_is_a_block() -> None:
    seen = []

    class Seen(SystolicExecutor):
        def multiply(self, a: object, b: object) -> object:
            seen.append(a.shape)  # type: ignore[attr-defined]
            return super().multiply(a, b)

    m = tcu.Machine(16, executor=Seen(), units=3)
    a, b = RNG.standard_normal((20, 4)), RNG.standard_normal((4, 4))
    assert m.multiply(a, b).tobytes() == tcu.Machine(16, executor="systolic").multiply(a, b).tobytes()
    assert seen == [(7, 4), (7, 4), (6, 4)]
    assert entries(m) == [(7, 3, 1)]


def test_ledgers_of_several_units() -> None:
    m = tcu.Machine(16, 3, executor="count", units=3)
    m.matmul(m.shape((50, 20)), m.shape((20, 30)))
    assert m.ledger.folded(0).cost == m.cost
    assert m.ledger.replay(latency=0).cost == m.cost - 3 * sum(e.rounds or 0 for e in m.ledger)
    assert m.ledger.replay(m=4).units == 3
    again = tcu.Machine(16, 3, executor="count", units=3)
    again.record(m.ledger)
    assert again.ledger == m.ledger
    assert m.ledger != cost_of("matmul", 20, 16, 3).ledger
    data = m.ledger.to_dict()
    data["entries"][0]["rounds"] = 0
    with pytest.raises(DataFileError, match="this text is no ledger"):
        Ledger.from_json(json.dumps(data))
    assert repr(m) == "Machine(m=16, latency=3, word_bits=64, executor='count', units=3)"


@pytest.mark.parametrize("units", [0, -1, 1.5, True, "2", 10**61])
def test_units_are_a_whole_number(units: object) -> None:
    with pytest.raises(ParameterError, match=r"units=.*: give how many units run at once, from 1"):
        tcu.Machine(16, units=units)  # type: ignore[arg-type]


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "matmul", "--n", "4096", "--units", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    alone, four = (cost_of("matmul", 4096, 256, 0, units=units).ledger for units in (1, 4))
    assert (found["units"], found["cost"], found["speedup"]) == (4, four.cost, alone.cost / four.cost)
    assert main(["cost", "matmul", "--n", "4096", "--units", "4"]) == 0
    assert (
        f"4 units are {alone.cost / four.cost:.2f} times as fast as one; at most 2.00"
        in capsys.readouterr().out
    )
