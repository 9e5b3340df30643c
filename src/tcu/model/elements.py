"""The elements of any array as one line, read a piece at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, no_real_numbers
from tcu.formats.array import check_in_memory, is_masked, numpy_array
from tcu.formats.format import Format, format_of
from tcu.formats.tensor import host_view, is_tensor

__all__ = ["SUMMABLE", "Elements", "summable"]

SUMMABLE = ("binary16", "bfloat16", "binary32", "binary64")


class Elements:
    """An array in C order, whatever its shape, strides, byte order or alignment.

    Only the piece that is read is ever copied, so memory-mapped files larger
    than memory work.  Raises DtypeError for what cannot be summed.
    """

    def __init__(self, x: npt.ArrayLike, name: str = "x", verb: str = "sum") -> None:
        """``name`` and ``verb`` are what the messages call the array and what is done with it."""
        array = x if type(x) is np.ndarray else _array_of(x, name, verb)
        self.array: npt.NDArray[Any] = array
        self.format: Format = summable(array.dtype, name, verb)
        self._line = array.reshape(-1) if array.flags.c_contiguous else None

    @classmethod
    def of(cls, x: Any) -> Elements:
        """Those of an array, or ``x`` if that is what it is."""
        return x if isinstance(x, Elements) else cls(x)

    @property
    def n(self) -> int:
        return int(self.array.size)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Elements ``start`` to ``stop``, one-dimensional, contiguous, aligned, in native byte order."""
        piece = self.array.flat[start:stop] if self._line is None else self._line[start:stop]
        if piece.flags.carray and piece.dtype == self.format.dtype:  # np.require asks for longer
            return piece
        return np.require(piece, self.format.dtype, ["C", "A"])


def _array_of(x: Any, name: str, verb: str) -> npt.NDArray[Any]:
    if is_masked(x):
        raise DtypeError(f"{name} is a masked array: {verb} {name}.compressed(), or {name}.filled(0)")
    check_in_memory(x, name)
    if is_tensor(x):
        x = host_view(x, name, verb)
    return numpy_array(x, name)


def summable(dtype: np.dtype[Any], name: str, verb: str) -> Format:
    """The format of elements that can be summed; raises DtypeError, which names the array."""
    try:
        fmt: Format | None = format_of(dtype)
    except DtypeError:
        fmt = None
    if fmt is not None and fmt.name in SUMMABLE:
        return fmt
    advice = f"convert it first, for example with {name}.astype('float64')"
    if dtype.kind == "O":
        raise DtypeError(
            f"{name} holds Python objects (dtype object): make them numbers, with numpy.asarray(list({name}), 'float64'), and "
            "mind ragged or missing values"
        )
    if dtype.kind in "US":
        raise DtypeError(
            f"{name} is text: load the file that it names, with numpy.load, or turn it into numbers"
        )
    if dtype.kind == "c":
        raise no_real_numbers(name, dtype)
    raise DtypeError(f"{name} has dtype {dtype}, none of float16, bfloat16, float32 and float64: {advice}")
