"""The modules that Numba compiles: imported when first needed, by one thread at a time.

Numba's modules import each other in circles.  Where two threads import it at
once, Python lets one of them see a module that the other has not finished, and
the first sum of a process fails.  Importing Numba takes half a second, so
``import tcu`` does without it.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

__all__ = ["load"]

_loaded: dict[str, Any] = {}
_importing = threading.RLock()


def load(name: str) -> Any:
    """The module ``tcu.model.<name>``; any thread may ask."""
    found = _loaded.get(name)
    if found is None:
        with _importing:
            found = _loaded[name] = importlib.import_module(f"tcu.model.{name}")
    return found
