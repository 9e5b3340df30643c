"""Rows of an array of any dimensions, cut into pieces for threads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

__all__ = ["row_pieces"]


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
