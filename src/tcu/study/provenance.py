"""Where figures come from: machine, versions, commit, digests of the sources, date."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcu.model.threads import core_count
from tcu.study.sources import digests
from tcu.version import __version__

__all__ = ["machine", "machine_name", "provenance"]

_LIBRARIES = ("numpy", "numba", "llvmlite", "ml_dtypes")


def provenance(command: str, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What stands above the figures of every file of results."""
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "sources": digests(),
        "machine": machine(),
        "versions": {"tcu": __version__}
        | {name: importlib.metadata.version(name) for name in _LIBRARIES}
        | dict(versions or {}),
    }


_WRITTEN = ("benchmarks/results", "docs", "README.md")
"""Results, which one run after another writes, and pages made of them, which are no sources."""


def commit() -> str | None:
    """The commit of the sources that run, "-dirty" where they were changed since; None where nothing tells.

    TCU_COMMIT names it for a copy of the sources that came without their history.
    """
    if named := os.environ.get("TCU_COMMIT"):
        return named
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # an installed package, perhaps inside somebody else's repository
        return None
    git = ("git", "-C", str(root))
    changed = (*git, "diff", "--quiet", "HEAD", "--", ".", *(f":!{name}" for name in _WRITTEN))
    try:
        told = subprocess.run((*git, "rev-parse", "HEAD"), capture_output=True, text=True, check=False)
        dirty = subprocess.run(changed, capture_output=True, check=False).returncode
    except OSError:  # no git
        return None
    return told.stdout[:12] + "-dirty" * bool(dirty) if told.stdout else None


def machine() -> dict[str, Any]:
    """Processor, cores, system, and the first GPU where there is one."""
    return {
        "processor": _processor(),
        "cores": core_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    } | _gpu()


def machine_name(machine: Mapping[str, Any]) -> str:
    """The GPU, or the processor and its cores."""
    if "gpu" in machine:
        return str(machine["gpu"])
    cores = machine.get("cores")
    name = str(machine.get("processor", "unknown machine")).split(" (family")[0]
    return f"{name}, {cores} core{'' if cores == 1 else 's'}"


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
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    if not fields:
        return platform.processor() or platform.machine()
    identity = "-".join(fields.get(key, "?") for key in ("cpu family", "model", "stepping"))
    return f"{fields.get('model name', platform.processor())} (family-model-stepping {identity})"
