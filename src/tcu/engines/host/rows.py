"""Rows of an array of any dimensions, cut into pieces for threads; and where results go that are as many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format

__all__ = ["given_back", "place_of", "row_pieces"]


def row_pieces(array: npt.NDArray[Any], axes: int, most: int) -> Iterator[npt.NDArray[Any]]:
    """Views of up to ``most`` rows, which the first ``axes`` axes count; nothing is copied."""
    if not axes:
        yield array
        return
    inner = math.prod(array.shape[1:axes])
    if inner > most:
        for each in array:
            yield from row_pieces(each, axes - 1, most)
        return
    step = most // max(inner, 1)
    for at in range(0, array.shape[0], step):
        yield array[at : at + step]


def place_of(array: npt.NDArray[Any], shape: tuple[int, ...], out: Any, target: Format) -> npt.NDArray[Any]:
    """Where results are written: ``out``, unless that would change elements that are still to be read."""
    if out is not None and (not np.may_share_memory(array, out) or _same_memory(array, out)):
        return np.asarray(out)
    return np.empty(shape, target.dtype)


def _same_memory(array: npt.NDArray[Any], out: npt.NDArray[Any]) -> bool:
    """Whether each result lies where its own element is."""
    if array.dtype != out.dtype or array.ctypes.data != out.ctypes.data:
        return False
    if array.flags.c_contiguous and out.flags.c_contiguous:
        return True
    return array.shape == out.shape and array.strides == out.strides


def given_back(result: npt.NDArray[Any], out: Any) -> Any:
    if out is None:
        return result
    if result is not out:
        out[...] = result
    return out
