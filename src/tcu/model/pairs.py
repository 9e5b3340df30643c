"""Two arrays as one line of pairs, read a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tcu.errors import DtypeError, ShapeError
from tcu.formats.format import Format
from tcu.model.elements import Elements

__all__ = ["Pairs", "check_alike"]


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
    reshaped = "y.reshape(x.shape)" if x.n == y.n else "numpy.broadcast_to(y, x.shape) repeats the smaller"
    wide = max(x.format, y.format, key=lambda fmt: fmt.fraction_bits)
    name = "float32" if x.format.bits == y.format.bits else str(wide.dtype)
    shapes, dtypes = (x.array.shape, y.array.shape), (x.format.dtype, y.format.dtype)
    check_alike(shapes, dtypes, reshaped, f"with astype('{name}')")


def check_alike(shapes: Sequence[Any], dtypes: Sequence[Any], reshaped: str, converted: str) -> None:
    """Raises ShapeError or DtypeError unless x and y have one shape and one dtype; the last two say how they would."""
    for what, error, (mine, other), advice in (
        ("shape", ShapeError, shapes, f"give both one shape, for example {reshaped}"),
        ("dtype", DtypeError, dtypes, f"convert one of them, for example {converted}"),
    ):
        if mine != other:
            raise error(f"x has {what} {mine} and y {other}: {advice}")
