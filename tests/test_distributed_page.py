"""Contract: docs/distributed.md tells what is so: its code is code, its tables are the benchmarks'."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from blocks import blocks

from tcu.distributed.words import size_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "distributed.md").read_text()


def test_what_needs_a_cluster_is_python_at_least() -> None:
    """The other blocks are run by tests/test_documents.py."""
    found = [block for block in blocks(PAGE) if block.kind in ("py", "python") and "cluster" in block.needs]
    assert found
    for block in found:
        compile(block.text, "distributed.md", "exec")


def test_the_tables_are_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("distributed_tables", None)
    from distributed_tables import filled

    assert filled(PAGE) == PAGE, "python benchmarks/distributed_tables.py --write"


def test_a_result_says_how_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from record import command

    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "gpu_distributed.py"), "--power", "30"])
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert command() == "python benchmarks/gpu_distributed.py --power 30"
    for name, value in (("TORCHELASTIC_RUN_ID", "none"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    assert command() == "torchrun --nproc-per-node=2 benchmarks/gpu_distributed.py --power 30"
    monkeypatch.setenv("WORLD_SIZE", "16")
    assert command() == "torchrun --nnodes=8 --nproc-per-node=2 benchmarks/gpu_distributed.py --power 30"
    monkeypatch.setattr(sys, "argv", ["/elsewhere/measure.py"])
    assert command().endswith("--nproc-per-node=2 measure.py")


def test_the_bytes_are_those_that_travel() -> None:
    assert f"{8 * size_of([False])} bytes a rank ({8 * size_of([True])} for" in PAGE
