"""Sums along axes of arrays in a GPU's memory: one launch, every row with the bits of its own sum.

The reduced axes must be the last ones and lie without gaps; an array that is
laid out otherwise is first copied in that order, which costs another pass over memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcu.collectives.device import check_unit, home_of
from tcu.collectives.request import Request
from tcu.collectives.results import result_format
from tcu.errors import ParameterError
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import collapse
from tcu.gpu.rows import RowsLaunch
from tcu.gpu.sums import check_address
from tcu.model.elements import summable
from tcu.plan import DEFAULT_VARIANT, Plan, make_plan
from tcu.units import DEFAULT_UNIT, get_unit

__all__ = ["reduce"]

_ALIGNMENT = 16
_launches: dict[Any, tuple[RowsLaunch | None, Plan]] = {}
_MOST = 4096


def reduce(
    request: Request, x: Any, axes: tuple[int, ...], keepdims: bool, out: Any = None
) -> tuple[Any, Plan]:
    """(the sums or means, the plan of one row); ``axes`` are sorted and not negative.

    Raises what :func:`tcu.sum` raises.
    """
    if request.variant != DEFAULT_VARIANT:
        raise ParameterError(
            f"variant={request.variant!r} with axis on a GPU: leave variant out, sum row by row, or pass a host array"
        )
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        view = library.view("x", x, stream)
        element = summable(view.dtype, "x", "sum")
        kept = tuple(axis for axis in range(len(view.shape)) if axis not in axes)
        place = None if out is None else library.view("out", out, stream)
        target = result_format(
            element, place.dtype if request.dtype is None and place is not None else request.dtype
        )
        shape = tuple(
            (1 if axis in axes else extent)
            for axis, extent in enumerate(view.shape)
            if keepdims or axis not in axes
        )
        laid = _laid_out(view, kept, axes)
        if laid is None:
            view = library.view("x", library.ordered(x, kept + axes), stream)
            order = tuple(range(len(kept))), tuple(range(len(kept), len(view.shape)))
            laid = _laid_out(view, *order)
            assert laid is not None
        rows, length, stride = laid
        size = element.dtype.itemsize
        check_address(view.address, size)
        aligned = view.address % _ALIGNMENT == 0 and (rows <= 1 or stride * size % _ALIGNMENT == 0)
        key = (request, target.name, element.name, rows, length, stride, aligned, ordinal)
        found = _launches.get(key)
        if found is None:
            gpu = find_gpu(ordinal)
            own = gpu.units[0] if gpu.units else get_unit(DEFAULT_UNIT)
            plan = make_plan(length, element, own, chain=request.chain, block=request.block,
                             accumulator=request.accumulator, fraction=request.fraction)  # fmt: skip
            if request.unit is not None:
                check_unit(plan, get_unit(request.unit), own, gpu)
            divisor = length if request.operation == "mean" else 1
            launch = RowsLaunch(plan, rows, stride, aligned, target, gpu, divisor) if rows else None
            if len(_launches) >= _MOST:
                _launches.clear()
            found = _launches[key] = launch, plan
        launch, plan = found
        if place is None:
            result, address = library.empty(x, shape, target.dtype, ordinal)
        else:
            result, address = out, _checked(place, shape, target.dtype)
        if launch is not None:
            launch(view.address, address, stream)
        return (result if place is not None else library.finish(result, x, stream)), plan


def _laid_out(view: DeviceArray, kept: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(rows, length of a row, distance of rows in elements), if the rows lie in even steps and without gaps."""
    if math.prod(view.shape) == 0:  # whose strides say nothing
        rows, length = (math.prod(view.shape[axis] for axis in part) for part in (kept, axes))
        return rows, length, length

    def run(dimensions: tuple[int, ...]) -> tuple[int, int] | None:
        shape = tuple(view.shape[axis] for axis in dimensions)
        count = math.prod(shape)
        if count <= 1:
            return count, 0
        extents, (strides,) = collapse(shape, [tuple(view.strides[axis] for axis in dimensions)])
        return (count, strides[0]) if len(extents) == 1 else None

    across, along = run(kept), run(axes)
    if across is None or along is None or (along[0] > 1 and along[1] != 1) or across[1] < 0:
        return None
    return across[0], along[0], across[1]


def _checked(out: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    contiguous, step = [], 1
    for extent in reversed(shape):
        contiguous.append(step)
        step *= extent
    steps = [own for own, extent in zip(out.strides, out.shape, strict=True) if extent > 1]
    wanted = [own for own, extent in zip(reversed(contiguous), shape, strict=True) if extent > 1]
    if out.shape != shape or out.dtype != dtype or steps != wanted:
        raise ParameterError(
            f"out has shape {out.shape} and dtype {out.dtype}: give a contiguous array of shape {shape} and dtype {dtype}"
        )
    return out.address
