"""The numbers of a file as the library reads them: rounded on the way, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError
from tcu.formats.array import encode_array
from tcu.formats.format import Format, get_format
from tcu.model.elements import SUMMABLE, Elements

__all__ = ["DataElements", "summable_format"]


def _ignore(count: int) -> None:
    del count


class DataElements(Elements):
    """An array whose numbers are rounded, to nearest, to ``target`` as they are read.

    A memory-mapped file is so converted a piece at a time.  Integers beyond
    2^53 are rounded to binary64 before they are rounded to bfloat16.
    """

    def __init__(self, array: npt.NDArray[Any], target: Format | None = None) -> None:
        if target is not None:
            array = _convertible(array, target)
        super().__init__(array if target is None else np.empty(0, target.dtype))
        self.array = array
        self._line = array.reshape(-1) if array.flags.c_contiguous else None
        self.on_read: Callable[[int], None] = _ignore
        """Called with the length of every piece that is read, by any thread."""
        self.overflowed = False
        """Whether a finite number read so far became inf."""

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        piece = self.array.flat[start:stop] if self._line is None else self._line[start:stop]
        numbers = self._rounded(piece)
        self.on_read(stop - start)
        return np.require(numbers, self.format.dtype, ["C", "A"])

    def _rounded(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if piece.dtype.newbyteorder("=") == self.format.dtype:
            return piece
        with np.errstate(all="ignore"):
            if self.format.name == "bfloat16" and (piece.dtype.kind != "f" or piece.dtype.itemsize > 4):
                # ml_dtypes rounds such numbers twice, once to float32.
                rounded = encode_array(piece.astype(np.float64), self.format).view(self.format.dtype)
            else:
                rounded = piece.astype(self.format.dtype)
            if not self.overflowed and np.any(np.isinf(rounded) & np.isfinite(piece.astype(np.float64))):
                self.overflowed = True
        return rounded


def summable_format(name: str, option: str) -> Format:
    """The format of that name, if sums take it; ``option`` is where the user gave it."""
    fmt = get_format(name)
    if fmt.name not in SUMMABLE:
        raise DtypeError(f"{option} {name}: sums take {', '.join(SUMMABLE)}; choose one of them")
    return fmt


def _convertible(array: npt.NDArray[Any], target: Format) -> npt.NDArray[Any]:
    dtype = array.dtype
    bits = dtype.kind == "V" and dtype.names is None and dtype.itemsize == 2
    if target.name == "bfloat16" and (bits or (dtype.kind == "u" and dtype.itemsize == 2)):
        # NumPy stores the bits of an ml_dtypes.bfloat16 array as raw two-byte items.
        return array.astype(dtype.newbyteorder("="), copy=False).view(target.dtype)
    if dtype.kind in "fiub" or dtype == ml_dtypes.bfloat16:
        return array
    raise DtypeError(
        f"numbers of dtype {dtype} cannot be rounded to {target.name}: save real numbers, "
        "for example with x.real or x.astype('float64')"
    )
