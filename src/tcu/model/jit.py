"""How the model's kernels are compiled by Numba: at their first call, with the machine code kept on disk."""
# Numba's decorators have no types.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from types import ModuleType

import numba
from numba.core import event

__all__ = ["fingerprint", "jit"]


class _Word(event.Listener):
    """Tells whoever watches why the first call after the installation takes seconds: once in a process."""

    said = False

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if (
            self.said
            or not function.__module__.startswith("tcu.")
            or not sys.stderr
            or not sys.stderr.isatty()
        ):
            return
        self.said = True
        print(
            "tcu: compiling for this processor, which the first call after installation waits for",
            file=sys.stderr,
        )

    def on_end(self, event):
        pass


event.register("numba:compile", _Word())


def jit(function):
    """Compile at first call; keep the machine code on disk where Numba finds a folder that it may write."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # "no locator available": a read-only installation without a home
        return numba.njit(nogil=True)(function)


def fingerprint(*modules: ModuleType) -> int:
    """Of the sources of modules that a kernel takes code from: it closes over this number.

    Numba's disk cache keys a function by its own file, its code and the variables it closes over, so a kernel would
    survive a change of those modules (measured: it did).
    """
    return zlib.crc32(b"".join(Path(str(module.__file__)).read_bytes() for module in modules))
