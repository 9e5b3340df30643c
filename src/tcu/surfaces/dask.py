"""Dask arrays: lazy results, as trees on whatever scheduler the user runs.

A task reduces one chunk to its share (:mod:`tcu.surfaces.shares`) and lets the
chunk go; shares merge exactly, so the shape of the tree, the scheduler and the
number of workers leave no trace.  Nor does a task that is done again, after a
worker died: a share is a value, merged once.

Loaded when a Dask array is met.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.graph_manipulation import bind

from tcu.engines import execute, library_integers
from tcu.engines.host.integers import wide_dtype
from tcu.engines.host.own import own_shares
from tcu.engines.host.planned import encoded
from tcu.errors import ParameterError
from tcu.formats.array import check_in_memory, holds_integers, in_host_memory
from tcu.formats.format import Format, get_format
from tcu.model import threads
from tcu.model.elements import summable
from tcu.model.ieee_environment import ieee
from tcu.model.pairs import check_alike
from tcu.ops import FSUM, SUM
from tcu.ops.finish import finish_totals
from tcu.ops.layout import WHOLE, Along, Axes, Ragged, Whole, reduced_shape, scan_axis
from tcu.ops.operation import Call, Operation
from tcu.ops.request import ScanRequest
from tcu.ops.result import result_format
from tcu.surfaces.carries import carries, scan_of_block
from tcu.surfaces.masks import check_mask
from tcu.surfaces.shares import (
    Share,
    merged,
    rounded_share,
    row_shares,
    share_of,
    share_of_total,
    total_call,
)

__all__ = ["check_detail", "check_sizes", "like_chunks", "placed", "run", "run_where"]

_REFUSED = {
    "out": "a lazy result has no place yet: leave out=... out",
    "return_info": "a lazy result has no bits yet: leave return_info out, and call on a computed array",
    "progress": "use dask.diagnostics.ProgressBar, or the dashboard of dask.distributed",
}


def run(call: Call) -> Any:
    """The lazy result of a call with Dask arrays."""
    call.operation.check_layout(call.layout)
    if not call.operation.in_parts:
        raise _whole_rows(call)
    if isinstance(call.layout, Ragged):
        check_in_memory(call.arrays[0], "x")
    _check_details(call)
    if call.operation.of_integers and holds_integers(call.arrays[0]):
        return library_integers.execute(call, da, wide_dtype(call.arrays[0].dtype))
    element = _checked(call.arrays)
    target = result_format(element, call.dtype)
    call = call._replace(arrays=_cut_alike(call.arrays))
    assert not isinstance(call.layout, Ragged)
    if call.operation.kind == "scan":
        return _scan(call, target)
    x, layout = call.arrays[0], call.layout
    if call.operation.arithmetic == "own":
        return _of_its_own(call.operation, x, Axes.of(layout, x.shape), layout, target)
    apart = x.npartitions > 1 or not call.operation.moments  # of one chunk, moments are those of an array
    if apart and (isinstance(layout, Whole) or (call.operation.exact and layout.axis is None)):
        result = _whole(call, target)
        return result.reshape((1,) * x.ndim) if isinstance(layout, Along) and layout.keepdims else result
    keepdims = isinstance(layout, Along) and layout.keepdims
    return _along(call, Axes.of(layout, x.shape), keepdims, target)


def _whole_rows(call: Call) -> ParameterError:
    """The error of an operation that takes whole rows, with the call that gives them to it."""
    name, layout = call.operation.name, call.layout
    begins = f"{name} of a Dask array takes whole rows: "
    plain = isinstance(layout, Along) and layout.axis is not None and not layout.keepdims
    if not plain or call.dtype is not None:  # Dask's map_blocks takes dtype for itself
        return ParameterError(f"{begins}call it of x.compute()")
    axes = Axes.of(layout, call.arrays[0].shape).reduced  # type: ignore[arg-type]
    axis = axes if len(axes) > 1 else axes[0]
    given = [f"tcu.{name}", f"axis={axis}"]
    if call.operation.arithmetic == "norms" and call.option("eps") is not None:
        given.append(f"eps={call.option('eps')}")
    if call.operation.kind == "reduce":
        given.append(f"drop_axis={axis}")
    rows = ", ".join(f"{each}: -1" for each in axes)
    return ParameterError(
        f"{begins}give its chunks to it, one for each row or several, "
        f"x.rechunk({{{rows}}}).map_blocks({', '.join(given)}), or x.compute()"
    )


def _check_details(call: Call) -> None:
    """Raises ParameterError for what a lazy result does not have."""
    for name in ("out", "return_info", "progress"):
        check_detail(name, getattr(call, name))


def check_detail(name: str, given: Any) -> None:
    """Raises ParameterError for one that was given."""
    if given is not None and given is not False:
        raise ParameterError(f"{name} with a Dask array: {_REFUSED[name]}")


def check_sizes(name: str, x: Any) -> None:
    """Raises ParameterError where Dask does not know how many elements lie along an axis."""
    if any(map(math.isnan, x.shape)):
        raise ParameterError(
            f"{name} has chunks of unknown sizes: compute them, with {name}.compute_chunk_sizes()"
        )


def run_where(call: Call, where: Any) -> Any:
    """The lazy result of the elements where a mask is true: each chunk's shares have as many as it selects there."""
    operation = call.operation
    if operation.arithmetic == "own" or not operation.in_parts:
        raise ParameterError(f"{operation} of a Dask array with where is not there: x.compute()")
    _check_details(call)
    layout = call.layout if isinstance(call.layout, Along) else Along(None)
    if not all(isinstance(x, da.Array) for x in call.arrays):
        raise ParameterError(f"where is a Dask array, x a {type(call.arrays[0]).__name__}: give both alike")
    x, mask = call.arrays[0], da.asarray(where)
    check_mask(mask.shape, str(mask.dtype), x.shape)
    mask = da.broadcast_to(mask, x.shape).rechunk(x.chunks)
    if operation.of_integers and holds_integers(x):
        arrays = tuple(da.where(mask, each, each.dtype.type(0)) for each in call.arrays)
        return library_integers.execute(call._replace(arrays=arrays), da, wide_dtype(x.dtype))
    target = result_format(_checked(call.arrays), call.dtype)
    axes, arrays = Axes.of(layout, x.shape), _cut_alike(call.arrays)
    shares = da.map_blocks(
        _selected_shares, *arrays, mask, axis=axes.reduced, call=_without_arrays(call), dtype=object,
        chunks=_one_of_each(x, axes), meta=np.empty((0,) * x.ndim, object), token=f"tcu-{operation}-where",
    )  # fmt: skip
    return _merged_shares(shares, call, axes, layout.keepdims, target, like_chunks(x, target.dtype))


