"""Running sums of arrays in a GPU's memory: of rows, of a line, of its ragged segments.

Rows that lie without gaps, in even steps, go through one launch, and so do columns, whose numbers lie side by side.
An array that is laid out otherwise is first copied in the order of rows, and so is a result that goes elsewhere, which
costs another pass over memory each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcu.engines.cuda.offsets import device_offsets
from tcu.engines.cuda.rows import ALIGNMENT, RowsAt, laid_out, rows_along, side_by_side
from tcu.engines.cuda.sums import Keep, check_same_mma, home_of, start
from tcu.errors import ParameterError
from tcu.formats.format import Format, format_of
from tcu.gpu.arrays import DeviceArray, Library, joined
from tcu.gpu.column_scan import column_scan_recipe, suits
from tcu.gpu.columns import Columns
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.mma_scans import mma_scan_recipe, mma_segment_scan_recipe
from tcu.gpu.scans import scan_recipe
from tcu.gpu.segment_scans import segment_scan_recipe
from tcu.gpu.sums import check_address
from tcu.model.elements import summable
from tcu.ops.info import ScanInfo, scan_info
from tcu.ops.layout import line_shape
from tcu.ops.request import ScanRequest
from tcu.ops.result import check_apart, map_dtype, result_format
from tcu.plan import DEFAULT_SCAN, MmaScanPlan, ScanPlan
from tcu.units import get_unit

__all__ = ["Lines", "Place", "PlainLines", "cumsum", "lines_of", "plain_lines", "segment_cumsum"]

Place = tuple[int, int]
"""(address of the first row, distance of rows in elements)"""


def cumsum(
    x: Any, axis: int | None, request: ScanRequest, out: Any, keep: Keep | None = None
) -> tuple[Any, ScanInfo]:
    """(the running sums, how they came about); ``axis`` is not negative.  Raises what :func:`tcu.cumsum` raises."""
    exclusive, reverse = request.exclusive, request.reverse
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, axis, request.dtype, out)
        element, target = lines.element, lines.target
        info = _info_of(request, lines.view.shape, axis, element, ordinal)
        plan = info.plan
        if isinstance(plan, MmaScanPlan):
            triangles = plan

            def by_mmas(source: Place, goal: Place) -> Launch:
                return _mma_launch(
                    triangles, info.rows, source[1], goal[1], target, ordinal, exclusive, reverse
                )

            return lines.run(by_mmas, None, keep), info
        columns = lines.columns()
        if columns is not None:
            aligned = all(each.address % ALIGNMENT == 0 for each in (lines.view, lines.place))
            down = _column_launch(plan, *columns, aligned, target, ordinal, exclusive, reverse)
            if down is not None:
                return lines.start(down, keep), info

        def launch(source: Place, goal: Place) -> Launch:
            aligned = (at % ALIGNMENT == 0 for at, _ in (source, goal))
            return _launch(plan, info.rows, source[1], goal[1], *aligned, target, ordinal, exclusive, reverse)

        return lines.run(launch, None, keep), info


def segment_cumsum(
    x: Any, offsets: Any, request: ScanRequest, out: Any, check: bool, keep: Keep | None = None
) -> Any:
    """The running sums within segments of one line.  Raises what :func:`tcu.segment_cumsum` raises."""
    exclusive, reverse = request.exclusive, request.reverse
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, 0, request.dtype, out)
        n = lines.view.shape[0]
        edges = device_offsets(library, x, offsets, n, ordinal, lines.stream, check)
        segments = edges.shape[0] - 1
        if segments == 1:  # a line, which has a whole GPU
            return cumsum(x, 0, request, out, keep)[0]
        plan = _info_of(request, (n,), None, lines.element, ordinal).plan
        if isinstance(plan, MmaScanPlan):
            chosen = _mma_segment_launch(plan, lines.target, n, segments, ordinal, exclusive, reverse)
        else:
            chosen = _segment_launch(lines.element, lines.target, n, segments, ordinal, exclusive, reverse)
        return lines.run(lambda source, goal: chosen, edges.address, keep)


def _info_of(
    request: ScanRequest, shape: tuple[int, ...], axis: int | None, element: Format, ordinal: int
) -> ScanInfo:
    """How a scan comes about on that GPU; raises ParameterError for a unit whose bits it does not give."""
    if request.variant == DEFAULT_SCAN:
        return scan_info(shape, axis, element, **request.way)
    gpu = find_gpu(ordinal)
    asked = gpu.unit if request.unit is None else get_unit(request.unit)
    info = scan_info(shape, axis, element, **{**request.way, "unit": asked})
    if isinstance(info.plan, MmaScanPlan):
        check_same_mma(info.plan.input, info.plan.accumulator, asked, gpu.unit, gpu)
    return info


@dataclass(frozen=True)
class Lines:
    """An array in a GPU's memory, along one or all of whose axes something runs, and where the results go."""

    library: Library
    ordinal: int
    stream: int
    x: Any
    view: DeviceArray
    element: Format
    target: Format
    axis: int | None
    out: Any
    """What the caller gave, or None."""
    place: DeviceArray
    result: Any
    """Of which ``place`` is the view."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    def run(
        self, launch: Callable[[Place, Place], Launch], other: int | None, keep: Keep | None, beside: int = 0
    ) -> Any:
        """Scan the rows where they lie, or a copy that has them one after another; the same with the results.

        ``launch`` gives what serves such rows; ``other``, ``beside``: the addresses of what goes with x, if something does.
        """
        library, view, shape = self.library, self.view, self.place.shape
        kept, axes = self._split(len(view.shape))
        outer, inner = self._split(len(shape))
        goal = laid_out(self.place, outer, inner)
        if math.prod(shape):
            order, back, written = None, None, self.result
            source = laid_out(view, kept, axes)
            if source is None or (self.out is not None and _clash(view, self.place)):
                order = kept + axes
                view = library.view("x", library.ordered(self.x, order), self.stream)
                last = tuple(range(len(kept), len(view.shape)))
                source = laid_out(view, tuple(range(len(kept))), last)
                assert source is not None
            address, stride = self.place.address, 0 if goal is None else goal[2]
            if goal is None:
                moved = tuple(shape[axis] for axis in outer + inner)
                written, address = library.empty(self.x, moved, self.target.dtype, self.ordinal)
                stride = source[1]
            chosen = launch((view.address, source[2]), (address, stride))
            start(
                chosen, library, self.x, self.ordinal, view.address, view.address if other is None else other, address,
                self.stream, beside,
            )  # fmt: skip
            if goal is None:
                back = tuple(int(axis) for axis in np.argsort(outer + inner))
                library.assign(self.result, written, back)
            if keep is not None:
                keep(chosen, written, order, back)
        return self.result if self.out is not None else library.finish(self.result, self.x, self.stream)

    def columns(self) -> tuple[Columns, Columns] | None:
        """Numbers and results, if both lie so that a launch scans them where they are, down an axis that is not the last."""
        kept, axes = self._split(len(self.view.shape))
        if self.axis is None or laid_out(self.view, kept, axes) is not None or _clash(self.view, self.place):
            return None
        given, results = (side_by_side(each, kept, axes) for each in (self.view, self.place))
        if (
            given is None
            or results is None
            or not suits(given, results, self.view.shape[self.axis], self.element.dtype.itemsize)
        ):
            return None
        return given, results

    def start(self, chosen: Launch, keep: Keep | None) -> Any:
        """The results of a launch on the numbers where they lie."""
        at = self.view.address
        start(chosen, self.library, self.x, self.ordinal, at, at, self.place.address, self.stream)
        if keep is not None:
            keep(chosen, self.result)
        return self.result if self.out is not None else self.library.finish(self.result, self.x, self.stream)

    def _split(self, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(the axes that count rows, those of a row)"""
        axes = tuple(range(ndim)) if self.axis is None else (self.axis,)
        return tuple(axis for axis in range(ndim) if axis not in axes), axes


