"""The numbers of a file as the library reads them: rounded on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError
from tcu.formats.array import encode_array
from tcu.formats.format import Format, get_format
from tcu.model.elements import SUMMABLE, Elements
from tcu.streams import ArraySource, Source, Strips

__all__ = ["Changes", "DataElements", "count_text", "of_the_rounded", "summable_format"]


class DataElements(Elements):
    """Numbers that are rounded once, to nearest, to ``target`` as they are read: a file is so converted a piece at a time."""

    def __init__(self, numbers: Source | npt.NDArray[Any], target: Format | None = None) -> None:
        self.source = numbers if isinstance(numbers, Source) else ArraySource(numbers)
        self.dtype = self.source.dtype
        """As stored."""
        self._stored = self.dtype if target is None else _convertible(self.dtype, target)
        super().__init__(np.empty(0, self.dtype if target is None else target.dtype))
        self.overflowed = False
        """Whether a finite number read so far became inf."""
        self.changed = False
        """Whether a number read so far was changed by rounding."""

    @property
    def n(self) -> int:
        return self.source.n

    @property
    def rounded_from(self) -> str | None:
        """What the numbers were before they were rounded, once all were read; None where rounding changed none."""
        if self.source.from_text:
            return "text"
        return str(self.dtype) if self.changed else None

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        numbers = self._rounded(self.source.read(start, stop, out).view(self._stored))
        return np.require(numbers, self.format.dtype, ["C", "A"])

    def strips(self, start: int, stop: int, size: int, out: npt.NDArray[Any]) -> Strips:
        """As :meth:`read`, ``size`` numbers at a time; ``out`` is used again and again."""
        strips = self.source.strips(start, stop, size, out)
        if self.dtype == self._stored == self.format.dtype:
            return strips
        return self._all_rounded(strips)

    def _all_rounded(self, strips: Strips) -> Strips:
        for numbers in strips:
            yield np.require(self._rounded(numbers.view(self._stored)), self.format.dtype, ["C", "A"])

    def _rounded(self, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if piece.dtype.newbyteorder("=") == self.format.dtype:
            return piece
        with np.errstate(all="ignore"):
            narrow = self.format.name != "binary64"
            wide = _in_binary64(piece) if narrow and piece.dtype.itemsize >= 8 else piece
            if self.format.name == "bfloat16" and (wide.dtype.kind != "f" or wide.dtype.itemsize > 4):
                # ml_dtypes rounds such numbers twice, once to float32.
                rounded = encode_array(wide.astype(np.float64), self.format).view(self.format.dtype)
            else:
                rounded = wide.astype(self.format.dtype)
            if not self.overflowed and np.any(np.isinf(rounded) & np.isfinite(piece.astype(np.float64))):
                self.overflowed = True
            if not self.changed and not _are_equal(piece, rounded):
                self.changed = True  # never back: other threads read at the same time
        return rounded


def _are_equal(piece: npt.NDArray[Any], rounded: npt.NDArray[Any]) -> bool:
    """Whether each number is what it was rounded to; NaN is."""
    if (
        piece.dtype.itemsize <= 4 or piece.dtype == np.float64
    ):  # which binary64 holds, as it holds the rounded ones
        wide, near = piece.astype(np.float64), rounded.astype(np.float64)
    elif piece.dtype.kind == "f":
        wide, near = piece, rounded.astype(piece.dtype)
    else:
        near = rounded.astype(np.float64)
        limits = np.iinfo(piece.dtype)
        inside = (near >= float(limits.min)) & (
            near < float(limits.max)
        )  # the latter is a power of two, rounded up
        wide, near = piece, np.where(inside, near, 0).astype(piece.dtype)
        if not np.all(inside):
            return False
    return bool(np.all((wide == near) | (wide != wide)))


def _in_binary64(piece: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Binary64 numbers that round to fewer bits as these do.

    Numbers of more than 53 bits are rounded to odd: the last bit says whether
    anything was cut off, so that none comes to lie on a tie.
    """
    near = piece.astype(np.float64, copy=False)
    if piece.dtype.kind in "iu":
        low = piece.dtype.type((1 << 11) - 1)  # of 64 bits, 53 stay
        odd = (piece & ~low) | ((piece & low) != 0).astype(piece.dtype) << piece.dtype.type(11)
        return np.where(np.abs(near) < 2.0**53, near, odd.astype(np.float64))
    if piece.dtype.itemsize > 8:
        rest = piece - near
        even = (near.view(np.uint64) & np.uint64(1)) == 0
        moved = np.nextafter(near, np.where(rest > 0, np.inf, -np.inf))
        return np.where((rest != 0) & even & np.isfinite(near), moved, near)
    return near


class Changes:
    """Of a pass over :class:`DataElements`: a checkpoint keeps whether numbers became inf, and whether others changed."""

    name = "changes"

    def __init__(self, elements: DataElements) -> None:
        self._elements = elements

    def work(self, start: int, numbers: npt.NDArray[Any], share: None = None) -> None:
        """The elements know already."""

    def merge(self, start: int, stop: int, share: None) -> None:
        """Nothing to add."""

    def state(self) -> list[bool]:
        return [self._elements.overflowed, self._elements.changed]

    def restore(self, state: list[bool]) -> None:
        overflowed, changed = state
        self._elements.overflowed |= overflowed
        self._elements.changed |= changed


def count_text(elements: DataElements) -> str:
    """How many numbers of which dtype, and what they were before they were rounded, once all were read."""
    before = elements.rounded_from
    rounded = "" if before is None else f", rounded from {before}"
    return f"{elements.n:,} of {elements.format.dtype}{rounded}"


def of_the_rounded(elements: DataElements) -> str:
    """What stands behind "exact sum" where it is not that of the numbers in the file."""
    return "" if elements.rounded_from is None else " of the rounded numbers"


def summable_format(name: str, option: str) -> Format:
    """The format of that name, if sums take it; ``option`` is where the user gave it."""
    fmt = get_format(name)
    if fmt.name not in SUMMABLE:
        raise DtypeError(f"{option} {name}: sums take {', '.join(SUMMABLE)}; choose one of them")
    return fmt


def _convertible(dtype: np.dtype[Any], target: Format) -> np.dtype[Any]:
    """The dtype as which stored items are read; raises DtypeError where they are no numbers."""
    bits = dtype.kind == "V" and dtype.names is None and dtype.subdtype is None and dtype.itemsize == 2
    if target.name == "bfloat16" and (bits or (dtype.kind == "u" and dtype.itemsize == 2)):
        # NumPy stores the bits of an ml_dtypes.bfloat16 array as raw two-byte items.
        return target.dtype
    if dtype.kind in "fiub" or dtype.name == "bfloat16":
        return dtype
    raise DtypeError(
        f"numbers of dtype {dtype} cannot be rounded to {target.name}: save real numbers, "
        "for example with x.real or x.astype('float64')"
    )
