"""Contract of ``tcu cumsum`` and ``fcumsum``: the file that they write holds what the function of that name gives for the other's numbers.

Nothing is written where something is refused, and every refusal is one line that names the next step.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcu
from tcu.cli import main


@pytest.fixture
def run(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: Any, operation: str = "cumsum", stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([operation, *(str(argument) for argument in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.slow(1)
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("flags", [[], ["--exclusive"], ["--reverse"], ["--exclusive", "--reverse"]])
def test_running_sums_go_into_a_file(run: Any, axis: int | None, flags: list[str]) -> None:
    x = np.random.default_rng(1).standard_normal((3, 40, 5)).astype(np.float16)
    np.save("x.npy", x)
    given = [*flags, *([] if axis is None else ["--axis", axis]), "-o", "y.npy"]
    options: dict[str, Any] = {"exclusive": "--exclusive" in flags, "reverse": "--reverse" in flags}
    for dtype in (None, "float64"):
        expected = tcu.cumsum(x, axis, dtype=dtype, **options)
        code, out, err = run("x.npy", *given, *([] if dtype is None else ["--dtype", dtype]), "--json")
        assert (code, err) == (0, "")
        written = np.load("y.npy")
        assert (written.shape, written.dtype) == (expected.shape, expected.dtype)
        assert written.tobytes() == expected.tobytes()
        document = json.loads(out)
        assert document["axis"] == (axis if axis is None else axis % 3)
        assert (document["exclusive"], document["reverse"]) == (options["exclusive"], options["reverse"])
        assert (document["shape"], document["result_shape"]) == ([3, 40, 5], list(expected.shape))
        assert document["n"] * document["rows"] == x.size
        assert document["result_dtype"] == str(expected.dtype)
        plan = tcu.cumsum(x, axis, return_info=True)[1].plan
        assert (document["group"], document["levels"], document["depth"]) == (
            plan.group,
            plan.levels,
            plan.depth,
        )


def test_what_is_printed(run: Any) -> None:
    np.save("x.npy", np.ones((3, 40), np.float32))
    code, out, err = run("x.npy", "--axis", -1, "--reverse", "--exclusive", "-o", "y.npy")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "x.npy: 3 × 40 of float32, exclusive, from the end, along axis 1",
        "3 × scan of 40 binary32: 5 groups of 8, 1 level of radix 32, depth 13, in binary64",
        "y.npy: 3 × 40 of float32",
    ]
    assert "x.npy: 3 × 40 of float32, all as one line\n1 × scan of 120" in run("x.npy", "-o", "y.npy")[1]
    code, out, _ = run("--help")
    assert code == 0
    assert all(
        word in out for word in ("tcu cumsum", "Example", "--json", "--exclusive", "--reverse", "--axis")
    )


@pytest.mark.slow
def test_exact_running_sums_have_no_plan(run: Any) -> None:
    x = np.array([[1, 2.0**-53, 2.0**-53], [1e308, 1e308, -1e308]])
    np.save("x.npy", x)
    code, out, err = run("x.npy", "--axis", 1, "-o", "y.npy", operation="fcumsum")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "x.npy: 2 × 3 of float64, along axis 1",
        "2 × 3 sums, each rounded once from the exact one",
        "y.npy: 2 × 3 of float64",
    ]
    assert np.load("y.npy").tolist() == [[1, 1, 1 + 2.0**-52], [1e308, np.inf, 1e308]]
    code, out, err = run("x.npy", "-o", "y.npy", "--exclusive", "--json", operation="fcumsum")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "shape": [2, 3], "dtype": "float64", "axis": None, "exclusive": True, "reverse": False, "n": 6, "rows": 1,
        "output": "y.npy", "result_shape": [6], "result_dtype": "float64", "rounded_from": None,
    }  # fmt: skip
    assert np.load("y.npy").tobytes() == tcu.fcumsum(x, exclusive=True).tobytes()
    for option in ("--unit", "--variant", "--chain", "--accumulator"):
        assert f"no such option: {option}" in run("x.npy", "-o", "y.npy", option, "1", operation="fcumsum")[2]
    assert "--gpu: the running sums" in run("x.npy", "-o", "y.npy", "--gpu", operation="fcumsum")[2]


def test_other_files_and_formats(run: Any) -> None:
    assert run("-", "-o", "y.npy", "--column", "b", stdin=b"a,b\n1,2\n3,4.5\n")[0] == 0
    assert np.load("y.npy").tolist() == [2, 6.5]
    x = np.random.default_rng(2).random((4, 30))
    np.save("x.npy", x)
    for axis in ([], ["--axis", 0]):
        assert run("x.npy", "-o", "y.npy", "--input-dtype", "bfloat16", "--dtype", "float32", *axis)[0] == 0
        rounded = x.astype(ml_dtypes.bfloat16)
        assert np.array_equal(np.load("y.npy"), tcu.cumsum(rounded, 0 if axis else None))
        np.save("big.npy", 1e6 * x)
        code, _, err = run("big.npy", "-o", "y.npy", "--input-dtype", "float16", *axis)
        assert (code, "became inf" in err) == (0, True)


def test_what_is_refused(run: Any) -> None:
    np.save("x.npy", np.zeros((2, 3), np.float16))
    for arguments, message in (
        (["x.npy"], "the running sums are an array, which goes to a file: give -o FILE.npy"),
        (["x.npy", "--axis", 2, "-o", "y.npy"], "axis 2 of an array with 2 axes: choose -2 to 1"),
        (["x.npy", "-o", "none/y.npy"], "cannot write none/y.npy: there is no folder none"),
        (["x.npy", "-o", "y.npy", "--dtype", "tf32"], "--dtype tf32: sums take"),
        (["z.npy", "-o", "y.npy"], "z.npy"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert message in err
        assert not Path("y.npy").exists()


def test_the_help_does_not_promise_exact_running_sums(run):
    """They are sums in binary64: cumsum([1, 2^-53, 2^-53]) ends in 1."""
    assert tcu.cumsum(np.array([1, 2**-53, 2**-53]))[-1] == 1
    help_text = " ".join(run("cumsum", "--help")[1].split())
    assert "added in binary64" in help_text
    assert "each rounded once" not in help_text