class PlainLines(NamedTuple):
    """The same of a tensor without gaps, along its last axis, with new results, as most are.

    Lines would take several times as long as the rest of such a call.
    """

    library: Library
    ordinal: int
    stream: int
    x: Any
    at: RowsAt
    target: Format

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def element(self) -> Format:
        return self.at.element

    def run(
        self, launch: Callable[[Place, Place], Launch], other: int | None, keep: Keep | None, beside: int = 0
    ) -> Any:
        """As :meth:`Lines.run`; nothing is kept."""
        result, place = self.library.empty(self.x, self.shape, self.target.dtype, self.ordinal)
        address, rows = self.at.address, self.at.rows
        chosen = launch((address, rows.stride), (place, rows.length))
        chosen.start(address, address if other is None else other, place, self.stream, beside)
        return result


def plain_lines(library: Library, ordinal: int, x: Any, dtype: Any) -> PlainLines:
    """Of a tensor with numbers; ``dtype``: NumPy's, of the results."""
    stream = library.current_stream(ordinal)
    at = rows_along(library, x, x.dim() - 1, stream)
    return PlainLines(library, ordinal, stream, x, at, format_of(dtype))


def lines_of(
    library: Library, ordinal: int, x: Any, axis: int | None, dtype: Any, out: Any, is_map: bool = False
) -> Lines:  # fmt: skip
    """``is_map``: results have the dtype of x, where nobody says another."""
    stream = library.current_stream(ordinal)
    view = library.view("x", x, stream)
    element = summable(view.dtype, "x", "sum")
    check_address(view.address, element.dtype.itemsize)
    shape = line_shape(view.shape, axis)
    if out is None:
        target = result_format(element, map_dtype(dtype, element.dtype, None) if is_map else dtype)
        result, address = library.empty(x, shape, target.dtype, ordinal)
        steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        place = DeviceArray(address, shape, steps, target.dtype, ordinal, result)
        return Lines(library, ordinal, stream, x, view, element, target, axis, None, place, result)
    place = library.view("out", out, stream)
    target = result_format(element, dtype, place.dtype)
    if place.shape != shape or place.dtype != target.dtype:
        raise ParameterError(
            f"out has shape {place.shape} and dtype {place.dtype}: give an array of shape {shape} "
            f"and dtype {target.dtype}"
        )
    check_apart(place)
    return Lines(library, ordinal, stream, x, view, element, target, axis, out, place, out)


