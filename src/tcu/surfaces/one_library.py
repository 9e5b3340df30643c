"""Functions that are made of others take arrays of NumPy, or tensors of PyTorch, and never both."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.array import check_in_memory, lives_on_gpu
from tcu.formats.tensor import is_tensor

__all__ = ["as_array", "library_of"]


def library_of(arrays: Mapping[str, Any], mixed: str) -> Any:
    """numpy or torch, whose arrays all are, by their names.

    Raises ParameterError for a Dask array, and with the words ``mixed`` for arrays of two libraries, or of another one
    in a GPU's memory.
    """
    for name, each in arrays.items():
        check_in_memory(each, name)
    tensors = [is_tensor(each) for each in arrays.values()]
    if any(tensors) != all(tensors) or (not any(tensors) and any(map(lives_on_gpu, arrays.values()))):
        raise ParameterError(mixed)
    return sys.modules["torch"] if all(tensors) else np


def as_array(x: Any) -> Any:
    """A tensor as it is, and anything else as NumPy reads it."""
    return x if is_tensor(x) else np.asarray(x)
