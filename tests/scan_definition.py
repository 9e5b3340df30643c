"""The plan of a scan read literally, number by number in Python, and what tests of scans share.

Nothing of the library computes here but the rounding of one number to a format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats import encode, format_of
from tcu.formats.scalar import Number

__all__ = ["carries", "codes_of", "prefixes"]


def _block(totals: list[float], a: int, size: int) -> float:
    """D(a, size): the pairwise tree of an aligned block; missing totals are zeros."""
    if size == 1:
        return totals[a] if a < len(totals) else 0.0
    return _block(totals, a, size // 2) + _block(totals, a + size // 2, size // 2)


def _exclusive(run: list[float], j: int) -> float:
    """e_j: the blocks that the bits of j name, added from the right."""
    blocks, at = [], 0
    for p in (4, 3, 2, 1, 0):
        if j & 1 << p:
            blocks.append(_block(run, at, 1 << p))
            at += 1 << p
    if not blocks:
        return 0.0
    e = blocks.pop()
    while blocks:
        e = blocks.pop() + e
    return e


def carries(totals: list[float]) -> list[float]:
    """c of every group, from the groups' totals."""
    levels: list[list[float]] = []
    vector = totals
    while len(vector) > 1:
        runs = [vector[at : at + 32] for at in range(0, len(vector), 32)]
        levels.append([_exclusive(run, j) for run in runs for j in range(len(run))])
        vector = [_block(run, 0, 32) for run in runs]
    result = []
    for g in range(len(totals)):
        c = 0.0
        for level in range(len(levels), 0, -1):
            c = c + levels[level - 1][g // 32 ** (level - 1)]
        result.append(c)
    return result


def prefixes(x: npt.NDArray[Any], exclusive: bool = False, reverse: bool = False) -> list[float]:
    """The running sums of a line in binary64, before their rounding."""
    if reverse:
        return prefixes(x[::-1], exclusive)[::-1]
    width = 16 // x.dtype.itemsize
    with np.errstate(invalid="ignore"):  # signalling NaN
        numbers = [float(value) for value in x]
    local: list[list[float]] = []
    for at in range(0, len(numbers), width):
        sums: list[float] = []
        for value in numbers[at : at + width]:
            sums.append(sums[-1] + value if sums else value)
        local.append(sums)
    result = []
    for c, sums in zip(carries([sums[-1] for sums in local]), local, strict=True):
        inclusive = [c + value for value in sums]
        result += [c, *inclusive[:-1]] if exclusive else inclusive
    return result


def codes_of(sums: list[float], dtype: Any) -> npt.NDArray[Any]:
    """The sums rounded once, a NaN with all fraction bits set, no negative zero but by underflow."""
    fmt = format_of(dtype)
    found = [fmt.nan_code if value != value else encode(Number.of(value + 0.0), fmt) for value in sums]
    return np.array(found, fmt.code_dtype)
