"""The table and the sentences of README and docs that hold measured figures, from benchmarks/results.

    python benchmarks/readme.py

prints them; a test holds the documents to them, and finds sentences with a
figure that are not among them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources import measured_parts, of_file

from tcu.plan import DEFAULT_VARIANT
from tcu.study.sources import remark

RESULTS = Path(__file__).parent / "results"
ROWS = (("float16", 30), ("bfloat16", 30), ("float32", 30), ("float64", 28))
COLUMNS = (
    "reading alone",
    "`tcu.sum`",
    "`tcu.fsum`",
    "CUB",
    "CUB, `gpu_to_gpu`",
    "PyTorch",
    "`torch.compile`",
    "PyTorch, float64 inside",
)


def table(document: dict[str, Any]) -> list[str]:
    """Markdown: TB/s of one call on each format's largest arrays, and each sum's largest error there."""
    lines = [f"| TB/s | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for dtype, log in ROWS:
        rows = [
            row for row in document["figures"]["rows"]
            if row["dtype"] == dtype and row.get("n") == 1 << log and row.get("cache") == "cold" and "events" in row
        ]  # fmt: skip
        speeds = {
            row["participant"]: row["events"]["tb_per_s"] for row in rows if "tb_per_s" in row["events"]
        }
        found = (
            _best(speeds, "read alone"),
            speeds.get("tcu.sum"),
            speeds.get("tcu.fsum"),
            _best({name: speed for name, speed in speeds.items() if "gpu_to_gpu" not in name}, "CUB"),
            next((speed for name, speed in speeds.items() if "gpu_to_gpu" in name), None),
            speeds.get("torch"),
            speeds.get("torch.compile"),
            speeds.get("torch, dtype=float64"),
        )
        cells = " | ".join("–" if speed is None else f"{speed:.2f}" for speed in found)
        lines.append(f"| 2^{log} {dtype} | {cells} |")
    return lines


def _best(speeds: dict[str, float], start: str) -> float | None:
    return max((speed for name, speed in speeds.items() if name.startswith(start)), default=None)


@dataclass(frozen=True)
class Sentence:
    """Words of a document whose figures come from a file."""

    document: str
    file: str
    write: Callable[[dict[str, Any]], str]

    @property
    def text(self) -> str:
        return self.write(load(self.file))


def load(file: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / file).read_text())
    return document


def _events(document: dict[str, Any], dtype: str, method: str = "events") -> dict[str, dict[int, float]]:
    """Seconds of one call, cold: participant → n → median."""
    found: dict[str, dict[int, float]] = {}
    for row in document["figures"]["rows"]:
        if row["dtype"] == dtype and row.get("cache") == "cold" and "median" in row.get(method, {}):
            found.setdefault(row["participant"], {})[row["n"]] = row[method]["median"]
    return found


def _price_of_exactness(document: dict[str, Any]) -> str:
    prices = []
    for dtype, _ in ROWS:
        seconds = _events(document, dtype)
        n = max(seconds["tcu.sum"])
        prices.append(100 * (seconds["tcu.fsum"][n] / seconds["tcu.sum"][n] - 1))
    return f"the correctly rounded sum costs {min(prices):.0f} to {max(prices):.0f} % more"


def _small_arrays(document: dict[str, Any]) -> str:
    gaps = []
    for dtype, _ in ROWS:
        seconds = _events(document, dtype, "graph")
        n = min(seconds["tcu.sum"])
        read = min(times[n] for name, times in seconds.items() if name.startswith("read alone"))
        gaps.append(seconds["tcu.sum"][n] - read)
    return f"cost the start of a kernel and about {statistics.median(gaps) * 1e6:.0f} µs for blocks to meet"


def _hard_arrays(document: dict[str, Any]) -> str:
    worst = max(row["times_normal"] for row in document["figures"]["hard"])
    return f"are summed up to {worst:.0f} times more slowly, and as exactly"


def _resident(document: dict[str, Any]) -> str:
    most = max(row["resident_bytes"] for row in document["figures"].values() if isinstance(row, dict))
    return f"take about {round(most / 1e6, -2):.0f} MB beside"


def _beside_torch(document: dict[str, Any]) -> str:
    ratios, exact = [], []
    for dtype, _ in ROWS:
        seconds = _events(document, dtype)
        n = max(seconds["tcu.sum"])
        ratios.append(seconds["torch"][n] / seconds["tcu.sum"][n])
        exact.append(seconds["torch"][n] / seconds["tcu.fsum"][n])
    return (
        f"On an H200, of arrays beyond the cache, `tcu.sum` is {min(ratios):.2f} to {max(ratios):.2f} times as fast as "
        f"`torch.sum`, and `tcu.fsum` {min(exact):.2f} to {max(exact):.2f} times"
    )


def _float64_inside(document: dict[str, Any]) -> str:
    seconds = _events(document, "float32")
    n = max(seconds["tcu.sum"])
    slower = seconds["torch, dtype=float64"][n] / seconds["tcu.fsum"][n]
    return f"`torch.sum(x, dtype=torch.float64)` of float32 takes {slower:.1f} times as long as `tcu.fsum`"


def _on_one_core(document: dict[str, Any]) -> str:
    rates = {
        dtype: (row[f"tcu.sum {DEFAULT_VARIANT}"], row["tcu.fsum"], row["numpy.sum"])
        for dtype, row in document["figures"]["1 core"]["elements per second"].items()
    }
    behind = [numpy / exact for _, exact, numpy in rates.values()]
    float32 = rates["float32"]
    return (
        f"On one core `numpy.sum` of float32 is {float32[2] / float32[0]:.1f} times as fast as `tcu.sum`, and of the four "
        f"formats between {min(behind):.1f} and {max(behind):.1f} times as fast as `tcu.fsum`"
    )


SENTENCES = (
    Sentence("docs/why.md", "gpu-sum.json", _beside_torch),
    Sentence("docs/why.md", "gpu-sum.json", _float64_inside),
    Sentence("docs/why.md", "cpu.json", _on_one_core),
    Sentence("README.md", "gpu-sum.json", _price_of_exactness),
    Sentence("README.md", "gpu-sum.json", _small_arrays),
    Sentence("README.md", "gpu-sum.json", _hard_arrays),
    Sentence("docs/distributed.md", "file-rate.json", _resident),
)


QUOTED = {
    "README.md": ("gpu-sum",),
    "docs/why.md": ("gpu-sum", "cpu"),
    "docs/distributed.md": ("file-rate", "simulate-ranks", "gpu-distributed-2"),
}
"""Document → the files whose figures it quotes."""


def older(document: str) -> str:
    """What a document must say of the files that it quotes whose sources have changed since; empty where none has."""
    stale = [
        name for name in QUOTED[document]
        if remark(of_file(f"{name}.json", load(f"{name}.json")), measured_parts(name, load(f"{name}.json")))
    ]  # fmt: skip
    return f"Figures of older sources: {', '.join(f'`{name}.json`' for name in stale)}." if stale else ""


if __name__ == "__main__":
    for name in QUOTED:
        print(f"{name}:\n{older(name)}\n")
    print("\n".join(table(load("gpu-sum.json"))))
    for sentence in SENTENCES:
        print(f"\n{sentence.document}, from {sentence.file}:\n{sentence.text}")
