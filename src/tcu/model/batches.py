"""Batches of matrices as the compiled kernels take them: padded, and told which matrix a member of the batch takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["flatten", "up"]

_COPIED = 1 << 27
"""Bytes of an operand that may only be read, up to which it is copied."""


def flatten(array: npt.NDArray[Any], batch: tuple[int, ...], rows: int, columns: int) -> Any:
    """(distinct batch members, rows, columns), zero-padded, and which of them each member takes."""
    own = array.shape[:-2]
    flat = array.reshape(math.prod(own), *array.shape[-2:])
    if flat.shape[1:] != (rows, columns):
        padded = np.zeros((flat.shape[0], rows, columns), array.dtype)
        padded[:, : flat.shape[1], : flat.shape[2]] = flat
        flat = padded
    index = np.broadcast_to(np.arange(math.prod(own)).reshape(own), batch).reshape(-1)
    # Numba compiles a kernel once more for arrays that may only be read, which takes longer than a copy of most.
    if flat.nbytes <= _COPIED:
        return np.require(flat, requirements=["C", "A", "W"]), index.copy()
    return np.require(flat, requirements=["C", "A"]), index.copy()


def up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
