"""The benchmark of host time, where it needs no GPU.

The contract: every call takes tensors and arrays alike; a run times each of them, compares its bits with the
model's and leaves what is there as it is; a wrong result is marked, and is the exit status; the site's page
shows what a run on a GPU has written.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the benchmark's arrays are PyTorch's")
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import gpu_host_time  # noqa: E402
import page  # noqa: E402


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The exit status and what is printed."""
    monkeypatch.setattr(sys, "argv", ["gpu_host_time.py", "--dry-run"])
    monkeypatch.setattr(gpu_host_time, "BATCH", 1)
    monkeypatch.setattr(gpu_host_time.record, "save", lambda *_: pytest.fail("written"))
    return lambda: (gpu_host_time.main(), capsys.readouterr().out)


def test_every_call_is_timed_and_right(run: Any) -> None:
    status, text = run()
    assert status == 0
    assert "WRONG" not in text
    for name in (*gpu_host_time.OURS, *gpu_host_time.THEIRS):
        assert f"{name} " in text


def test_other_bits_than_the_models_are_seen(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpu_host_time.OURS["tcu.fsum(x)"]
    wrong = lambda x, o, **unit: right(x, o, **unit) + (1 if isinstance(x, torch.Tensor) else 0)  # noqa: E731
    monkeypatch.setitem(gpu_host_time.OURS, "tcu.fsum(x)", wrong)
    status, text = run()
    assert status == 1
    assert [line.split()[0] for line in text.splitlines() if "WRONG" in line] == ["tcu.fsum(x)"]


def test_the_page_shows_a_run_on_a_gpu(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: dict[str, Any] = {}
    monkeypatch.setattr(sys, "argv", ["gpu_host_time.py"])
    for name in ("CudaClock", "WallClock"):
        monkeypatch.setattr(gpu_host_time, name, lambda: SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(gpu_host_time, "DEVICE", "cpu")
    monkeypatch.setattr(gpu_host_time, "find_gpu", lambda _: SimpleNamespace(unit="H200"))
    monkeypatch.setattr(gpu_host_time.record, "save", lambda name, figures, _: saved.update({name: figures}))
    assert run()[0] == 0
    document = {
        "figures": saved["gpu-host-time"],
        "machine": {"gpu": "a GPU"},
        "date": "today",
        "command": "it",
    }
    text = "\n".join(page.host_time({"gpu-host-time": document}))
    assert "50 × 1,000 numbers" in text
    assert all(f"| {name} | " in text for name in gpu_host_time.OURS)
