"""Coefficients of products of long integers: the sums of a product's antidiagonals, in one pass over a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcu.gpu.arrays import library_of
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.structs import struct

__all__ = ["MAX_COLUMNS", "Antidiagonals", "add_antidiagonals", "macros_of"]

MAX_COLUMNS = 256
"""Of a product: the side of the largest right operand."""
_THREADS = 128
_WARP = 32
_CHUNK = 32
"""Strips of a warp: as many as leave a large GPU enough warps, for each warp adds its last sums one by one."""
_PRODUCTS = {np.dtype(np.int32): "int", np.dtype(np.int64): "i64", np.dtype(np.float32): "float", np.dtype(np.float64): "double"}  # fmt: skip


Antidiagonals = struct("Antidiagonals", """
    const PRODUCT* product;  // members × blocks × rows × columns, contiguous
    u64* result;             // members × length, contiguous: two's complement, to which is added
    i64 members, blocks, rows, columns, side;
    i64 first;   // strip where column 0 of block 0 begins; other blocks follow column by column
    i64 length;  // digits of a result
""")  # fmt: skip


def add_antidiagonals(result: Any, product: Any, first: int) -> bool:
    """Adds column j of block g of the product to ``result`` from strip first + g·columns + j on.

    Parameters
    ----------
    result:
        (members, strips, side) of int64, contiguous.
    product:
        (members, blocks, rows, columns) of int32, int64, float32 or float64, contiguous, on the same GPU: integers all.
    first:
        The strip where column 0 of block 0 begins.

    Returns
    -------
    False where nothing was done, for arrays of other dtypes or with gaps.
    """
    library = library_of(result)
    if library is None or library_of(product) is not library or result.dtype != np.int64:
        return False
    _, blocks, rows, columns = product.shape
    if np.dtype(product.dtype) not in _PRODUCTS or columns > MAX_COLUMNS or not product.size:
        return False
    gpu = find_gpu(library.ordinal("product", product))
    with current(gpu):
        places = [library.plain(x) for x in (product, result)]
        if places[0] is None or places[1] is None:
            return False
        stream = library.current_stream(gpu.ordinal)
        members, strips, side = result.shape
        problem = Antidiagonals(
            places[0][0], places[1][0], members, blocks, rows, columns, side, first, strips * side
        )
        tasks = members * blocks * side * math.ceil(rows / (side * _CHUNK))
        blocks, macros = -(-tasks // (_THREADS // _WARP)), macros_of(product.dtype, columns)
        bind(
            KernelChoice("antidiagonals", macros, blocks, _THREADS, problem, entry="add_antidiagonals"), gpu
        )(stream)
    return True


def macros_of(dtype: np.dtype[Any], columns: int) -> Mapping[str, str]:
    """What antidiagonals.cu leaves open, for a product of so many columns."""
    per = 1
    while per * _WARP < columns:
        per *= 2
    return {"PRODUCT": _PRODUCTS[dtype], "PER": str(per), "CHUNK": str(_CHUNK), "THREADS": str(_THREADS)}
