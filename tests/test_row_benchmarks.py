"""Contract: the benchmarks of functions of rows and of a decoder run on the CPU, small, and know a wrong result.

What a run adds to a file is of the same sources, and no point is there twice.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import gpu_decoder  # noqa: E402  beside what it measures
import gpu_row_functions  # noqa: E402
import sources  # noqa: E402


def run(monkeypatch: pytest.MonkeyPatch, module: Any, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *options])
    return int(module.main())


@pytest.mark.slow
def test_every_function_of_rows_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(monkeypatch, gpu_row_functions, "--dry-run", "--quick") == 0
    said = capsys.readouterr().out
    for function in gpu_row_functions.FUNCTIONS:
        for direction in ("forward", "backward"):
            assert said.count(f"\n{function} {direction} ") == 3 * 2 * 2, (function, direction)


def test_a_wrong_row_is_marked(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    plain = gpu_row_functions.FUNCTIONS["var"]
    calls = []

    def wrong(x: Any, w: Any, t: Any) -> Any:
        calls.append(1)
        return plain.own(x, w, t) + float(len(calls) == 1)

    monkeypatch.setitem(
        gpu_row_functions.FUNCTIONS,
        "var",
        gpu_row_functions.Function(wrong, plain.theirs, False, plain.launched_by),
    )
    words = ("--dry-run", "--quick", "--only", "var forward float32 32768")
    assert run(monkeypatch, gpu_row_functions, *words) == 1
    assert "WRONG" in capsys.readouterr().out


def test_points_are_added_to_those_of_the_same_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """And what the file has is not measured again; a run that ends early leaves the lengths that it has."""
    (part,), name = sources.kernels_of("moments"), "gpu-row-functions"
    now = {"sources": {part: "1", "other": "2"}, "machine": {"gpu": "one"}}
    monkeypatch.setattr(gpu_row_functions.record, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu_row_functions.record, "provenance", lambda *_: now)
    monkeypatch.setattr(gpu_row_functions, "LENGTHS", (9, 8))
    monkeypatch.setattr(gpu_row_functions, "copying", lambda *_: 1e12)
    measured = []

    def rows_of(case: Any, *_: Any) -> list[dict[str, Any]]:
        if len(measured) == most:
            raise KeyboardInterrupt
        measured.append(case.length)
        words = {
            "function": case.function,
            "direction": case.direction,
            "dtype": case.dtype,
            "length": case.length,
        }
        return [
            words | {"state": state, "peer": "eager", "right": True}
            for state in ("repeated", "just produced")
        ]

    def lengths() -> list[int]:
        rows = json.loads((tmp_path / f"{name}.json").read_text())["figures"]["rows"]
        return [row["length"] for row in rows]

    monkeypatch.setattr(gpu_row_functions, "rows_of", rows_of)
    before = {"sources": {part: "1", "other": "1"}, "machine": {"gpu": "one"}, "figures": {"rows": []}}
    (tmp_path / f"{name}.json").write_text(json.dumps(before))
    words = ("--add", "--without-compile", "--only", "var forward")
    most = 3
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, gpu_row_functions, *words)
    assert measured == [9, 9, 8]
    assert lengths() == [9] * 4
    most = 9
    assert run(monkeypatch, gpu_row_functions, *words) == 0
    assert measured == [9, 9, 8, 8, 8]
    assert lengths() == [8, 8, 9, 9] * 2
    first = (tmp_path / f"{name}.json").read_text()
    (of_norms,) = sources.kernels_of("norms")
    changes = (
        {"machine": {"gpu": "another"}},
        {"sources": {part: "2"}},
        {"sources": {part: "1", of_norms: "2"}},
    )
    for change, anew in zip(changes, (True, True, False), strict=True):
        monkeypatch.setattr(gpu_row_functions.record, "provenance", lambda *_, change=change: now | change)
        measured.clear()
        assert run(monkeypatch, gpu_row_functions, *words) == 0
        assert measured == ([9, 9, 8, 8] if anew else [])
        (tmp_path / f"{name}.json").write_text(json.dumps(before | {"figures": json.loads(first)["figures"]}))


@pytest.mark.slow
def test_a_decoder_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert run(monkeypatch, gpu_decoder, "--dry-run", "--only", "plain,reproducible") == 0
    said = capsys.readouterr().out
    assert "not covered: nothing" in said
    for part in ("a step", "product, head", "attention", "norm", "loss"):
        assert part in said
