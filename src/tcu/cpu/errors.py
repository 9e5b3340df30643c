"""What can go wrong on the way to the processor's matrix instructions; every message names the next step."""

from __future__ import annotations

from tcu.errors import TcuError

__all__ = ["CpuError"]


class CpuError(TcuError, RuntimeError):
    """The processor lacks the instruction, or the kernel does not permit it."""
