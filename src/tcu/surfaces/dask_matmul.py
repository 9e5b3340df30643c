"""``tcu.matmul`` of Dask arrays: lazily, by blocks of rows and columns, each with all of K.

The plan depends on K and the formats alone, so neither the chunks nor who
computes them leave a trace.  Loaded when a Dask array is met.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from tcu.engines import engine_of
from tcu.formats.array import is_dask
from tcu.formats.format import format_of, get_format
from tcu.model import threads
from tcu.model.mma import operand
from tcu.ops.matmul import FACTORS, MatmulCall, MatmulOptions, check_factor, product_of
from tcu.surfaces.dask import check_detail, check_sizes

__all__ = ["run"]


def run(call: MatmulCall) -> Any:
    """The lazy product; raises what can be known before anything is computed."""
    check_detail("out", call.out)
    a, b, *factors = (_lazy(name, x) for name, x in zip(("a", "b", *FACTORS), call[:5], strict=True))
    formats = format_of(a.dtype).name, format_of(b.dtype).name
    product = product_of(a.shape, b.shape, formats, call.options, factors=call.has_factors)
    product.instruction(call.options.unit)
    for name, x in zip(FACTORS, factors, strict=True):
        if x is not None:
            check_factor(name, x.shape, format_of(x.dtype), product.extent(name))
    x = (a if a.ndim > 1 else a[None, :]).rechunk({-1: -1})
    y = (b if b.ndim > 1 else b[:, None]).rechunk({-2: -1})
    dtype, batch = get_format(product.plan.result).dtype, tuple(range(len(product.matrix) - 2))
    rows, columns, sums = range(len(batch), len(batch) + 3)
    lines = (
        None if f is None else (line,) * f.ndim
        for f, line in zip(factors, (rows, columns, columns), strict=True)
    )
    result = da.blockwise(
        _block, (*batch, rows, columns),
        x, (*batch[len(product.matrix) - x.ndim :], rows, sums), y, (*batch[len(product.matrix) - y.ndim :], sums, columns),
        *(each for pair in zip(factors, lines, strict=True) for each in pair),
        options=call.options, concatenate=True, dtype=dtype, meta=np.empty((0,) * len(product.matrix), dtype),
        token="tcu-matmul",
    )  # fmt: skip
    return result[(..., *(0 if x.ndim == 1 else slice(None) for x in (a, b)))]


def _lazy(name: str, x: Any) -> Any:
    if x is None:
        return None
    if not is_dask(x):
        array = operand(name, x)
        return da.from_array(
            array.astype(np.float64) if array.dtype == np.int64 and not array.ndim else array
        )
    check_sizes(name, x)
    return x


def _block(*arrays: Any, options: MatmulOptions) -> Any:
    with threads.alone():  # the scheduler has its own threads, one for each block under way
        return engine_of(arrays[:2]).multiply(MatmulCall._make((*arrays, options, None)))
