"""What is given as integers: Python's own, arrays of them, and rows of limbs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ShapeError
from tcu.formats.array import check_in_memory, check_unmasked, is_dask
from tcu.formats.tensor import check_data, check_dense, check_on_host, is_tensor, plain_view

__all__ = ["all_integers", "broadcast", "each", "integers_of", "line_of", "number_of", "row_of"]


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
    """The value as an array of Python integers; raises DtypeError, ShapeError or ParameterError, which name it."""
    check_unmasked(value, label)
    check_in_memory(value, label)
    if is_tensor(value):
        value = _of_tensor(label, value)
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


def line_of(label: str, numbers: Any) -> list[int]:
    """Many numbers as a list of Python integers; raises ShapeError for a single one, and what :func:`integers_of` does."""
    if type(numbers) is list and all_integers(numbers):
        return numbers
    try:
        found = iter(numbers)
    except TypeError:
        raise ShapeError(
            f"{label} is {numbers!r}: give a list of integers, or an array with an axis"
        ) from None
    if isinstance(numbers, np.ndarray) or is_tensor(numbers) or is_dask(numbers):
        return [*integers_of(label, numbers).flat]
    line = list(found)
    return line if all_integers(line) else [*integers_of(label, line).flat]


def all_integers(numbers: Iterable[Any]) -> bool:
    """Whether all are Python's own."""
    return set(map(type, numbers)) <= {int}


def _of_tensor(label: str, x: Any) -> Any:
    check_data(x, label)
    check_dense(x, label, "multiply")
    check_on_host(x, label)
    return plain_view(x, label)


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
