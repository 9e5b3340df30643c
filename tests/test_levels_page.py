"""Contract: the page of benchmarks shows both forms of levels where a run has timed them, and is as before where not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import page


def text_of(document: Any) -> str:
    return "\n".join(page.block_sums({"gpu-atomic": document}))


def test_levels_have_a_table_for_each_size() -> None:
    stored = page.load("gpu-atomic")
    assert stored is not None
    without = {**stored, "figures": {"rows": stored["figures"]["rows"]}}
    options = [
        {"variant": "recurrence", "block": block, "chain": chain} for block in (32, 128) for chain in (1, 2)
    ] + [{"variant": "two-mma", "block": block} for block in (32, 128)]
    levels = [
        {"n": n, **each, "seconds": {"launches": (at + 1) * n * 1e-12, "one launch": (at + 2) * n * 1e-12}}
        for n in (1 << 20, 1 << 26)
        for at, each in enumerate(options)
    ]
    text = text_of({**stored, "figures": {**stored["figures"], "levels": levels}})
    before = text_of(without)
    assert "two-mma" not in before
    assert text.startswith(before + "\n")
    added = text.removeprefix(before).splitlines()
    assert [line for line in added if line.startswith("|")] == [
        "|  | R = 1 | R = 2 | two-mma |", "| --- | --- | --- | --- |",
        "| B = 32 | 1.0 / 2.1 | 2.1 / 3.1 | 5.2 / 6.3 |", "| B = 128 | 3.1 / 4.2 | 4.2 / 5.2 | 6.3 / 7.3 |",
        "|  | R = 1 | R = 2 | two-mma |", "| --- | --- | --- | --- |",
        "| B = 32 | 67.1 / 134.2 | 134.2 / 201.3 | 335.5 / 402.7 |",
        "| B = 128 | 201.3 / 268.4 | 268.4 / 335.5 | 402.7 / 469.8 |",
    ]  # fmt: skip
    assert [size in text for size in ("2^20 numbers", "2^26 numbers of float16")] == [True, True]
