"""How the model's kernels are compiled by Numba: at their first call, with the machine code kept on disk."""
# Numba's decorators have no types.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

import contextlib
import glob
import hashlib
import sys
import zlib
from pathlib import Path
from types import ModuleType

import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

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


class Files(IndexDataCacheFile):
    """A function's machine code on disk, whose files have the names of what they hold.

    Numba numbers them, and writes down which one a call has before it writes the file.  Two processes that compile different
    calls of a function at once, as all do after an installation, took the same number, and one of them had the other's machine code
    from then on (measured: transforms of binary64 were given the kernel of binary32); a process that ended in between left a file of
    sources before.
    """

    def __init__(self, cache_path, filename_base, source_stamp):
        super().__init__(cache_path, filename_base, source_stamp)
        self._base = filename_base

    def save(self, key, data):
        """Of what another process writes down at the same time one may be lost, and is compiled once more."""
        held = hashlib.sha256(repr((key, self._source_stamp, self._version)).encode()).hexdigest()[:32]
        name = f"{self._base}.{held}.nbc"
        self._save_data(name, data)
        overloads = self._load_index()
        self._save_index({**overloads, key: name})
        if overloads:
            return
        named = self._load_index().values()  # what is there besides is of other sources
        for path in Path(self._cache_path).glob(f"{glob.escape(self._base)}.*.nbc"):
            if path.name not in named:
                with contextlib.suppress(OSError):
                    path.unlink()


class _Cache(FunctionCache):
    def __init__(self, function):
        super().__init__(function)
        # What Numba's own files hold is not read: it may be another call's.
        stamp = "named", self._impl.locator.get_source_stamp()
        self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)


def jit(function):
    """Compile at first call; keep the machine code on disk where Numba finds a folder that it may write."""
    compiled = numba.njit(nogil=True)(function)
    with contextlib.suppress(RuntimeError):  # "no locator available": a read-only installation without a home
        compiled._cache = _Cache(function)  # type: ignore[attr-defined]
    return compiled


def fingerprint(*modules: ModuleType) -> int:
    """Of the sources of modules that a kernel takes code from: it closes over this number.

    Numba's disk cache keys a function by its own file, its code and the variables it closes over, so a kernel would
    survive a change of those modules (measured: it did).
    """
    return zlib.crc32(b"".join(Path(str(module.__file__)).read_bytes() for module in modules))
