"""The table of GPU sums that the README quotes, from benchmarks/results/gpu-sum.json.

    python benchmarks/readme.py

prints it; a test holds the README to it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "gpu-sum.json"
ROWS = (("float16", 30), ("bfloat16", 30), ("float32", 30), ("float64", 28))
COLUMNS = (
    "reading alone",
    "`tcu.sum`",
    "`tcu.fsum`",
    "CUB",
    "CUB, `gpu_to_gpu`",
    "PyTorch",
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
            speeds.get("torch, dtype=float64"),
        )
        cells = " | ".join("–" if speed is None else f"{speed:.2f}" for speed in found)
        lines.append(f"| 2^{log} {dtype} | {cells} |")
    return lines


def _best(speeds: dict[str, float], start: str) -> float | None:
    return max((speed for name, speed in speeds.items() if name.startswith(start)), default=None)


if __name__ == "__main__":
    print("\n".join(table(json.loads(RESULT.read_text()))))
