"""Sums along axes of arrays in a GPU's memory: every row with the bits of its own sum.

The reduced axes lie without gaps and are the last ones, or numbers that are
summed apart lie side by side (columns).  An array that is laid out otherwise is
first copied in the order of the former, which costs another pass over memory; so
are columns of other variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcu.engines.cuda.sums import Keep, Order, check_unit, home_of, start
from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.arrays import DeviceArray, joined
from tcu.gpu.columns import MOST_COLUMNS, Columns, columns_recipe
from tcu.gpu.device import Gpu, current, find_gpu
from tcu.gpu.exact_columns import exact_columns_recipe, planned_columns_recipe
from tcu.gpu.exact_rows import exact_rows_recipe, planned_rows_recipe
from tcu.gpu.exponentials import exponentials_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.moments import moments_recipe
from tcu.gpu.rows import rows_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.gpu.segmented import segmented_recipe
from tcu.gpu.sums import Layout, check_address, contiguous, exact_recipe
from tcu.model.elements import summable
from tcu.model.pairs import check_alike
from tcu.ops.layout import reduced_shape
from tcu.ops.request import Request
from tcu.ops.result import result_format
from tcu.plan import OWN_VARIANTS, SEGMENTED, Plan, make_dot_plan, make_plan
from tcu.units import get_unit

__all__ = [
    "ALIGNMENT",
    "checked_address",
    "laid_out",
    "reduce",
    "rows_along",
    "rows_last",
    "rows_of_both",
    "side_by_side",
]

ALIGNMENT = 16


def reduce(
    request: Request, arrays: Sequence[Any], axes: tuple[int, ...], keepdims: bool, out: Any = None,
    keep: Keep | None = None,
) -> tuple[Any, Plan | None]:  # fmt: skip
    """(the sums or means, the plan of one row, None of exact ones); ``axes`` are sorted and not negative.

    Raises what :func:`tcu.sum` raises.
    """
    if request.variant not in (*OWN_VARIANTS, *SEGMENTED):
        raise ParameterError(
            f"variant={request.variant!r} with axis on a GPU: leave variant out, sum row by row, or pass a host array"
        )
    x, y = arrays[0], arrays[-1]
    library, ordinal = home_of(arrays, out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        view = library.view("x", x, stream)
        element = summable(view.dtype, "x", "sum")
        other = view if y is x else library.view("y", y, stream)
        if other is not view:
            check_alike((view.shape, other.shape), (view.dtype, other.dtype), "with reshape", "with astype")
        kept = tuple(axis for axis in range(len(view.shape)) if axis not in axes)
        place = None if out is None else library.view("out", out, stream)
        target = result_format(element, request.dtype, None if place is None else place.dtype)
        shape = reduced_shape(view.shape, axes, keepdims)
        laid, columns = laid_out(view, kept, axes), None
        if laid is not None and other is not view and laid_out(other, kept, axes) != laid:
            laid = None
        if laid is None and request.operation.adds_up and request.chain in (None, 1):
            columns = side_by_side(view, kept, axes) if request.variant in OWN_VARIANTS else None
        order: Order = None
        if laid is None and columns is None:
            order = kept + axes
            copies = [library.ordered(each, order) for each in ((x,) if y is x else (x, y))]
            view, other = (library.view("x", each, stream) for each in (copies[0], copies[-1]))
            laid = laid_out(view, tuple(range(len(kept))), tuple(range(len(kept), len(order))))
        size = element.dtype.itemsize
        for each in (view, other):
            check_address(each.address, size)
        launch: Launch | None
        plan: Plan | None
        if columns is not None:
            aligned = view.address % ALIGNMENT == 0
            length = math.prod(view.shape[axis] for axis in axes)
            launch, plan = _launch_columns(request, target, element, columns, length, aligned, ordinal)
        else:
            assert laid is not None
            rows, length, stride = laid
            aligned = (view.address | other.address) % ALIGNMENT == 0
            launch, plan = _launch(request, target, element, rows, length, stride, aligned, ordinal)
        if place is None:
            result, address = library.empty(x, shape, target.dtype, ordinal)
        else:
            result, address = out, checked_address(place, shape, target.dtype)
        if launch is not None:
            start(launch, library, x, ordinal, view.address, other.address, address, stream)
            if keep is not None and (order is None or y is x):
                keep(launch, result, order)
        return (result if place is not None else library.finish(result, x, stream)), plan


@lru_cache(maxsize=4096)
def _launch(
    request: Request, target: Format, element: Format, rows: int, length: int, stride: int, aligned: bool,
    ordinal: int,
) -> tuple[Launch | None, Plan | None]:  # fmt: skip
    """What rows like these need besides addresses, nothing where there are none; and the plan of one."""
    gpu = find_gpu(ordinal)
    each_aligned = aligned and (rows <= 1 or stride * element.dtype.itemsize % ALIGNMENT == 0)
    layout: Layout = "ALIGNED" if each_aligned else "SHIFTED"
    mean = request.operation.mean
    divisor = length if mean else 1
    if request.operation.exact:
        if not rows:
            return None, None
        if rows == 1:
            return Launch(exact_recipe(length, element, layout, target, gpu, divisor=divisor), gpu), None
        recipe = exact_rows_recipe(rows, length, stride, aligned, element, target, gpu, mean=mean)
        return Launch(recipe, gpu), None
    if not request.operation.in_parts:
        lines = Rows(rows, length, stride, aligned)
        return Launch(
            exponentials_recipe(request.operation.finish, lines, 1, element, target, gpu), gpu
        ) if rows else None, None
    by_products = request.operation.term != "value"
    plan = (
        make_dot_plan(length, element, request.block) if by_products else _plan(request, length, element, gpu)
    )
    if not rows:
        return None, plan
    if by_products:
        recipe = moments_recipe(
            plan, rows, target, gpu, correction=request.correction, root=request.operation.root, stride=stride,
            aligned=each_aligned, term=request.operation.term,
        )  # fmt: skip
    elif plan.variant in SEGMENTED:
        span = (rows - 1) * stride + length
        recipe = segmented_recipe(plan, contiguous(0, span), layout, rows, stride, target, gpu, divisor)
    else:
        recipe = planned_rows_recipe(plan, rows, stride, aligned, target, gpu, mean=mean) or rows_recipe(
            plan, rows, stride, each_aligned, target, gpu, divisor
        )
    return Launch(recipe, gpu), plan


@lru_cache(maxsize=4096)
def _launch_columns(
    request: Request, target: Format, element: Format, columns: Columns, length: int, aligned: bool, ordinal: int
) -> tuple[Launch, Plan | None]:  # fmt: skip
    gpu = find_gpu(ordinal)
    if request.operation.exact:
        mean = request.operation.mean
        return Launch(
            exact_columns_recipe(columns, length, aligned, element, target, gpu, mean=mean), gpu
        ), None
    plan = _plan(request, length, element, gpu)
    divisor = length if request.operation.mean else 1
    recipe = planned_columns_recipe(plan, columns, aligned, target, gpu, mean=request.operation.mean)
    return Launch(recipe or columns_recipe(plan, columns, aligned, target, gpu, divisor), gpu), plan


def _plan(request: Request, length: int, element: Format, gpu: Gpu) -> Plan:
    plan = make_plan(
        length, element, gpu.unit, variant=request.variant, chain=request.chain, block=request.block,
        accumulator=request.accumulator, fraction=request.fraction,
    )  # fmt: skip
    if request.unit is not None:
        check_unit(plan, get_unit(request.unit), gpu.unit, gpu)
    return plan


def laid_out(view: DeviceArray, kept: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(rows, length of a row, distance of rows in elements), if the rows lie in even steps and without gaps."""
    if math.prod(view.shape) == 0:  # whose strides say nothing
        rows, length = (math.prod(view.shape[axis] for axis in part) for part in (kept, axes))
        return rows, length, length
    across, along = (
        _run([view.shape[axis] for axis in part], [view.strides[axis] for axis in part])
        for part in (kept, axes)
    )
    if across is None or along is None or (along[0] > 1 and along[1] != 1) or across[1] < 0:
        return None
    return across[0], along[0], across[1]


