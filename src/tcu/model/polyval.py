"""Values of polynomials at many points, by the plan of :mod:`tcu.plan.polyval`, on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import format_of
from tcu.model import threads
from tcu.model.compiled import load
from tcu.plan.polyval import BLOCK, chains, is_blocked

__all__ = ["values"]

_AT_ONCE = 4
"""Coefficients that chains take at a time."""
_GRAIN = 1 << 16
"""Multiply-adds that are worth a thread."""


def values(a: npt.NDArray[Any], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(polynomials, points) of coefficients (polynomials, n), n from 1 on, and a line of points, of one format."""
    count, n = a.shape
    fmt = format_of(x.dtype).name
    in_blocks = is_blocked(n, fmt)
    name = "blocked" if in_blocks else "one_chain" if chains(n, fmt) == 1 else "two_chains"
    kernel = getattr(load("polyval_kernels"), name)
    whole = BLOCK if in_blocks else _AT_ONCE
    rows = np.zeros((count, -(-n // whole) * whole), x.dtype)
    rows[:, :n] = a
    points, out = np.ascontiguousarray(x), np.empty((count, x.size), x.dtype)

    def work(piece: tuple[int, tuple[int, int]]) -> None:
        row, (first, last) = piece
        kernel(rows[row], n, points[first:last], out[row, first:last])

    pieces = threads.split(x.size, max(1, _GRAIN // n))
    threads.each(work, [(row, piece) for row in range(count) for piece in pieces])
    np.copyto(out, _NAN[out.dtype], where=np.isnan(out))
    return out


_NAN: dict[Any, Any] = {
    np.dtype(np.float32): np.uint32(0x7FFFFFFF).view(np.float32),
    np.dtype(np.float64): np.uint64(0x7FFFFFFFFFFFFFFF).view(np.float64),
}
"""Every NaN is the one with all fraction bits set."""
