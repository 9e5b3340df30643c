"""What is given as integers: Python's own, and arrays of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ShapeError

__all__ = ["broadcast", "each", "integers_of"]


def each(function: Callable[..., Any], **operands: Any) -> Any:
    """A function of Python's integers, of such, or elementwise of arrays that broadcast."""
    if all(type(x) is int for x in operands.values()):
        return function(*operands.values())
    arrays = broadcast(**{label: integers_of(label, value) for label, value in operands.items()})
    if not arrays[0].shape:
        return function(*(array.item() for array in arrays))
    result = np.empty(arrays[0].shape, object)
    for place, numbers in enumerate(zip(*(array.flat for array in arrays), strict=True)):
        result.flat[place] = function(*numbers)
    return result


def broadcast(**arrays: Any) -> tuple[Any, ...]:
    """NumPy arrays of one shape; raises ShapeError, which names them."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{label} {array.shape}" for label, array in arrays.items())
        raise ShapeError(f"{shapes}: the arrays do not broadcast") from None


def integers_of(label: str, value: Any) -> Any:
    """The value as an array of Python integers; raises DtypeError or ShapeError, which name it."""
    array = value if isinstance(value, np.ndarray) else _objects(value)
    if array.dtype.kind in "iu":
        return array.astype(object)
    for number in array.flat:
        if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer):
            raise DtypeError(f"{label} holds {number!r}, a {type(number).__name__}: give integers")
    result = np.empty(array.shape, object)
    result.flat[:] = [int(number) for number in array.flat]
    return result


def _objects(value: Any) -> Any:
    try:
        return np.array(value, object)
    except ValueError:
        raise ShapeError(
            "a list of lists of different lengths is no array: give rows of one length"
        ) from None
