"""GMP's functions, where gmpy2 is installed: loaded when first asked for.

Python's integers are converted there and back in time that grows with their length alone, so GMP is the faster from some
hundred bits on.  The bits are the same with and without it.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["library", "load"]

library: Any = None
"""The module gmpy2, once :func:`load` has found it: a call in place of ``library or load()`` takes as long as a short product."""


def load() -> Any:
    """The module gmpy2, or None."""
    global library
    try:
        library = importlib.import_module("gmpy2")
    except ImportError:
        return None
    return library
