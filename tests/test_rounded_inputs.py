"""What was rounded before it was summed.

Contract: wherever a command says "exact", it says whether the numbers were
rounded first, and from what: in text and in ``--json``, of one file and of
several, and also after an interruption.  Numbers that rounding leaves as they
are count as not rounded; decimal text always does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tcu.cli import main
from tcu.cli.data import DataElements
from tcu.formats import get_format

BIG = 2**53 + 1


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> str:
        assert main(list(arguments)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return call


def test_an_integer_that_binary64_does_not_hold(run: Any) -> None:
    np.save("big.npy", np.array([BIG]))
    out = run("sum", "big.npy", "--input-dtype", "float64", "--exact")
    assert "1 of float64, rounded from int64" in out
    assert "9007199254740992.0 of the rounded numbers" in out
    document = json.loads(run("sum", "big.npy", "--input-dtype", "float64", "--exact", "--json"))
    assert document["rounded_from"] == "int64"
    out = run("sum", "big.npy", "--input-dtype", "float64")
    assert "rounded from int64" in out
    assert "of the rounded numbers" in out
    assert json.loads(run("sum", "big.npy", "--input-dtype", "float64", "--json"))["rounded_from"] == "int64"


def test_text(run: Any) -> None:
    Path("x.csv").write_text("0.1\n0.2\n")
    for given in ((), ("--exact",), ("--input-dtype", "float16")):
        assert "rounded from text" in run("sum", "x.csv", *given)
        assert "of the rounded numbers" in run("sum", "x.csv", *given)
        assert json.loads(run("sum", "x.csv", *given, "--json"))["rounded_from"] == "text"
    out = " ".join(run("compare", "x.csv", "--input-dtype", "float32").split())
    assert "2 of float32, rounded from text, exact sum of the rounded numbers 0." in out
    assert json.loads(run("compare", "x.csv", "--json"))["rounded_from"] == "text"
    assert "of float64 rounded from text" in run("cumsum", "x.csv", "-o", "y.npy")
    assert json.loads(run("cumsum", "x.csv", "-o", "y.npy", "--json"))["rounded_from"] == "text"
    np.save("x.npy", np.ones(3))
    assert json.loads(run("sum", "x.csv", "x.npy", "--json"))["rounded_from"] == "text"


def test_what_is_not_rounded_is_not_said_to_be(run: Any) -> None:
    np.save("x.npy", np.arange(100))
    for given in ("--exact", "--json"):
        assert "rounded from" not in run("sum", "x.npy", "--input-dtype", "float16", given)
    assert json.loads(run("sum", "x.npy", "--input-dtype", "float16", "--json"))["rounded_from"] is None
    np.save("y.npy", np.ones(10, np.float32))
    out = run("sum", "y.npy", "--exact")
    assert "of the rounded numbers" not in out
    assert "10 of float32 " in out


@pytest.mark.parametrize(
    ("numbers", "target", "changed"),
    [
        (np.array([BIG]), "binary64", True),
        (np.array([BIG - 1, -BIG + 1, 0, -(2**63)]), "binary64", False),
        (np.array([2**63 - 1]), "binary64", True),
        (np.array([2**64 - 1], np.uint64), "binary64", True),
        (np.array([2**63, 0], np.uint64), "binary64", False),
        (np.array([2**24 + 1], np.int32), "binary32", True),
        (np.array([2**24, -7], np.int32), "binary32", False),
        (np.array([True, False]), "binary16", False),
        (np.array([0.1]), "binary32", True),
        (np.array([0.5, np.inf, -0.0, np.nan]), "binary16", False),
        (np.array([65504.0, 65520.0]), "binary16", True),
        (np.array([1.0, 257.0], np.float16), "bfloat16", True),
        (np.array([1.0, 256.0], np.float16), "bfloat16", False),
        (np.array([1.0, 3.0], ml_dtypes.bfloat16), "binary16", False),
        (np.array([1e-30], ml_dtypes.bfloat16), "binary16", True),
        (np.array([0.1], np.longdouble) + np.longdouble(1e-19), "binary64", True),
        (np.array([0.5], np.longdouble), "binary64", False),
    ],
)
def test_whether_rounding_changed_a_number(numbers: Any, target: str, changed: bool) -> None:
    elements = DataElements(numbers, get_format(target))
    elements.read(0, elements.n)
    if np.finfo(np.longdouble).nmant <= 52 and numbers.dtype == np.longdouble:
        changed = False  # where it is binary64
    assert elements.changed is changed
    assert elements.rounded_from == (str(numbers.dtype) if changed else None)


def test_an_interrupted_run_remembers(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that is changed is in the part that the first run has read."""
    numbers = np.zeros(3 << 20, np.int64)
    numbers[0] = BIG
    np.save("x.npy", numbers)
    state = (
        "sum",
        "x.npy",
        "--input-dtype",
        "float64",
        "--checkpoint",
        "state.json",
        "--checkpoint-every",
        "0",
    )
    read = DataElements.strips

    def failing(self: Any, start: int, *rest: Any) -> Any:
        if start >= 1 << 21:
            raise KeyboardInterrupt
        return read(self, start, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(DataElements, "strips", failing)
        patch.setenv("TCU_NUM_THREADS", "1")
        assert main(list(state)) == 130
    content = json.loads(Path("state.json").read_text())["content"]
    assert content["position"] == 1 << 21
    assert content["states"]["changes"] == [False, True]
    seen: list[int] = []
    monkeypatch.setattr(
        DataElements, "strips", lambda self, start, *rest: seen.append(start) or read(self, start, *rest)
    )
    assert json.loads(run(*state, "--json"))["rounded_from"] == "int64"
    assert min(seen) > 0
