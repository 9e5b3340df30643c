"""Sums and means along axes: every row of an array by the plan of one row.

The law: each element of the result has the bits that ``tcu.sum`` gives for its
row alone, the elements of the reduced axes in C order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.collectives.request import Request
from tcu.collectives.results import target_of
from tcu.collectives.summation import prepare_plan, sum_info
from tcu.errors import ParameterError
from tcu.formats.array import encode_array, is_dask, lives_on_gpu, whole_number
from tcu.formats.format import Format
from tcu.formats.tensor import is_tensor
from tcu.model import threads
from tcu.model.elements import Elements
from tcu.model.execute import Progress, execute
from tcu.model.rows import execute_rows, row_width
from tcu.plan import Plan
from tcu.units import Unit

__all__ = ["axis_number", "encoded", "reduce", "reduced_axes", "reduced_shape", "row_pieces"]

_PIECE = 1 << 18
"""Numbers, padding included, that one thread takes at a time: faster than 2^16 and 2^20, most of all for short rows."""
_LONG = 1 << 18
"""Rows of that length are summed one after another, each by all threads."""

Operation = Literal["sum", "mean", "fsum", "fmean"]


def reduce(
    operation: Operation,
    x: Any,
    axis: Any,
    keepdims: bool,
    options: tuple[Any, ...],
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """What ``tcu.sum`` and ``tcu.mean`` do where an axis is given; ``options`` in the order of OPTIONS."""
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        axis = tuple(range(x.ndim)) if axis is None else axis
        given = {"out": out, "return_info": return_info, "progress": progress}
        return dask_arrays.reduce(operation, (x,), options, axis, keepdims, **given)
    if is_tensor(x):
        import tcu.collectives.torch_rows as torch_rows

        return torch_rows.reduce(operation, x, axis, keepdims, options, out, return_info, progress)
    if lives_on_gpu(x):
        axes = reduced_axes(axis, len(x.shape))
        return on_gpu(operation, x, axes, keepdims, options, out, return_info, progress)
    elements = x if isinstance(x, Elements) else Elements(x)
    axes = reduced_axes(axis, elements.array.ndim)
    n = math.prod(elements.array.shape[i] for i in axes)
    shape = reduced_shape(elements.array.shape, axes, keepdims)
    unit, plan = prepare_plan(n, elements.format, *options[:-1])
    target = target_of(elements.format, options[-1], out, shape)
    codes = np.empty(math.prod(shape), target.code_dtype)
    at = 0
    for totals in _totals(elements, axes, plan, unit, progress):
        if operation == "mean":
            totals = totals / n + 0.0 if n else np.full_like(totals, math.nan)
        codes[at : at + totals.size] = encoded(totals, target)
        at += totals.size
    result = codes.view(target.dtype).reshape(shape)
    if out is not None:
        out[...] = result
    if not return_info:
        return result[()] if out is None else out
    info = sum_info(unit, plan, int(codes[0]) if codes.size == 1 else None, rows=codes.size)
    return (result[()] if out is None else out), info


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, from 0 and in order; raises ParameterError for those that are not there."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    axes: list[int] = []
    for each in given:
        number = whole_number(each)
        if number is None:
            raise ParameterError(f"axis={axis!r}: give a whole number, a tuple of them, or None for all axes")
        axes.append(axis_number(number, ndim))
    for number in axes:
        if axes.count(number) > 1:
            raise ParameterError(f"axis={axis!r} has axis {number} more than once: name each axis once")
    return tuple(sorted(axes))


def axis_number(axis: int, ndim: int) -> int:
    """The axis, counted from 0; raises ParameterError if it is not there."""
    if not -ndim <= axis < ndim:
        advice = f"choose {-ndim} to {ndim - 1}" if ndim else "leave axis out"
        raise ParameterError(f"axis {axis} of an array with {ndim} axes: {advice}")
    return axis % ndim


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The result's shape: without the reduced axes, or with length 1 in their place."""
    if keepdims:
        return tuple(1 if i in axes else length for i, length in enumerate(shape))
    return tuple(length for i, length in enumerate(shape) if i not in axes)


def on_gpu(
    operation: Operation, x: Any, axes: tuple[int, ...], keepdims: bool, options: tuple[Any, ...], out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """The rows of an array in a GPU's memory."""
    from tcu.collectives import device_rows

    request = Request.of(operation, options)
    result, plan = device_rows.reduce(request, x, axes, keepdims, out)
    if progress is not None:
        progress(math.prod(x.shape))
    if not return_info or plan is None:
        return result
    rows = math.prod(length for i, length in enumerate(x.shape) if i not in axes)
    return result, sum_info(_unit_of_gpu(x), plan, None, rows)


def _unit_of_gpu(x: Any) -> Unit:
    from tcu.collectives.device import home_of
    from tcu.gpu.device import find_gpu

    return find_gpu(home_of((x,))[1]).unit


def _totals(
    elements: Elements, axes: tuple[int, ...], plan: Plan, unit: Unit, progress: Progress | None
) -> Iterator[npt.NDArray[np.float64]]:
    """The rows' sums, a piece of them at a time."""
    array = elements.array
    kept = [i for i in range(array.ndim) if i not in axes]
    rows = array.transpose(*kept, *axes)
    if plan.n >= _LONG:
        for where in np.ndindex(rows.shape[: len(kept)]):
            yield np.array([execute(plan, Elements(rows[where]), unit, progress)])
        return

    def work(piece: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        count = math.prod(piece.shape[: piece.ndim - len(axes)])
        line = np.require(piece.reshape(count, plan.n), elements.format.dtype, ["C", "A"])
        return execute_rows(plan, line, unit)

    together = max(1, _PIECE // max(row_width(plan), 1))
    for totals in threads.in_order(work, row_pieces(rows, len(kept), together)):
        yield totals
        if progress is not None:
            progress(totals.size * plan.n)


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


def encoded(totals: npt.NDArray[np.float64], target: Format) -> npt.NDArray[Any]:
    """The codes of sums rounded once to nearest; every NaN is the one with all fraction bits set."""
    if target.name == "bfloat16":  # to which ml_dtypes rounds binary64 twice
        codes = encode_array(totals, target)
    else:
        with np.errstate(all="ignore"):
            codes = totals.astype(target.dtype).view(target.code_dtype)
    return np.where(np.isnan(totals), np.array(target.nan_code, codes.dtype), codes)