def _selected_shares(*given: Any, axis: tuple[int, ...], call: Call) -> npt.NDArray[Any]:
    *arrays, mask = given
    with threads.alone():
        return row_shares(call.operation, arrays, axis, call.options, mask)


def _cut_alike(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The second array in the chunks of the first."""
    x, *others = arrays
    return (x, *(each if each.chunks == x.chunks else each.rechunk(x.chunks) for each in others))


def _checked(arrays: Sequence[Any]) -> Format:
    """The format of the elements; raises what can be known before anything is computed."""
    if not all(isinstance(x, da.Array) for x in arrays):
        names = " and ".join(f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}" for x in arrays)
        raise ParameterError(f"x and y are {names}: make both Dask arrays, with dask.array.from_array")
    verb = "sum" if len(arrays) == 1 else "multiply"
    formats = [summable(x.dtype, name, verb) for name, x in zip("xy", arrays, strict=False)]
    if len(arrays) == 2:
        x, y = arrays
        are_known = not any(math.isnan(length) for length in (*x.shape, *y.shape))
        shapes = (x.shape, y.shape) if are_known else ((), ())
        check_alike(shapes, (x.dtype, y.dtype), "with reshape", "with astype")
    return formats[0]


def like_chunks(x: Any, dtype: Any, ndim: int = 0) -> Any:
    """An empty array of the library of x's chunks, as Dask wants it to be told."""
    library = sys.modules.get("cupy") if type(x._meta).__module__.startswith("cupy") else None
    return (library or np).empty((0,) * ndim, dtype)


def _whole(call: Call, target: Format) -> Any:
    arrays = list(call.arrays)
    x = arrays[0]
    if x.ndim == 0:
        arrays = [each.reshape(1) for each in arrays]
    name = call.operation.name
    shares = da.map_blocks(
        _block_share, *arrays, operation=call.operation, options=call.options, dtype=object, token=f"tcu-{name}-chunk",
        chunks=tuple((1,) * count for count in arrays[0].numblocks),
        meta=np.empty((0,) * arrays[0].ndim, object),
    )  # fmt: skip
    return da.reduction(
        shares, chunk=_unchanged, combine=_merge,
        aggregate=partial(_finish, call=_without_arrays(call), target=target, like=like_chunks(x, target.dtype)),
        dtype=target.dtype, name=f"tcu-{name}", meta=like_chunks(x, target.dtype),
    )  # fmt: skip


def _block_share(*arrays: Any, operation: Operation, options: tuple[Any, ...]) -> npt.NDArray[Any]:
    with threads.alone():  # the scheduler has its own threads, one for each chunk under way
        share = share_of(operation, arrays, options)
    return _boxed(share, arrays[0].ndim)


def _boxed(share: Share, ndim: int) -> npt.NDArray[Any]:
    box = np.empty((1,) * ndim, object)
    box.flat[0] = share
    return box


def _unchanged(x: Any, axis: Any, keepdims: bool) -> Any:
    return x


def _merge(x: npt.NDArray[Any], axis: Any, keepdims: bool) -> npt.NDArray[Any]:
    return _boxed(merged(x.flat), x.ndim)


def _without_arrays(call: Call) -> Call:
    """What the last task of a reduction needs."""
    return call._replace(arrays=())


def _finish(x: npt.NDArray[Any], axis: Any, keepdims: bool, *, call: Call, target: Format, like: Any) -> Any:
    share: Share = merged(x.flat)
    return placed(np.asarray(rounded_share(call.operation, share, target, call.options)), like)


def placed(result: npt.NDArray[Any], like: Any) -> Any:
    """The result in the library of the chunks."""
    return result if isinstance(like, np.ndarray) else sys.modules["cupy"].asarray(result)


def _shaped(result: Any, axis: Any, keepdims: bool) -> Any:
    """The result with its axes of length 1, or without."""
    return result if keepdims else result.squeeze(tuple(axis))


# Scans: each chunk's exact sums, all of them together to the carries, and each chunk's scan with its carry.


def _scan(call: Call, target: Format) -> Any:
    """Two levels, as :mod:`tcu.surfaces.carries` says.

    One task has the exact sums of all chunks of a row, a few hundred bytes
    each; every other task has one chunk.
    """
    (x,), operation = call.arrays, call.operation
    kind = object if operation.exact else np.float64
    exclusive, reverse = call.option("exclusive"), call.option("reverse")
    if not operation.exact:
        ScanRequest(*call.options).check_in_parts("Dask arrays")
    assert not isinstance(call.layout, Ragged)
    axis = scan_axis(call.layout, x.ndim)
    if axis is None:
        x, axis = x.reshape(-1), 0
    ones = tuple((1,) * len(lengths) if i == axis else lengths for i, lengths in enumerate(x.chunks))
    sums = x.map_blocks(
        _shares_of_block, axis=(axis,), call=Call(FSUM, (), WHOLE, (None,)), dtype=object, chunks=ones,
        meta=np.empty((0,) * x.ndim, object),
        token=f"tcu-{operation}-sums",
    )  # fmt: skip
    together = sums.rechunk({axis: -1}).map_blocks(
        _carries_of_row, operation=operation, axis=axis, reverse=reverse, dtype=kind, meta=np.empty((0,) * x.ndim, kind),
        token=f"tcu-{operation}-carries",
    )  # fmt: skip
    # Once all carries are known every chunk is made anew, or all of them would be kept until then.
    again = bind(x, together, seed=f"tcu-{operation}")
    return da.map_blocks(
        _scan_of_block, again, together.rechunk({axis: 1}), operation=operation, axis=axis, target=target, exclusive=exclusive,
        reverse=reverse, dtype=target.dtype, chunks=x.chunks, meta=like_chunks(x, target.dtype, x.ndim),
        token=f"tcu-{operation}",
    )  # fmt: skip


def _carries_of_row(
    shares: npt.NDArray[Any], *, operation: Operation, axis: int, reverse: bool
) -> npt.NDArray[Any]:
    front = np.moveaxis(shares, axis, 0)
    blocks = [front[i, ...] for i in range(len(front))]  # arrays, also of no dimensions
    found = list(carries(operation, blocks[::-1] if reverse else blocks))
    return np.stack(found[::-1] if reverse else found, axis)


def _scan_of_block(
    x: Any, carry: npt.NDArray[Any], *, operation: Operation, axis: int, target: Format, exclusive: bool, reverse: bool
) -> Any:  # fmt: skip
    with threads.alone():
        return scan_of_block(operation, x, carry.squeeze(axis), axis, target, exclusive, reverse)


# Along axes.


def _along(call: Call, axes: Axes, keepdims: bool, target: Format) -> Any:
    x, n = call.arrays[0], _row_length(axes)
    if call.operation.exact or call.operation.moments:
        return _shares_along(call, axes, keepdims, target)
    # Every row by the plan of one, where the row lies in one chunk; where it lies in several, their totals.
    like = like_chunks(x, target.dtype)
    totals = da.map_blocks(
        _rows_of_block, *call.arrays, axis=axes.reduced, operation=call.operation, options=call.options,
        dtype=np.float64, chunks=_one_of_each(x, axes), meta=np.empty((0,) * x.ndim), token=f"tcu-{call.operation}-rows",
    )  # fmt: skip
    return da.reduction(
        totals, chunk=_unchanged, combine=_unchanged,
        aggregate=partial(_finish_rows, operation=call.operation, n=n, target=target, like=like),
        axis=axes.reduced, keepdims=keepdims, dtype=target.dtype, name=f"tcu-{call.operation}",
        meta=like_chunks(x, target.dtype, len(axes.shape)),
    )  # fmt: skip


def _row_length(axes: Axes) -> int:
    if math.isnan(axes.n):
        raise ParameterError(
            "x has chunks of unknown size along the axis: call x.compute_chunk_sizes() first"
        )
    return int(axes.n)


def _one_of_each(x: Any, axes: Axes) -> tuple[tuple[int, ...], ...]:
    """The chunks of what every chunk of x has one of for each row."""
    return tuple((1,) * len(lengths) if i in axes.reduced else lengths for i, lengths in enumerate(x.chunks))


def _rows_of_block(
    *arrays: Any, axis: tuple[int, ...], operation: Operation, options: tuple[Any, ...]
) -> npt.NDArray[np.float64]:
    """The rows' totals, of length 1 along the axes, on the host."""
    call = total_call(operation, arrays, options)._replace(layout=Along(axis, True))
    with threads.alone():
        totals, _ = execute(call)
    return np.asarray(in_host_memory(totals))


@ieee
def _finish_rows(
    totals: npt.NDArray[np.float64], axis: Any, keepdims: bool, *, operation: Operation, n: int, target: Format,
    like: Any,
) -> Any:  # fmt: skip
    """From the totals of all blocks, one after another along the axes."""
    kept = [i for i in range(totals.ndim) if i not in axis]
    blocks = math.prod(totals.shape[i] for i in axis)
    shape = reduced_shape(totals.shape, tuple(axis), keepdims=True)
    rows = finish_totals(operation, exact_rows(totals.transpose(*axis, *kept).reshape(blocks, -1))[None], n)
    result = np.asarray(encoded(rows, target)).view(target.dtype).reshape(shape)
    return placed(_shaped(result, axis, keepdims), like)


def exact_rows(totals: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sum of each column, rounded once."""
    if len(totals) == 1:
        return np.asarray(totals[0])
    with np.errstate(all="ignore"):
        result = np.asarray(totals.sum(axis=0))  # right where one is inf or NaN
        if len(totals) > 2:
            # math.fsum raises where a sum on the way, or the result, is beyond the largest number.
            safe = np.abs(totals).max(axis=0) < 2.0**1022 / len(totals)
            result[safe] = [math.fsum(column) for column in totals[:, safe].T.tolist()]
            for at in np.flatnonzero(~safe & np.isfinite(totals).all(axis=0)):
                share = merged(share_of_total(1, total) for total in totals[:, at].tolist())
                result[at] = rounded_share(SUM, share, get_format("binary64"))
        return np.asarray(result + 0.0)


# What has shares of every row: finished at once where a row lies in one chunk; where it lies in several, they merge.


def _shares_along(call: Call, axes: Axes, keepdims: bool, target: Format) -> Any:
    name, last, x = call.operation.name, _without_arrays(call), call.arrays[0]
    ones = _one_of_each(x, axes)
    blocks: dict[str, Any] = {"axis": axes.reduced, "call": last, "chunks": ones, "token": f"tcu-{name}-rows"}
    if all(x.numblocks[axis] == 1 for axis in axes.reduced):
        rows = da.map_blocks(
            _whole_rows_of_block,
            *call.arrays,
            target=target,
            dtype=target.dtype,
            meta=like_chunks(x, target.dtype, x.ndim),
            **blocks,
        )
        return rows if keepdims else rows.squeeze(axes.reduced)
    shares = da.map_blocks(
        _shares_of_block, *call.arrays, dtype=object, meta=np.empty((0,) * x.ndim, object), **blocks
    )
    return _merged_shares(shares, call, axes, keepdims, target, like_chunks(x, target.dtype))


def _merged_shares(shares: Any, call: Call, axes: Axes, keepdims: bool, target: Format, like: Any) -> Any:
    """What the shares of all chunks come to."""
    return da.reduction(
        shares, chunk=_unchanged, combine=_merged_rows,
        aggregate=partial(_finish_shares, call=_without_arrays(call), target=target, like=like),
        axis=axes.reduced, keepdims=keepdims, dtype=target.dtype, name=f"tcu-{call.operation}",
        meta=like_chunks(shares, target.dtype, len(axes.shape)) if isinstance(like, np.ndarray) else like,
    )  # fmt: skip


def _whole_rows_of_block(*arrays: Any, axis: tuple[int, ...], call: Call, target: Format) -> Any:
    options = (*call.options[:-1], target.dtype)
    with threads.alone():
        return execute(call._replace(arrays=arrays, layout=Along(axis, True), options=options))[0]


def _shares_of_block(*arrays: Any, axis: tuple[int, ...], call: Call) -> npt.NDArray[Any]:
    with threads.alone():
        return row_shares(call.operation, arrays, axis, call.options)


def _merged_rows(shares: npt.NDArray[Any], axis: Any, keepdims: bool) -> npt.NDArray[Any]:
    merged_rows = np.empty(reduced_shape(shares.shape, tuple(axis), keepdims=True), object)
    for where in np.ndindex(merged_rows.shape):
        rows = shares[tuple(slice(None) if i in axis else at for i, at in enumerate(where))]
        merged_rows[where] = merged(np.ravel(rows).tolist())
    return merged_rows


def _finish_shares(
    shares: npt.NDArray[Any], axis: Any, keepdims: bool, *, call: Call, target: Format, like: Any
) -> Any:
    rows = _merged_rows(shares, axis, keepdims)
    result = np.empty(rows.shape, target.dtype)
    for where in np.ndindex(rows.shape):
        result[where] = rounded_share(call.operation, rows.item(where), target, call.options)
    return placed(_shaped(result, axis, keepdims), like)


# Operations of a program's own: the shares of each chunk's rows, which merge.


def _of_its_own(operation: Operation, x: Any, axes: Axes, layout: Any, target: Format) -> Any:
    n = _row_length(axes)
    keepdims = isinstance(layout, Along) and layout.keepdims
    assert operation.share is not None
    size = np.asarray(operation.share(np.zeros((1, 1), x.dtype))).shape[1]
    shares = x.map_blocks(
        _own_shares, operation=operation, axis=axes.reduced, new_axis=x.ndim,
        chunks=(*_one_of_each(x, axes), (size,)), dtype=np.float64,
        meta=np.empty((0,) * (x.ndim + 1)), token=f"tcu-{operation}-chunk",
    )  # fmt: skip
    merge = partial(_own_merged, operation=operation)
    together = da.reduction(
        shares, chunk=_unchanged, combine=merge, aggregate=merge, axis=axes.reduced, keepdims=True, dtype=np.float64,
        name=f"tcu-{operation}-merge", meta=np.empty((0,) * (x.ndim + 1)),
    )  # fmt: skip
    gone = (x.ndim,) if keepdims else (*axes.reduced, x.ndim)
    return together.map_blocks(
        _own_finished, operation=operation, n=n, target=target, gone=gone, drop_axis=gone, dtype=target.dtype,
        meta=like_chunks(x, target.dtype, len(axes.shape)), token=f"tcu-{operation}",
    )  # fmt: skip


@ieee
def _own_shares(x: Any, *, operation: Operation, axis: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """The shares of a chunk's rows, in one more axis."""
    axes = Axes.of(Along(axis, True), x.shape)
    with threads.alone():
        shares = np.asarray(own_shares(operation, np.asarray(x), axes), np.float64)
    return shares.reshape(*axes.shape, shares.shape[1])


@ieee
def _own_merged(shares: Any, axis: Any, keepdims: bool, *, operation: Operation) -> npt.NDArray[np.float64]:
    kept = [i for i in range(shares.ndim - 1) if i not in axis]
    parts = math.prod(shares.shape[i] for i in axis)
    assert operation.merge is not None
    rows = operation.merge(shares.transpose(*axis, *kept, -1).reshape(parts, -1, shares.shape[-1]))
    return np.asarray(rows).reshape(reduced_shape(shares.shape, tuple(axis), keepdims=True))


@ieee
def _own_finished(shares: Any, *, operation: Operation, n: int, target: Format, gone: tuple[int, ...]) -> Any:
    assert operation.finished is not None
    values = np.asarray(operation.finished(shares.reshape(-1, shares.shape[-1]), n), np.float64)
    result = encoded(values, target).view(target.dtype).reshape(*shares.shape[:-1], 1)
    return result.squeeze(gone)
