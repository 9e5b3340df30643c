"""Sums by index of Dask arrays: a share of each chunk (:mod:`tcu.surfaces.slot_shares`), and their tree, lazily.

Chunks along the index's axis merge exactly, so they leave no trace; along other axes each has a result of its own.  Loaded
when a Dask array is met.
"""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.formats.array import in_host_memory
from tcu.formats.tensor import is_tensor
from tcu.model import threads
from tcu.model.ieee_environment import ieee
from tcu.ops.layout import axis_number
from tcu.surfaces.dask import check_detail, check_sizes, like_chunks, placed
from tcu.surfaces.slot_shares import (
    SlotShare,
    inside,
    means_of,
    merged_slots,
    result_dtype,
    share_of_rows,
    sums_by_key,
    sums_of,
)
from tcu.surfaces.sums_by_index import (
    check_index,
    check_initial,
    check_keys,
    check_weights,
    checked_places,
    products,
    whole_size,
)

__all__ = ["lazy", "ones_like", "reduce_by_key", "run"]


def lazy(name: str, x: Any) -> Any:
    """A Dask array of known sizes, of one or of what NumPy reads.  Raises ParameterError."""
    if is_tensor(x):
        raise ParameterError(f"{name} is a tensor beside Dask arrays: pass {name}.numpy()")
    x = x if isinstance(x, da.Array) else da.from_array(np.asarray(x))
    check_sizes(name, x)
    return x


def ones_like(index: Any) -> Any:
    """What is added up where indices are counted."""
    return da.ones(index.shape, dtype=np.int64, chunks=index.chunks)


def run(
    mean: bool, x: Any, index: Any, size: int, axis: int, weights: Any, initial: Any, dtype: Any, out: Any, check: bool,
    negative: bool = True,
) -> Any:  # fmt: skip
    """The lazy result of ``tcu.index_sum`` or ``tcu.index_mean``; raises what can be known before anything is computed."""
    check_detail("out", out)
    x, index, weights, axis, dtype = _checked(x, index, axis, weights, dtype, mean)
    count = whole_size(size)
    check_index(index, x.shape[axis])
    starts = np.cumsum([0, *x.chunks[axis][:-1]])
    arrays = [x, _across(index, x, axis), _across(da.from_array(starts, chunks=1), x, axis)]
    together = _shares(
        _share, arrays, weights, axis, size=count, check=check, negative=negative, token="tcu-index-chunk"
    )
    chunks = (*x.chunks[:axis], (count,), *x.chunks[axis + 1 :])
    others = []
    if initial is not None:
        initial = lazy("initial", initial)
        check_initial(x, initial, tuple(map(sum, chunks)), axis)
        others = [initial.rechunk(chunks)]
    if mean:
        counts = run(False, ones_like(index), index, count, 0, None, None, None, None, check, negative)
        others = [_across(counts, x, axis)]
    return da.map_blocks(
        _mean_of_slots if mean else _sum_of_slots, together, *others, axis=axis, size=count, kind=dtype, chunks=chunks,
        like=like_chunks(x, dtype), dtype=dtype, meta=like_chunks(x, dtype, x.ndim), token="tcu-index",
    )  # fmt: skip


def reduce_by_key(keys: Any, x: Any, axis: int, weights: Any, dtype: Any) -> tuple[Any, Any]:
    """The lazy results of ``tcu.reduce_by_key``, of a length that is not known before they are computed."""
    x, keys, weights, axis, dtype = _checked(x, keys, axis, weights, dtype, False, "keys")
    check_keys(keys, x.shape[axis])
    together = _shares(_share_of_keys, [x, _across(keys, x, axis)], weights, axis, token="tcu-key-chunk")
    one = together[tuple(slice(None) if i == axis else slice(1) for i in range(x.ndim))]
    found = one.map_blocks(
        _keys_of, dtype=keys.dtype, drop_axis=[i for i in range(x.ndim) if i != axis], chunks=((math.nan,),),
        meta=np.empty(0, keys.dtype), token="tcu-keys",
    )  # fmt: skip
    sums = together.map_blocks(
        _sum_of_keys, axis=axis, kind=dtype, chunks=(*x.chunks[:axis], (math.nan,), *x.chunks[axis + 1 :]),
        like=like_chunks(x, dtype), dtype=dtype, meta=like_chunks(x, dtype, x.ndim), token="tcu-key-sums",
    )  # fmt: skip
    return found, sums