def _clash(x: DeviceArray, out: DeviceArray) -> bool:
    """Whether results would lie where other elements than their own are still to be read."""
    (x_first, x_last), (first, last) = _span(x), _span(out)
    if x_last <= first or last <= x_first:
        return False
    return (
        x.dtype != out.dtype
        or x.address != out.address
        or joined(x.shape, [x.strides]) != joined(out.shape, [out.strides])
    )


def _span(array: DeviceArray) -> tuple[int, int]:
    """The addresses between which an array lies, that is not empty."""
    reach = [(extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)]
    size = array.dtype.itemsize
    low, high = sum(min(each, 0) for each in reach), sum(max(each, 0) for each in reach)
    return array.address + low * size, array.address + (high + 1) * size


@lru_cache(maxsize=4096)
def _launch(
    plan: ScanPlan, rows: int, stride_in: int, stride_out: int, aligned_in: bool, aligned_out: bool,
    target: Format, ordinal: int, exclusive: bool, reverse: bool,
) -> Launch:  # fmt: skip
    """What rows like these need besides addresses."""
    gpu = find_gpu(ordinal)
    recipe = scan_recipe(
        plan, rows, stride_in, stride_out, aligned_in, aligned_out, target, gpu, exclusive=exclusive, reverse=reverse
    )  # fmt: skip
    return Launch(recipe, gpu)


@lru_cache(maxsize=4096)
def _column_launch(
    plan: ScanPlan, columns: Columns, results: Columns, aligned: bool, target: Format, ordinal: int, exclusive: bool,
    reverse: bool,
) -> Launch | None:  # fmt: skip
    """What columns like these need besides addresses; None for too many of them."""
    gpu = find_gpu(ordinal)
    recipe = column_scan_recipe(
        plan, columns, results, aligned, target, gpu, exclusive=exclusive, reverse=reverse
    )
    return None if recipe is None else Launch(recipe, gpu)


@lru_cache(maxsize=4096)
def _mma_launch(
    plan: MmaScanPlan, rows: int, stride_in: int, stride_out: int, target: Format, ordinal: int, exclusive: bool,
    reverse: bool,
) -> Launch:  # fmt: skip
    """What rows like these need besides addresses, by MMAs."""
    gpu = find_gpu(ordinal)
    given = plan, rows, stride_in, stride_out, target, gpu
    return Launch(mma_scan_recipe(*given, exclusive=exclusive, reverse=reverse), gpu)


@lru_cache(maxsize=1024)
def _mma_segment_launch(
    plan: MmaScanPlan, target: Format, n: int, segments: int, ordinal: int, exclusive: bool, reverse: bool
) -> Launch:
    gpu = find_gpu(ordinal)
    recipe = mma_segment_scan_recipe(plan, n, segments, target, gpu, exclusive=exclusive, reverse=reverse)
    return Launch(recipe, gpu)


@lru_cache(maxsize=1024)
def _segment_launch(
    element: Format, target: Format, n: int, segments: int, ordinal: int, exclusive: bool, reverse: bool
) -> Launch:
    gpu = find_gpu(ordinal)
    recipe = segment_scan_recipe(n, segments, element, target, gpu, exclusive=exclusive, reverse=reverse)
    return Launch(recipe, gpu)
