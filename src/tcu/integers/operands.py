"""What is given as integers: Python's own, arrays of them, and rows of limbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ShapeError
from tcu.formats.array import check_unmasked

__all__ = ["all_integers", "broadcast", "each", "integers_of", "number_of", "row_of"]


def each(function: Callable[..., Any], *, results: int = 1, **operands: Any) -> Any:
    """A function of Python's integers, elementwise of arrays that broadcast; of a function of several results, several."""
    arrays = broadcast(**{label: integers_of(label, value) for label, value in operands.items()})
    return np.frompyfunc(function, len(arrays), results)(*arrays)


def broadcast(**arrays: Any) -> tuple[Any, ...]:
    """NumPy arrays of one shape; raises ShapeError, which names them."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{label} {array.shape}" for label, array in arrays.items())
        raise ShapeError(f"{shapes}: the arrays do not broadcast") from None


def integers_of(label: str, value: Any) -> Any:
    """The value as an array of Python integers; raises DtypeError or ShapeError, which name it."""
    check_unmasked(value, label)
    array = value if isinstance(value, np.ndarray) else _objects(value)
    if array.dtype.kind in "iu":
        return array.astype(object)
    if all_integers(array.flat):
        return array.astype(object, copy=False)
    for number in array.flat:
        if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer):
            raise DtypeError(f"{label} holds {number!r}, a {type(number).__name__}: give integers")
    result = np.empty(array.shape, object)
    result.flat[:] = [int(number) for number in array.flat]
    return result


def all_integers(numbers: Iterable[Any]) -> bool:
    """Whether all are Python's own."""
    return set(map(type, numbers)) <= {int}


def _objects(value: Any) -> Any:
    try:
        return np.array(value, object)
    except ValueError:
        raise ShapeError(
            "a list of lists of different lengths is no array: give rows of one length"
        ) from None


def number_of(row: Any) -> int:
    """The number that limbs make, the lowest first."""
    return int.from_bytes(row.astype(row.dtype.newbyteorder("<"), copy=False).tobytes(), "little")


def row_of(number: int, length: int, dtype: Any) -> Any:
    """So many limbs of a number that they hold."""
    text = number.to_bytes(length * dtype.itemsize, "little")
    return np.frombuffer(text, dtype.newbyteorder("<")).astype(dtype, copy=False)
