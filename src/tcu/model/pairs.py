"""Two arrays as one line of pairs, read a piece at a time."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tcu.errors import DtypeError, ShapeError
from tcu.formats.format import Format
from tcu.model.elements import Elements

__all__ = ["Pairs"]


class Pairs:
    """The pairs (x, y) of two arrays of one shape and one format, in C order.

    Raises DtypeError for what cannot be multiplied, ShapeError.
    """

    def __init__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        self.x = Elements(x, "x", "multiply")
        self.y = self.x if y is x else Elements(y, "y", "multiply")
        _check(self.x, self.y)
        self.format: Format = self.x.format

    @property
    def n(self) -> int:
        return self.x.n

    def read(self, start: int, stop: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The elements of both from ``start`` to ``stop``, as :meth:`Elements.read`."""
        x = self.x.read(start, stop)
        return x, x if self.y is self.x else self.y.read(start, stop)


def _check(x: Elements, y: Elements) -> None:
    first, second = x.array.shape, y.array.shape
    if first != second:
        advice = "y.reshape(x.shape)" if x.n == y.n else "numpy.broadcast_to(y, x.shape) repeats the smaller"
        raise ShapeError(f"x has shape {first} and y {second}: give both one shape, for example {advice}")
    if x.format != y.format:
        wide = max(x.format, y.format, key=lambda fmt: fmt.fraction_bits)
        name = "float32" if x.format.bits == y.format.bits else str(wide.dtype)
        raise DtypeError(
            f"x has dtype {x.format.dtype} and y {y.format.dtype}: convert to one that holds both, "
            f"for example with astype('{name}')"
        )
