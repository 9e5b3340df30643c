"""The processor at hand: what it is called, which matrix instructions it has, or a plain word why it has none."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcu.cpu.errors import CpuError
from tcu.units import CATALOGUE, Instruction

__all__ = ["FEATURES", "Cpu", "find_cpu"]

FEATURES = {
    "vdpbf16ps": "avx512bf16",
    "vpdpbusd": "avx512vnni",
    "tdpbf16ps": "amx-bf16",
    "tdpfp16ps": "amx-fp16",
}
FEATURES |= dict.fromkeys(("tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"), "amx-int8")
"""Of a processor, as LLVM calls them, by the instruction that comes with it."""
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
"""Linux on x86-64: the system call, what it is asked, and for which state of a thread."""


@dataclass(frozen=True)
class Cpu:
    """The processor of this machine."""

    name: str
    features: frozenset[str]
    """As LLVM calls them."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Rows of the catalogue that it can run, the widest first."""
        rows = (row for unit in CATALOGUE.values() for row in unit.instructions)
        return tuple(row for row in rows if FEATURES.get(row.name) in self.features)

    def check(self, row: Instruction) -> None:
        """Raises CpuError unless the instruction can be run."""
        feature = FEATURES.get(row.name)
        if feature not in self.features:
            has = ", ".join(f"{one.signature}" for one in self.instructions) or "no matrix instruction"
            raise CpuError(
                f"{self.name} lacks {row.name}; it has: {has}. Leave executor out for the model of the unit"
            )
        if feature.startswith("amx"):
            _permit_tiles()


@cache
def find_cpu() -> Cpu:
    """The processor at hand."""
    from llvmlite import binding

    found: dict[str, bool] = {}
    if platform.machine().lower() in ("x86_64", "amd64"):
        with contextlib.suppress(RuntimeError):  # LLVM cannot tell
            found = binding.get_host_cpu_features()
    return Cpu(_name(), frozenset(feature for feature, there in found.items() if there))


def _name() -> str:
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


@cache
def _permit_tiles() -> None:
    """Ask Linux to let this process use tile registers; a refusal is a CpuError."""
    if not sys.platform.startswith("linux"):
        raise CpuError(f"AMX tiles are asked for on Linux only, not on {sys.platform}: leave executor out")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA):
        raise CpuError(
            f"the kernel does not permit AMX tiles (arch_prctl: errno {ctypes.get_errno()}): "
            "use Linux 5.16 or later, outside a sandbox that forbids it, or choose another instruction"
        )
