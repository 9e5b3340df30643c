"""``tcu.fft`` of Dask arrays: lazily, each block with all of the axis that is transformed.

A transform's bits depend on its length and format alone, so the chunks of other axes leave no trace.  Loaded when a Dask
array is met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from tcu.engines import engine_of
from tcu.errors import ParameterError
from tcu.model import threads
from tcu.ops.fft import FftCall, complex_dtype, plan_of, real_format
from tcu.surfaces.dask import check_sizes

__all__ = ["mapped", "run"]


def run(call: FftCall) -> Any:
    """The lazy result; raises what can be known before anything is computed."""
    real = real_format(call.x.dtype)
    plan_of(call, real)
    dtype = real.dtype if call.pairs or call.kind == "to_real" else complex_dtype(real)
    if call.pairs:
        _check_whole(call.x, call.x.ndim - 1)
    return mapped(_transformed, call.x, call.axis, call.made, dtype, call=call._replace(x=None))


def mapped(function: Callable[..., Any], x: Any, axis: int, made: int, dtype: Any, **options: Any) -> Any:
    """A function of blocks that takes all of an axis and makes as many numbers of it."""
    _check_whole(x, axis)
    chunks = (*x.chunks[:axis], (made,), *x.chunks[axis + 1 :])
    return da.map_blocks(
        _alone, x, function=function, dtype=dtype, chunks=chunks, meta=np.empty((0,) * x.ndim, dtype), token="tcu-fft", **options
    )  # fmt: skip


def _check_whole(x: Any, axis: int) -> None:
    check_sizes("x", x)
    if x.numblocks[axis] > 1:
        raise ParameterError(
            f"x has {x.numblocks[axis]} chunks along axis {axis}, all of which a transform takes: make them one, with "
            f"x.rechunk({{{axis}: -1}})"
        )


def _transformed(x: Any, call: FftCall) -> Any:
    return engine_of([x]).fft(call._replace(x=x))


def _alone(x: Any, function: Callable[..., Any], **options: Any) -> Any:
    with threads.alone():  # the scheduler has its own threads, one for each block under way
        return function(x, **options)
