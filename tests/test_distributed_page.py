"""Contract: docs/distributed.md tells what is so: its code runs, its tables are the benchmarks'."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tcu.distributed.words import WORDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "distributed.md").read_text()


def test_the_code_runs() -> None:
    pytest.importorskip("dask.array", reason='Dask is not installed: pip install "tcu[dask]"')
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "distributed.md", "exec"), namespace)
    compile(re.findall(r"```py\n(.*?)```", PAGE, re.S)[0], "distributed.md", "exec")


def test_the_tables_are_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("distributed_tables", None)
    from distributed_tables import filled

    assert filled(PAGE) == PAGE, "python benchmarks/distributed_tables.py --write"


def test_the_bytes_are_those_that_travel() -> None:
    assert f"{8 * WORDS[False]} bytes a rank ({8 * WORDS[True]} for" in PAGE
