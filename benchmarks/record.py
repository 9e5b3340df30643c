"""What every benchmark writes down: the figures with machine, versions, date and command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sources

from tcu.study.provenance import provenance

RESULTS = Path(__file__).parent / "results"


def save(name: str, figures: Any, versions: Mapping[str, str] | None = None) -> Path:
    """Write benchmarks/results/NAME.json, with the versions of further libraries that took part."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {**provenance(command(), versions), "figures": figures}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def stored(name: str) -> Any:
    """The figures of benchmarks/results/NAME.json; None, and why in print, unless they are of the same kernels and GPU."""
    path = RESULTS / f"{name}.json"
    before, now = json.loads(path.read_text()), provenance(command(), {})
    differ = [
        part for part in sources.MEASURED[name] if before["sources"].get(part) != now["sources"].get(part)
    ]
    if differ or before["machine"].get("gpu") != now["machine"].get("gpu"):
        print(f"{path.name} is of other sources or of another GPU: begun anew", flush=True)
        return None
    return before["figures"]


def command() -> str:
    """What this process was started with, torchrun included, from the root of the repository."""
    root = Path(__file__).parents[1]
    script = Path(sys.argv[0]).resolve()
    where = script.relative_to(root) if script.is_relative_to(root) else script.name
    return " ".join([*_starter(), str(where), *sys.argv[1:]])


def _starter() -> list[str]:
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ["python"]
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = int(os.environ["WORLD_SIZE"]) // each
    return ["torchrun", *([f"--nnodes={nodes}"] if nodes > 1 else []), f"--nproc-per-node={each}"]
