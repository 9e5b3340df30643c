"""Contract: importing tcu is quick, has no side effects, and shows exactly the public names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tcu

REPOSITORY = Path(__file__).parents[1]


def fresh(code: str, folder: Path | None = None) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder or REPOSITORY
    ).stdout


def test_import_adds_less_than_300_ms_to_numpy() -> None:
    """Of the processor's time: what other programs do meanwhile is not counted."""
    code = "import time, numpy; start = time.process_time(); import tcu; print(time.process_time() - start)"
    fresh(code)  # writes the bytecode
    assert min(float(fresh(code)) for _ in range(3)) < 0.3


def test_import_loads_no_compiler_and_no_command_line() -> None:
    loaded = json.loads(fresh("import json, sys, tcu; print(json.dumps(sorted(sys.modules)))"))
    heavy = {
        "numba", "llvmlite", "typer", "rich", "torch", "cupy", "cuda", "platformdirs", "scipy", "plotly", "dask", "zarr",
    }  # fmt: skip
    assert not heavy & set(loaded)


def test_import_leaves_no_trace(tmp_path: Path) -> None:
    code = "import os; before = dict(os.environ); import tcu; print(before == dict(os.environ))"
    assert fresh(code, tmp_path).strip() == "True"
    assert list(tmp_path.iterdir()) == []


NAMES = [
    "mma",
    "sum",
    "mean",
    "dot",
    "norm",
    "var",
    "std",
    "cumsum",
    "cumsum_error_bound",
    "segment_cumsum",
    "segment_sum",
    "segment_mean",
    "segment_var",
    "segment_std",
    "segment_fsum",
    "segment_fmean",
    "segment_fvar",
    "segment_fstd",
    "fsum",
    "fmean",
    "fdot",
    "fnorm",
    "fvar",
    "fstd",
    "error_bound",
    "dot_error_bound",
    "var_error_bound",
    "std_error_bound",
    "probe",
    "infer",
    "ExactSum",
    "Machine",
    "integers",
    "SumInfo",
    "DotInfo",
    "ScanInfo",
    "Unit",
    "Instruction",
    "TcuError",
]


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name: str) -> None:
    assert getattr(tcu, name).__doc__


def test_all_operators_are_there_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    names = ("sum", "dot", "sum_along", "fsum_along", "cumsum", "segment_cumsum", "segment_fmean")
    code = f"import torch, tcu.torch; print([hasattr(torch.ops.tcu, name) for name in {names}])"
    assert json.loads(fresh(code).lower()) == [True] * len(names)
    save = (
        "import torch, tcu\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return tcu.segment_sum(tcu.cumsum(x), torch.tensor([0, 2, 4]))\n"
        "torch.export.save(torch.export.export(M(), (torch.ones(4),)), 'saved.pt2')"
    )
    load = "import torch, tcu.torch; print(torch.export.load('saved.pt2').module()(torch.ones(4)).tolist())"
    fresh(save, tmp_path)
    assert json.loads(fresh(load, tmp_path)) == [3, 7]


def test_the_machine_is_imported_when_it_is_asked_for() -> None:
    code = "import sys, tcu; print('tcu.machine' in sys.modules); tcu.Machine(16); print('tcu.machine' in sys.modules)"
    assert fresh(code).split() == ["False", "True"]
    assert {"Machine", "algorithms", "integers", "sum"} <= set(dir(tcu))
    assert tcu.algorithms.dft
    with pytest.raises(AttributeError, match="module 'tcu' has no attribute 'machines'"):
        tcu.machines  # noqa: B018


def test_every_error_is_a_tcu_error() -> None:
    from tcu import errors

    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == "tcu.errors"
    ]
    assert len(kinds) == 9
    assert all(issubclass(kind, tcu.TcuError) for kind in kinds)
    assert str(errors.UnknownNameError("plain words")) == "plain words"
