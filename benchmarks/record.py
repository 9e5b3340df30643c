"""What every benchmark writes down: the figures with machine, versions, date and command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
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


def stored(name: str, parts_of: Callable[[Any], Iterable[str]] | None = None) -> Any:
    """The figures of benchmarks/results/NAME.json; None, and why in print, unless they are of the same kernels and GPU.

    ``parts_of``: which sources one of the figures' "rows" measures; so those that are of the same ones stay where others have changed.
    """
    path = RESULTS / f"{name}.json"
    before, now = json.loads(path.read_text()), provenance(command(), {})
    differ = {
        part for part in sources.MEASURED[name] if before["sources"].get(part) != now["sources"].get(part)
    }
    is_same_gpu = before["machine"].get("gpu") == now["machine"].get("gpu")
    if is_same_gpu and parts_of and differ:
        rows = before["figures"]["rows"]
        before["figures"]["rows"] = [row for row in rows if differ.isdisjoint(parts_of(row))]
        print(
            f"{path.name}: {len(before['figures']['rows'])} of {len(rows)} rows are of the same sources",
            flush=True,
        )
    elif differ or not is_same_gpu:
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