def _checked(
    x: Any, index: Any, axis: int, weights: Any, dtype: Any, mean: bool, what: str = "index"
) -> tuple[Any, Any, Any, int, Any]:
    """(x, the index in x's chunks, the weights, the axis's number, the result's dtype)"""
    x, index = lazy("x", x), lazy(what, index)
    axis = axis_number(axis, x.ndim)
    dtype = result_dtype(x, mean, dtype)
    if weights is not None:
        weights = lazy("weights", weights)
        check_weights(x, weights, axis)
    if index.shape == (x.shape[axis],):
        index = index.rechunk((x.chunks[axis],))
    return x, index, weights, axis, dtype


def _across(line: Any, x: Any, axis: int) -> Any:
    """A line along x's axis, and one long along the others."""
    return line[tuple(slice(None) if i == axis else None for i in range(x.ndim))]


def _shares(function: Any, arrays: list[Any], weights: Any, axis: int, **options: Any) -> Any:
    """The shares of all chunks, put together along the axis."""
    x = arrays[0]
    if weights is not None:
        if weights.ndim == x.ndim:
            arrays.append(weights.rechunk(x.chunks))
        else:
            arrays.append(_across(weights.rechunk((x.chunks[axis],)), x, axis))
    shares = da.map_blocks(
        function, *arrays, axis=axis, whole=weights is not None and weights.ndim == x.ndim, dtype=object,
        chunks=tuple((1,) * count for count in x.numblocks), meta=np.empty((0,) * x.ndim, object), **options,
    )  # fmt: skip
    return da.reduction(
        shares, chunk=_unchanged, combine=_merged, aggregate=_merged, axis=axis, keepdims=True, dtype=object,
        name="tcu-index-merge", meta=np.empty((0,) * x.ndim, object),
    )  # fmt: skip


def _share(
    x: Any,
    index: Any,
    start: Any,
    *weights: Any,
    axis: int,
    whole: bool,
    size: int,
    check: bool,
    negative: bool,
) -> npt.NDArray[Any]:
    places = checked_places(_line(index), size, check, negative=negative, first=int(start.reshape(-1)[0]))
    return _boxed(*inside(places, _rows(x, weights, axis, whole), size), x.ndim)


def _share_of_keys(x: Any, keys: Any, *weights: Any, axis: int, whole: bool) -> npt.NDArray[Any]:
    return _boxed(_line(keys), _rows(x, weights, axis, whole), x.ndim)


def _line(x: Any) -> npt.NDArray[Any]:
    return np.asarray(in_host_memory(x)).reshape(-1)


@ieee
def _rows(x: Any, weights: tuple[Any, ...], axis: int, whole: bool) -> npt.NDArray[Any]:
    """What is added up, with the index's axis in front."""
    x = np.asarray(in_host_memory(x))
    if not weights:
        return np.moveaxis(x, axis, 0)
    return np.asarray(products(x, in_host_memory(weights[0]) if whole else _line(weights[0]), axis))


def _boxed(keys: npt.NDArray[Any], rows: npt.NDArray[Any], ndim: int) -> npt.NDArray[Any]:
    with threads.alone():  # the scheduler has its own threads, one for each chunk under way
        return _box(share_of_rows(keys, rows), ndim)


def _box(share: SlotShare, ndim: int) -> npt.NDArray[Any]:
    box = np.empty((1,) * ndim, object)
    box[(0,) * ndim] = share
    return box


def _unchanged(x: Any, axis: Any, keepdims: bool) -> Any:
    return x


def _merged(x: npt.NDArray[Any], axis: Any, keepdims: bool) -> npt.NDArray[Any]:
    with threads.alone():
        return _box(merged_slots(x.flat), x.ndim)


def _sum_of_slots(box: Any, *initial: Any, axis: int, size: int, kind: Any, like: Any) -> Any:
    added = np.moveaxis(np.asarray(in_host_memory(initial[0])), axis, 0) if initial else None
    with threads.alone():
        sums = sums_of(box.item(), size, kind, added)
    return placed(np.moveaxis(sums, 0, axis), like)


def _mean_of_slots(box: Any, counts: Any, axis: int, size: int, kind: Any, like: Any) -> Any:
    return placed(np.moveaxis(means_of(box.item(), _line(counts), kind), 0, axis), like)


def _keys_of(box: Any) -> Any:
    return np.unique(box.item().keys)


def _sum_of_keys(box: Any, axis: int, kind: Any, like: Any) -> Any:
    with threads.alone():
        _, sums = sums_by_key(box.item(), kind)
    return placed(np.moveaxis(sums, 0, axis), like)
