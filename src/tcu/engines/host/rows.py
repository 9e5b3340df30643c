"""Rows of an array of any dimensions, cut into pieces for threads; and where results go that are as many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format

__all__ = ["given_back", "lines_of", "place_of", "row_pieces"]

_AT_ONCE, _ENOUGH = 16, 64
"""Numbers of each row that are copied together, and rows from which on they are."""


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


def lines_of(rows: npt.NDArray[Any], dtype: npt.DTypeLike, along: int = 1) -> npt.NDArray[Any]:
    """The rows along the last ``along`` axes as a matrix of that dtype without gaps, copied only where they must be.

    NumPy copies row after row.  Where neighbours lie in different rows, each number of a row is in a line of memory of its own,
    which is gone from the caches when the next row wants it, most of all where lines are a power of two apart: 16 numbers of
    each row at a time take a fifth to a half of the time (4096 x 4096 numbers of binary32, sums along the first axis).
    """
    shape = tuple(map(math.prod, (rows.shape[: rows.ndim - along], rows.shape[rows.ndim - along :])))
    away = rows.ndim > 1 and abs(rows.strides[-1]) > min(map(abs, rows.strides))
    if away and rows.shape[-1] > 1 and rows.size >= _ENOUGH * rows.shape[-1]:
        lines = np.empty(rows.shape, dtype)
        for at in range(0, rows.shape[-1], _AT_ONCE):
            lines[..., at : at + _AT_ONCE] = rows[..., at : at + _AT_ONCE]
        rows = lines
    return np.require(rows.reshape(shape), dtype, ["C", "A"])


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