class RowsAt(NamedTuple):
    """Rows that a kernel reads one after another, as they lie in a GPU's memory or in a copy."""

    address: int
    rows: Rows
    element: Format
    owner: Any
    """Held until the launch is on the stream: the allocator gives a copy's memory to whoever asks next."""


def rows_along(library: Any, x: Any, axis: int, stream: int) -> RowsAt:
    """The rows of a tensor along an axis that is not negative."""
    plain = library.plain(x) if axis == x.dim() - 1 and x.numel() else None
    if plain is not None:  # most are, and to look at strides takes longer than to start a launch
        address, count, dtype = plain
        length = x.shape[axis]
        laid: tuple[int, int, int] | None = (count // length, length, length)
        owner = x
    else:
        lines = x.detach().movedim(axis, -1)
        view = library.view("x", lines, stream)
        kept = tuple(range(len(view.shape) - 1))
        laid = laid_out(view, kept, (len(kept),))
        if laid is None:
            view = library.view("x", lines.contiguous(), stream)
            laid = laid_out(view, kept, (len(kept),))
        address, dtype, owner = view.address, view.dtype, view
    assert laid is not None
    rows = Rows(*laid, address % ALIGNMENT == 0)
    return RowsAt(address, rows, summable(dtype, "x", "sum"), owner)


def rows_last(x: Any, axis: int) -> tuple[int, ...]:
    """The shape of results that lie row after row."""
    return (*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis])


