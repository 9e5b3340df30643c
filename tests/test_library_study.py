"""Contract: the study "libraries" says of every function what it adds, and of what it could not ask, why.

A library that is not installed is skipped with a word.  A row holds the plan of a small tree, and what that plan, read
again, returned on ordinary numbers; the plan is drawn.  What is refused is counted and told, never taken for right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tcu
from tcu.plan.load import plan_of
from tcu.probes.library import with_arrays_alone
from tcu.report.chapters import Chapter
from tcu.report.page import report_page
from tcu.study import STUDIES, Rows, Tree, Verdict, stored_folder, stored_result
from tcu.study import libraries as study
from tcu.study.libraries import revealed
from tcu.study.study import Row

STUDY = STUDIES["libraries"]
SUM = {"target": "numpy.sum", "kind": "sum", "dtype": "float32", "n": 40, "outputs": 50}


def measure(**point: Any) -> Row:
    assert STUDY.measure is not None
    (row,) = STUDY.measure(SUM | point)
    return row


def verdicts(*rows: Row) -> dict[str, Verdict]:
    return {each.statement: each for each in STUDY.show([*rows]).verdicts}


def test_a_row_holds_the_plan_and_what_it_returned_when_read_again() -> None:
    row = measure()
    assert (row["reproduced"], row["compared"], row["different"]) == (True, 50, 0)
    assert (row["chains"], row["longest"], row["stride"], row["operations"]) == (
        8,
        5,
        8,
        ["binary32 additions"],
    )
    assert (row["replayed"], row["replayed_different"], row["version"]) == (1, 0, np.__version__)
    x = np.random.default_rng(0).random(40, np.float32)
    assert tcu.probes.predict(plan_of(row["plan"], "a row"), x) == np.sum(x)


def test_a_library_that_is_not_there_is_skipped_with_a_word() -> None:
    row = measure(target="no_such_library.sum")
    assert row["missing"] == "no_such_library is not installed"
    shown = STUDY.show([measure(), row])
    assert [part.title for part in shown.parts][:2] == ["What each function adds", "Who is missing"]
    assert all("no_such_library" not in each.measured for each in shown.verdicts)


def test_a_plan_that_is_not_the_functions_is_noticed_when_it_is_replayed() -> None:
    row = measure(n=1000)
    found = study._replayed(row, lambda x: np.cumsum(x)[-1], tensors=False)
    forward = study._replayed(row, np.sum, tensors=False)
    assert forward["replayed_different"] == 0
    assert found["replayed_different"] == 1


@pytest.mark.slow(2)
@pytest.mark.parametrize("n", [8, 9, 127, 128, 129, 136, 1000, 4097])
def test_the_depth_that_numpys_order_has(n: int) -> None:
    assert measure(n=n)["depth"] == study._pairwise_depth(n)


@pytest.mark.slow
def test_what_is_refused_is_told() -> None:
    point = {**SUM, "target": "sorted first"}
    refused = revealed(point, lambda x: np.sum(np.sort(x)), "float32")
    assert not refused["reproduced"]
    verdict = verdicts(measure(), refused)[
        "Every function here follows one plan, which returns every bit of fresh results."
    ]
    assert verdict.outcome == "differs"
    assert verdict.measured.startswith("1 of 2 points")
    assert "sorted first of float32, 40 numbers: " in verdict.why


def test_trees_are_drawn_in_the_report() -> None:
    rows: Rows = [measure(), measure(n=100)]
    trees = [part for part in STUDY.show(rows).parts if isinstance(part, Tree)]
    assert [tree.title for tree in trees] == ["numpy.sum: float32, 40 numbers"]  # the smallest one
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    result = stored_result(STUDY, stored_folder())
    assert result is not None
    page = report_page([Chapter(STUDY, replace(result, rows=rows), "measured")], "as a test")
    assert 'class="tree"' in page


def test_functions_are_asked_with_arrays_alone() -> None:
    x = np.arange(5, dtype=np.float64)
    assert with_arrays_alone("builtins.sum", sum)(x) == 10
    assert with_arrays_alone("numpy.sum", np.sum)(x) == 10
    blas = pytest.importorskip("scipy.linalg.blas", reason="needs scipy")
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (with_arrays_alone("scipy.linalg.blas.sgemm", blas.sgemm)(a, a.T) == a @ a.T).all()
