"""Functions that are made of others take arrays of NumPy, or tensors of PyTorch, and never both."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.array import check_in_memory, is_dask, lives_on_gpu, numpy_array
from tcu.formats.tensor import is_tensor
from tcu.model.ieee_environment import ieee

__all__ = [
    "as_array",
    "cast",
    "dtype_name",
    "ieee_of_arrays",
    "is_whole",
    "library_of",
    "moved",
    "namespace",
    "of_one_library",
]


P = ParamSpec("P")
R = TypeVar("R")


def ieee_of_arrays(function: Callable[P, R]) -> Callable[P, R]:
    """:func:`tcu.model.ieee_environment.ieee` where there is no tensor among the arguments.

    Operations of PyTorch's follow PyTorch's own setting, in threads that are not ours; and torch.compile reads these functions.
    """
    inside = ieee(function)

    @wraps(function)
    def run(*args: P.args, **named: P.kwargs) -> R:
        return (function if any(map(is_tensor, (*args, *named.values()))) else inside)(*args, **named)

    return run


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


def as_array(x: Any, name: str) -> Any:
    """A tensor as it is, and anything else as NumPy reads it.  Raises DtypeError for a masked array, and for what is no array."""
    if is_tensor(x):
        return x
    return numpy_array(x, name)


def of_one_library(**arrays: Any) -> tuple[Any, ...]:
    """Two arrays of NumPy, of PyTorch, or of another library in a GPU's memory; what is none of them, as NumPy reads it.

    Raises ParameterError and DtypeError, which name them.
    """
    for name, each in arrays.items():
        check_in_memory(each, name)
    kinds = {(is_tensor(each), not is_tensor(each) and lives_on_gpu(each)) for each in arrays.values()}
    if len(kinds) > 1:
        raise ParameterError(
            f"{' and '.join(arrays)} are of different libraries: make both NumPy arrays, tensors, or arrays on one GPU"
        )
    if any(kinds.pop()):
        return tuple(arrays.values())
    return tuple(numpy_array(each, name) for name, each in arrays.items())


def is_whole(x: Any) -> bool:
    """Whether its numbers are integers or truth values."""
    if is_tensor(x):
        return not (x.is_floating_point() or x.is_complex())
    return np.dtype(x.dtype).kind in "biu"


def cast(x: Any, name: str) -> Any:
    """The array in another dtype, of a name that NumPy and PyTorch share; itself if it has that already."""
    return x.to(getattr(sys.modules["torch"], name)) if is_tensor(x) else x.astype(name, copy=False)


def dtype_name(x: Any) -> str:
    """A name that NumPy and PyTorch share, whatever the order of its bytes."""
    return str(x.dtype if is_tensor(x) else np.dtype(x.dtype).newbyteorder("=")).removeprefix("torch.")


def namespace(x: Any) -> Any:
    """The functions of an array's library, by the names that NumPy and PyTorch share."""
    if is_tensor(x):
        return sys.modules["torch"]
    if is_dask(x):
        return sys.modules["dask.array"]
    if isinstance(x, np.ndarray):
        return np
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return sys.modules[type(x).__module__.partition(".")[0]]


def moved(x: Any, source: int, place: int) -> Any:
    """An axis to another place; of tensors by the one of PyTorch's two names that a vmap knows."""
    return x.movedim(source, place) if is_tensor(x) else namespace(x).moveaxis(x, source, place)
