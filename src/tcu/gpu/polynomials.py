"""What a polynomial needs between its tensor calls, each in one pass over a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcu.gpu.arrays import library_of
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.structs import struct

__all__ = ["Pairs", "Powers", "add_in_pairs", "macros_of", "powers"]

_THREADS = 128
_WARP = 32


Powers = struct("Powers", """
    const double* x;
    double* out;  // points × WIDTH, contiguous
    i64 step;     // from a point to the next
    i64 points;
""")  # fmt: skip


Pairs = struct("Pairs", """
    const double* values;  // term i of point p of member k: values[i·step + p·point + k·member]
    const double* base;    // of point p: base[p·base_step]
    double* out;           // members × points, contiguous
    i64 count, step, member, point, base_step, members, points;
""")  # fmt: skip


def powers(x: Any, width: int) -> Any:
    """(points, width) powers 0 ... width - 1 of a vector of float64 on a GPU, as doubling makes them.

    None where nothing was done, for arrays of other kinds.
    """
    library = library_of(x)
    if library is None or x.dtype != np.float64 or not x.size:
        return None
    gpu = find_gpu(library.ordinal("x", x))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        view = library.view("x", x, stream)
        points = view.shape[0]
        result, address = library.empty(x, (points, width), np.dtype(np.float64), gpu.ordinal)
        problem = Powers(view.address, address, view.strides[0], points)
        blocks, macros = -(-points // (_THREADS // _WARP)), macros_of(width=width)
        bind(KernelChoice("polynomials", macros, blocks, _THREADS, problem, entry="powers"), gpu)(stream)
        return library.finish(result, x, stream)


def add_in_pairs(values: Any, base: Any) -> Any:
    """The sum over i of values[i]·base^i on a GPU: neighbours first, then pairs of pairs.

    Parameters
    ----------
    values:
        (terms, points) or (terms, members, points) of float64.
    base:
        (points,) of float64.

    Returns
    -------
    values.shape[1:]; None where nothing was done, for arrays of other kinds.
    """
    library = library_of(values)
    if library is None or library_of(base) is not library or not values.size:
        return None
    if values.dtype != np.float64 or base.dtype != np.float64:
        return None
    gpu = find_gpu(library.ordinal("values", values))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        terms, bases = library.view("values", values, stream), library.view("base", base, stream)
        shape = terms.shape[1:]
        count, points, members = terms.shape[0], shape[-1], math.prod(shape[:-1])
        result, address = library.empty(values, shape, np.dtype(np.float64), gpu.ordinal)
        member = terms.strides[1] if len(shape) == 2 else 0
        problem = Pairs(
            terms.address, bases.address, address, count, terms.strides[0], member, terms.strides[-1],
            bases.strides[0], members, points,
        )  # fmt: skip
        blocks, macros = -(-members * points // _THREADS), macros_of(count=count)
        bind(KernelChoice("polynomials", macros, blocks, _THREADS, problem, entry="add_in_pairs"), gpu)(
            stream
        )
        return library.finish(result, values, stream)


def macros_of(width: int = 1, count: int = 2) -> Mapping[str, str]:
    """What polynomials.cu leaves open, for so many powers, or so many terms."""
    levels = max(1, (count - 1).bit_length())
    return {"WIDTH": str(width), "LEVELS": str(levels), "THREADS": str(_THREADS)}
