"""What every benchmark writes down: the figures with machine, versions, date and command."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
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
    } | _gpu()


def _gpu() -> dict[str, Any]:
    """The first GPU, its driver and clocks as they are now; nothing where NVML finds none."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, or no driver
        return {}
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    clock = pynvml.NVML_CLOCK_SM
    return {
        "gpu": pynvml.nvmlDeviceGetName(gpu),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, clock),
        "sm_clock_most_mhz": pynvml.nvmlDeviceGetMaxClockInfo(gpu, clock),
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


def save(name: str, figures: Any, versions: Mapping[str, str] | None = None) -> Path:
    """Write benchmarks/results/NAME.json, with the versions of further libraries that took part."""
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
        | {p: importlib.metadata.version(p) for p in ("numpy", "numba", "llvmlite", "ml_dtypes")}
        | dict(versions or {}),
        "figures": figures,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
