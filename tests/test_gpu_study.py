"""Contract: studies that need a GPU measure on the GPU at hand, and what they measure can be shown.

Sums are right whoever adds them, products of matrices by hand and by the
library agree with exact ones, and no kernel differs from its model.  A time
that is the host's is none of the GPU's.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_support import gpu_or_skip

from tcu.study import STUDIES, run_study, what_is_missing
from tcu.study.gpu.timing import balanced_orders

NAMES = [study.name for study in STUDIES.values() if study.measure is not None and "gpu" in study.needs]


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_study_measures_and_shows(name: str, tmp_path: Path) -> None:
    gpu_or_skip()
    study = STUDIES[name]
    if why := what_is_missing(study):
        pytest.skip(why)
    rows = run_study(study, tmp_path, quick=True, command="a test").rows
    assert rows
    shown = study.show(rows)
    assert shown.parts
    assert shown.verdicts
    for row in rows:
        errors = row.get("percent_error", {}).get("normal")
        assert errors is None or sorted(error for error in errors if error is not None)[len(errors) // 2] < 10
        assert row.get("relative_error", 0) < 2**-8
        assert row.get("different", 0) == 0


@pytest.mark.parametrize("count", range(1, 13))
def test_each_participant_follows_each_other_one_equally_often(count: int) -> None:
    orders = balanced_orders(count)
    assert all(sorted(order) == list(range(count)) for order in orders)
    pairs = Counter(pair for order in orders for pair in pairwise(order))
    assert len(pairs) == count * (count - 1)
    assert len(set(pairs.values())) <= 1


def test_a_row_of_turns_has_times_errors_and_reasons() -> None:
    """The protocol itself, with the wall clock in place of a GPU's."""
    pytest.importorskip("torch", reason="needs PyTorch")
    from tcu.study.data import DRAWS
    from tcu.study.gpu.peers import Participant, sum_of
    from tcu.study.gpu.reductions import rows
    from tcu.study.gpu.timing import WallClock

    who = [
        Participant("default", sum_of()),
        Participant("overflows", sum_of(variant="recurrence")),
        Participant("refused", sum_of(variant="short-chain", chain=0)),
    ]
    right, overflowed, refused = rows(who, 200_000, ("normal", "uniform"), WallClock(), "cpu")
    assert right["seconds"] > 0
    assert all(len(errors) == DRAWS >= 30 for errors in right["percent_error"].values())
    assert all(0 <= error < 1e-3 for error in right["percent_error"]["uniform"])
    assert len(set(overflowed["percent_error"]["normal"])) == DRAWS, "the arrays differ"
    assert overflowed["percent_error"]["uniform"] == [None] * DRAWS
    assert refused == {"missing": "chain (R) = 0: choose a whole number from 1 to 1024"}


def test_calls_for_which_the_host_was_late_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only the calls move, with its times in place of a GPU's events."""
    from tcu.study.gpu import timing
    from tcu.study.gpu.timing import HEAD_START, CudaClock

    now = 0.0

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = now

        def elapsed_time(self, later: Event) -> float:
            return (later.at - self.at) * 1e3

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now))
    clock = object.__new__(CudaClock)
    cuda = SimpleNamespace(Event=Event, _sleep=lambda cycles: None, synchronize=lambda: None)
    clock._torch = SimpleNamespace(cuda=cuda)
    turns = iter([0, 0, 3, 0, 3, 0, 0, 0, 0, 0])  # two to set up
    found = clock.events(
        {
            "now and then": lambda _: takes(next(turns) * HEAD_START),
            "always": lambda _: takes(2 * HEAD_START),
        },
        1, 0.0, 8,
    )  # fmt: skip
    now_and_then, always = found["now and then"], found["always"]
    assert (now_and_then.samples, now_and_then.late) == (6, 2)
    assert now_and_then.p90 < HEAD_START
    assert (always.samples, always.late) == (8, 8)
    assert always.p10 > HEAD_START
