"""Constants of a program, made once on the host and kept where the machine's arrays live."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.machine.shapes import ShapeArray, zeros

__all__ = ["beside", "ones_like"]


def beside(like: Any, build: Callable[..., npt.NDArray[Any]], *args: Hashable, shape: tuple[int, ...]) -> Any:
    """``build(*args)`` as an array of ``like``'s library, on its device; only the shape for a ShapeArray.

    Kept, because a table of twiddle factors that crossed the bus for every
    transform would cost more than the transform.
    """
    if isinstance(like, ShapeArray):
        return ShapeArray(shape)
    if isinstance(like, np.ndarray):
        return _on_host(build, *args)
    return _on_device(_Home(like), build, *args)


def ones_like(shape: tuple[int, ...], dtype: npt.DTypeLike, like: Any) -> Any:
    """Ones as an array of ``like``'s library.

    ``np.ones(like=...)`` hands on an argument that CuPy's does not take; that of zeros does not.
    """
    return zeros(shape, dtype, like=like) + np.ones((), dtype)[()]


class _Home:
    """An array as the name of its library and device: equal for all arrays at one place."""

    def __init__(self, like: Any) -> None:
        self.like = like[:0]
        self._key = (type(like), str(getattr(like, "device", "")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Home) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=64)
def _on_host(build: Callable[..., npt.NDArray[Any]], *args: Hashable) -> npt.NDArray[Any]:
    values = build(*args)
    values.setflags(write=False)
    return values


@lru_cache(maxsize=64)
def _on_device(home: _Home, build: Callable[..., npt.NDArray[Any]], *args: Hashable) -> Any:
    return np.asarray(_on_host(build, *args), like=home.like)
