"""What every benchmark writes down: the figures with machine, versions, date and command."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import tcu

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Name, and family-model-stepping where the name says little, as on virtual machines."""
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        return platform.processor()
    identity = "-".join(fields.get(key, "?") for key in ("cpu family", "model", "stepping"))
    return f"{fields.get('model name', platform.processor())} (family-model-stepping {identity})"


def save(name: str, figures: Any) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    script = Path(sys.argv[0]).resolve()
    where = (
        script.relative_to(Path(__file__).parents[1])
        if script.is_relative_to(Path(__file__).parents[1])
        else script.name
    )
    document = {
        "command": " ".join(["python", str(where), *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {"tcu": tcu.__version__}
        | {p: importlib.metadata.version(p) for p in ("numpy", "numba", "llvmlite", "ml_dtypes")},
        "figures": figures,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
