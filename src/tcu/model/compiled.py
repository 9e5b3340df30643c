"""The modules that Numba compiles: imported when first needed, by one thread at a time.

Numba's modules import each other in circles.  Where two threads import it at
once, Python lets one of them see a module that the other has not finished, and
the first sum of a process fails.  Importing Numba takes half a second, so
``import tcu`` does without it.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

__all__ = ["load", "without_blas"]

_loaded: dict[str, Any] = {}
_importing = threading.RLock()
_BLAS = "scipy.linalg.cython_blas"
_wanted = {_BLAS}
"""What Numba may import for the sake of others."""


def load(name: str) -> Any:
    """The module ``tcu.model.<name>``; any thread may ask."""
    found = _loaded.get(name)
    if found is None:
        with _importing:
            found = _loaded[name] = importlib.import_module(f"tcu.model.{name}")
            if _BLAS not in _wanted and _BLAS not in sys.modules:
                sys.modules[_BLAS] = None  # type: ignore[assignment]
                try:
                    importlib.import_module("numba.np.arraymath")
                finally:
                    del sys.modules[_BLAS]
    return found


def without_blas() -> None:
    """Say that nobody else's code runs in this process: Numba need not look for SciPy's BLAS.

    It does when it first compiles or loads a function, which imports SciPy where that is installed: a sixth of the
    time of ``tcu sum``.  No kernel multiplies matrices by it; another's may.
    """
    _wanted.discard(_BLAS)