class RowsOfBoth(NamedTuple):
    """Rows of a tensor, those of another one if there is one, and as many results, which lie one after another."""

    own: RowsAt
    theirs: RowsAt | None
    result: Any
    place: int
    axis: int
    stream: int

    @property
    def beside(self) -> tuple[Rows, Format] | None:
        """How the other's rows lie, and of what they are."""
        return None if self.theirs is None else (self.theirs.rows, self.theirs.element)

    def run(self, launch: Launch, beside: int = 0) -> Any:
        """The results; ``beside``: the address of what goes with the rows, if something does."""
        other = 0 if self.theirs is None else self.theirs.address
        launch.start(self.own.address, other, self.place, self.stream, beside)
        return self.result.movedim(-1, self.axis)


def rows_of_both(
    library: Any, ordinal: int, x: Any, other: Any, axis: int, dtype: np.dtype[Any]
) -> RowsOfBoth:
    """The rows of two tensors of one shape along an axis that is not negative; ``dtype``: of the results.

    other: None where there is none.
    """
    stream = library.current_stream(ordinal)
    own = rows_along(library, x, axis, stream)
    theirs = None if other is None else rows_along(library, other, axis, stream)
    result, place = library.empty(x, rows_last(x, axis), dtype, ordinal)
    return RowsOfBoth(own, theirs, result, place, axis, stream)


def side_by_side(view: DeviceArray, kept: tuple[int, ...], axes: tuple[int, ...]) -> Columns | None:
    """The array as columns, if neighbours in memory belong to different sums and all lies in even steps."""

    def run(part: tuple[int, ...]) -> tuple[int, int] | None:
        return _run([view.shape[axis] for axis in part], [view.strides[axis] for axis in part])

    along = run(axes)
    for cut in range(len(kept)):
        outer, inner = run(kept[:cut]), run(kept[cut:])
        if along is None or outer is None or inner is None or inner[0] == 1 or inner[1] != 1:
            continue
        return Columns(outer[0], inner[0], outer[1], along[1]) if outer[0] * inner[0] < MOST_COLUMNS else None
    return None


def _run(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """(count, distance) of elements that lie in even steps; None where they do not."""
    count = math.prod(shape)
    if count <= 1:
        return count, 0
    extents, (steps,) = joined(tuple(shape), [tuple(strides)])
    return (count, steps[0]) if len(extents) == 1 else None


def checked_address(out: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Where ``out`` takes a result; raises ParameterError if it does not."""
    count = math.prod(shape)
    gapless = count <= 1 or _run(out.shape, out.strides) == (count, 1)
    if out.shape != shape or out.dtype != dtype or not gapless:
        raise ParameterError(
            f"out has shape {out.shape} and dtype {out.dtype}: give a contiguous array of shape {shape} and dtype {dtype}"
        )
    return out.address
