"""GMP, where gmpy2 is installed: loaded when first asked for.

Python's integers are converted there and back in time that grows with their length alone, so GMP is the faster from some
hundred bits on.  The bits are the same with and without it.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

__all__ = ["gmp"]


@cache
def gmp() -> Any:
    """The module gmpy2, or None."""
    try:
        return importlib.import_module("gmpy2")
    except ImportError:
        return None
