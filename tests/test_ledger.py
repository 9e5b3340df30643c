"""Contract: a ledger lists every call and step by section and name, and its cost is the sum of its entries.

Equal calls of a section are one entry.  JSON brings back an equal ledger, and
changed JSON is refused.  People read six digits of what no screen holds; JSON has all.  Replay with another latency is what the program costs
there; with another m it is the cost of the same products cut to that unit.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcu
from tcu.errors import DataFileError, ParameterError
from tcu.machine import Entry, Ledger, tensor_cost


def filled() -> tcu.Machine:
    m = tcu.Machine(16, 10, executor="count")
    m.multiply(m.shape((9, 4)), m.shape((4, 4)))
    with m.section("part"):
        for _ in range(3):
            m.multiply(m.shape((2, 4)), m.shape((4, 4)), name="small")
        m.step(100, "add")
    return m


def test_entries_and_sums() -> None:
    ledger = filled().ledger
    assert ledger.entries == (
        Entry((), "tensor", "multiply", 9, 1, 46),
        Entry(("part",), "tensor", "small", 2, 3, 3 * 26),
        Entry(("part",), "step", "add", 0, 100, 100),
    )
    assert ledger.cost == 46 + 78 + 100
    assert (ledger.tensor_calls, ledger.tensor_cost, ledger.steps) == (4, 124, 100)
    assert ledger.tensor_rows == 9 + 3 * 4
    assert len(ledger) == 3
    assert tensor_cost(2, 4, 10) == 26


def test_what_another_machine_did_is_recorded_in_a_section() -> None:
    m = filled()
    with m.section("again"):
        m.record(filled().ledger)
        m.record(filled().ledger)
    assert m.ledger.entries[3:] == (
        Entry(("again",), "tensor", "multiply", 9, 2, 92),
        Entry(("again", "part"), "tensor", "small", 2, 6, 6 * 26),
        Entry(("again", "part"), "step", "add", 0, 200, 200),
    )
    assert m.ledger.entries[:3] == filled().ledger.entries


def test_the_tree_shows_every_number() -> None:
    text = str(filled().ledger)
    assert text.splitlines() == [
        "cost 224 on m = 16, latency 10",
        "├── multiply: 1 × 9 rows, cost 46",
        "└── part: 178 (79.5%)",
        "    ├── small: 3 × 2 rows, cost 78",
        "    └── add: 100 steps, cost 100",
    ]
    assert str(Ledger(4, 0.5)) == "cost 0 on m = 4, latency 0.5"


def test_deep_sections_fold() -> None:
    m = filled()
    with m.section("part"), m.section("deeper"):
        m.step(5, "add")
        with m.section("deepest"):
            m.step(7, "add")
    assert m.ledger.folded(9) == m.ledger
    assert m.ledger.folded(1).entries == (
        Entry((), "tensor", "multiply", 9, 1, 46),
        Entry(("part",), "tensor", "small", 2, 3, 3 * 26),
        Entry(("part",), "step", "add", 0, 112, 112),
    )
    assert m.ledger.merged(2) == m.ledger.folded(2).entries
    assert m.ledger.folded(0).cost == m.ledger.cost


def test_the_tree_of_numbers_that_no_screen_holds() -> None:
    ledger = Ledger(10**60, 10**60)
    ledger.add((), "tensor", "call", 10**24, 10**24 - 1)
    ledger.add((), "step", "many", 0, 10**400)
    assert str(ledger).splitlines() == [
        "cost about 10^400 on m = 1e+60, latency 1e+60",
        "├── call: 999,999,999,999,999,999,999,999 × 1e+24 rows, cost 2e+84",
        "└── many: about 10^400 steps, cost about 10^400",
    ]
    assert Ledger.from_json(ledger.to_json()) == ledger


names = st.text(max_size=5)
entries = st.tuples(
    st.lists(names, max_size=3).map(tuple), st.sampled_from(["tensor", "step"]), names,
    st.integers(0, 10**12), st.integers(0, 10**30),
)  # fmt: skip


@given(st.lists(entries, max_size=6), st.sampled_from([1, 16, 65536]), st.sampled_from([0, 7, 0.25]))
def test_json_brings_back_the_ledger(rows: list[tuple], m: int, latency: float) -> None:
    ledger = Ledger(m, latency)
    for path, kind, name, count, calls in rows:
        ledger.add(path, kind, name, count, calls)
    again = Ledger.from_json(ledger.to_json(indent=1))
    assert again == ledger
    assert again.cost == ledger.cost


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(cost=data["cost"] + 1),
        lambda data: data["entries"][0].update(rows=10),
        lambda data: data["entries"][0].update(kind="magic"),
        lambda data: data["entries"][0].update(count=-1),
        lambda data: data["entries"][0].update(count=float("inf")),
        lambda data: data.update(m=15),
        lambda data: data.update(format="other"),
        lambda data: data.pop("entries"),
    ],
)
def test_changed_json_is_refused(change: object) -> None:
    data = filled().ledger.to_dict()
    change(data)  # type: ignore[operator]
    with pytest.raises(DataFileError, match="ledger"):
        Ledger.from_json(json.dumps(data))
    with pytest.raises(DataFileError, match="this text is no ledger"):
        Ledger.from_json("{")


def test_replay_with_another_latency_is_exact() -> None:
    runs = []
    for latency in (0, 10, 1600):
        m = tcu.Machine(16, latency, executor="count")
        m.matmul(m.shape((50, 33)), m.shape((33, 20)))
        runs.append(m.ledger)
    for ledger in runs:
        assert ledger.replay(latency=runs[0].latency) == runs[0]
        assert ledger.replay(latency=runs[2].latency).cost == runs[2].cost


def test_replay_with_another_m_cuts_the_same_products() -> None:
    ledger = filled().ledger
    small, large = ledger.replay(m=4), ledger.replay(m=64, latency=3)
    # Each 4 × 4 becomes four of 2 × 2, and each entry of the products one addition.
    assert small.tensor_calls == 4 * 4
    assert small.cost == 4 * (9 * 2 + 10) + 9 * 4 + 3 * (4 * (2 * 2 + 10) + 2 * 4) + 100
    assert large.cost == (9 * 8 + 3) + 3 * (8 * 8 + 3) + 100
    for bad in (5, 0):
        with pytest.raises(ParameterError, match=f"m={bad}"):
            ledger.replay(m=bad)
    # A product that fills the unit has, cut, the cost of the same product on the smaller machine.
    whole, cut = tcu.Machine(64, 7, executor="count"), tcu.Machine(16, 7, executor="count")
    for m in (whole, cut):
        m.matmul(m.shape((40, 8)), m.shape((8, 8)))
    # But for the blocks of the result, which the smaller machine puts beside each other.
    assert whole.ledger.replay(m=16).cost == cut.cost - 40 * 8


def test_ledgers_are_compared_by_what_they_list() -> None:
    assert filled().ledger == filled().ledger
    other = filled()
    other.step(1)
    assert other.ledger != filled().ledger
    assert filled().ledger != 3
    other.ledger.clear()
    assert other.cost == 0
