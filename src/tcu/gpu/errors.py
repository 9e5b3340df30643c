"""What can go wrong on the way to a GPU; every message names the next step."""

from __future__ import annotations

from tcu.errors import TcuError

__all__ = [
    "CompileError",
    "DriverError",
    "ExtraMissingError",
    "GpuError",
    "KernelCacheWarning",
    "NoGpuError",
    "TuningError",
    "TuningWarning",
    "UnsupportedInstructionError",
]


class GpuError(TcuError, RuntimeError):
    """Base of all errors of the GPU executor."""


class ExtraMissingError(GpuError, ImportError):
    """The packages that reach the GPU are not installed."""


class NoGpuError(GpuError):
    """No driver, no GPU, or no GPU of that number."""


class DriverError(GpuError):
    """The driver is too old, or refused a call."""


class CompileError(GpuError):
    """A kernel did not compile; the message ends in the compiler's log."""

    ends_in_log = True


class UnsupportedInstructionError(GpuError):
    """An instruction that the GPU does not have."""


class TuningError(GpuError):
    """A measurement by ``tcu tune`` cannot go on, or what it measures returns other bits than it must."""


class TuningWarning(UserWarning):
    """Tuning data that cannot be used; results are not affected."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept on disk; results are not affected."""
