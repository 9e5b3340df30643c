"""Contract: studies that need a GPU measure on the GPU at hand, and what they measure can be shown.

Sums are right whoever adds them, products of matrices by hand and by the
library agree with exact ones, and no kernel differs from its model.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_support import gpu_or_skip

from tcu.study import STUDIES, run_study, what_is_missing

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
        error = row.get("percent_error", {}).get("normal")
        assert error is None or error < 10
        assert row.get("relative_error", 0) < 2**-8
        assert row.get("different", 0) == 0


def test_a_row_of_turns_has_times_errors_and_reasons() -> None:
    """The protocol itself, with the wall clock in place of a GPU's."""
    pytest.importorskip("torch", reason="needs PyTorch")
    from tcu.study.gpu.data import random_array
    from tcu.study.gpu.peers import Participant, sum_of
    from tcu.study.gpu.reductions import rows
    from tcu.study.gpu.timing import WallClock

    data = {name: random_array(name, 200_000, "float16", "cpu") for name in ("normal", "uniform")}
    who = [
        Participant("default", sum_of()),
        Participant("overflows", sum_of(variant="recurrence")),
        Participant("refused", sum_of(chain=0)),
    ]
    right, overflowed, refused = rows(who, data, WallClock())
    assert right["seconds"] > 0
    assert 0 <= right["percent_error"]["uniform"] < 1e-3
    assert overflowed["percent_error"]["uniform"] is None
    assert overflowed["percent_error"]["normal"] < 10
    assert refused == {"missing": "chain (R) = 0: choose a whole number from 1 to 1024"}
