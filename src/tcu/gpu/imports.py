"""The CUDA packages, loaded when first used."""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import Any

from tcu.gpu.errors import ExtraMissingError

__all__ = ["cuda_module"]

_importing = threading.Lock()
"""The compiler is loaded beside the driver, and packages that import each other must not be met half-made."""


@cache  # to import a module anew takes 1 us, and a call on a stream of a program's own asks twice
def cuda_module(name: str) -> Any:
    """A module of cuda-core or cuda-bindings; raises ExtraMissingError where they are not installed."""
    try:
        with _importing:
            return importlib.import_module(name)
    except ImportError as error:
        raise ExtraMissingError(
            f'the GPU executor needs cuda-core and NVRTC, and {name} is missing: pip install "tcu[cuda13]"'
        ) from error
