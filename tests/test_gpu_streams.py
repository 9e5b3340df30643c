"""Contract: numbers from the host that a GPU sums a piece at a time have the model's bits.

Random lengths around the borders of pieces and chunks, every dtype, numbers
of all kinds; and ``tcu sum --gpu`` prints what ``tcu sum`` prints for the
GPU's unit.  The kernels also compile without a GPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu_support import gpu_or_skip, unit_or_skip
from numbers_of_all_kinds import KINDS, draw
from test_gpu_compile import nvrtc_or_skip
from typer.testing import CliRunner

import tcu
from tcu import streams
from tcu.cli.app import app
from tcu.errors import ParameterError
from tcu.formats import format_of
from tcu.gpu import feed  # noqa: F401, has what the kernel includes
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.plan import make_plan

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@pytest.mark.parametrize("element", ["BINARY16", "BINARY32", "BINARY64"])
def test_magnitudes_compile(element: str) -> None:
    nvrtc_or_skip()
    assert compile_cuda(task_of("magnitudes.cu", {"ELEMENT": element}, "sm_90")).log == ""


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_total_has_the_models_bits(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.streams import on_gpu

    unit = unit_or_skip(gpu_or_skip())
    rng = np.random.default_rng(1)
    for n in (0, 1, 255, 16_384, 16_385, 300_001, (1 << 22) + 77):
        for kind in KINDS if n < 1 << 20 else ["normal"]:
            x = draw(rng, n, dtype, kind)
            monkeypatch.setattr(on_gpu, "_PIECE", int(rng.integers(1, 1 << 19)))
            plan = make_plan(n, format_of(x.dtype), unit)
            on_cpu = [streams.PlannedTotal(plan, unit), streams.ExactTotal(), streams.Magnitudes()]
            through = [streams.PlannedTotal(plan, unit), streams.ExactTotal(), streams.Magnitudes()]
            streams.run(streams.ArraySource(x), on_cpu, memory=1 << 26)
            streams.run(streams.ArraySource(x), through, memory=1 << 26, gpu=0)
            assert bits(through[0].value()) == bits(on_cpu[0].value()), (n, kind)
            assert through[1].sum == on_cpu[1].sum, (n, kind)
            assert through[2].sum == on_cpu[2].sum, (n, kind)
            if not through[2].sum.nans:
                assert through[2].top == on_cpu[2].top, (n, kind)


@pytest.mark.gpu
def test_the_command_line(tmp_path: Path) -> None:
    unit = unit_or_skip(gpu_or_skip()).name
    x = np.random.default_rng(2).standard_normal(3_000_001).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for flags in ([], ["--input-dtype", "float16"], ["--exact"], ["--exact", "--input-dtype", "bfloat16"]):
        plain = [] if "--exact" in flags else ["--unit", unit]
        documents = []
        for who in (["--gpu"], plain):
            result = CliRunner().invoke(app, ["sum", str(tmp_path / "x.npy"), "--json", *flags, *who])
            assert result.exit_code == 0, result.output
            documents.append(json.loads(result.output))
        assert documents[0] == documents[1]


@pytest.mark.gpu
def test_what_does_not_go_through_a_gpu() -> None:
    unit = unit_or_skip(gpu_or_skip())
    source = streams.ArraySource(np.ones(100))
    plan = make_plan(100, format_of(np.dtype(float)), unit, variant="single-pass")
    with pytest.raises(ParameterError, match="by binary64 only"):
        streams.run(source, [streams.PlannedTotal(plan, unit)], memory=1 << 26, gpu=0)
    with pytest.raises(ParameterError, match="device=99"):
        streams.run(source, [streams.ExactTotal()], memory=1 << 26, gpu=99)


def test_without_a_gpu_the_error_says_so(tmp_path: Path) -> None:
    from tcu.gpu import GpuError, find_gpu

    try:
        find_gpu()
    except GpuError as error:
        with pytest.raises(type(error)):
            streams.run(streams.ArraySource(np.ones(3)), [streams.ExactTotal()], memory=1 << 26, gpu=0)
    else:
        assert tcu.fsum(np.ones(3)) == 3.0
