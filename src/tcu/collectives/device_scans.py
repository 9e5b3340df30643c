"""Running sums of arrays in a GPU's memory: of rows, of a line, of its ragged segments.

Rows that lie without gaps, in even steps, go through one launch; an array
that is laid out otherwise is first copied in that order, and so is a result
that goes elsewhere, which costs another pass over memory each.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.collectives.device import home_of
from tcu.collectives.device_rows import ALIGNMENT, laid_out
from tcu.collectives.results import result_format
from tcu.collectives.scans import ScanInfo, line_shape, scan_info
from tcu.collectives.segments import check_offsets_form, checked_offsets
from tcu.errors import ParameterError
from tcu.formats.format import Format
from tcu.gpu.arrays import DeviceArray, Library, library_of
from tcu.gpu.device import call, current, find_gpu, read
from tcu.gpu.scans import ScanLaunch, SegmentScanLaunch
from tcu.gpu.sums import check_address
from tcu.model.elements import summable
from tcu.plan import make_scan_plan

__all__ = ["cumsum", "segment_cumsum"]

Kept, Axes = tuple[int, ...], tuple[int, ...]


def cumsum(
    x: Any, axis: int | None, exclusive: bool, reverse: bool, dtype: Any, out: Any
) -> tuple[Any, ScanInfo]:
    """(the running sums, how they came about); ``axis`` is not negative.  Raises what :func:`tcu.cumsum` raises."""
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        view = library.view("x", x, stream)
        ndim = len(view.shape)
        axes = tuple(range(ndim)) if axis is None else (axis,)
        kept = tuple(each for each in range(ndim) if each not in axes)
        shape = line_shape(view.shape, axis)
        element, target, place = _formats(library, view, dtype, out, shape, stream)
        info = scan_info(view.shape, axis, element)
        n, rows = info.plan.n, info.rows

        def launch(source: tuple[int, int], result: tuple[int, int]) -> None:
            """From and to (address, distance of rows)."""
            (x_address, x_stride), (address, stride) = source, result
            aligned = [
                at % ALIGNMENT == 0 and (rows <= 1 or step * fmt.dtype.itemsize % ALIGNMENT == 0)
                for at, step, fmt in ((x_address, x_stride, element), (address, stride, target))
            ]
            scan = _launch(element, target, rows, n, x_stride, stride, *aligned, exclusive, reverse, ordinal)
            scan(x_address, address, stream)

        order = kept + axes
        return _run(library, x, view, kept, axes, order, shape, target, out, place, launch, ordinal, stream), info


def segment_cumsum(
    x: Any, offsets: Any, exclusive: bool, reverse: bool, dtype: Any, out: Any, check: bool
) -> Any:
    """The running sums within segments of one line.  Raises what :func:`tcu.segment_cumsum` raises."""
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        stream = library.current_stream(ordinal)
        view = library.view("x", x, stream)
        element, target, place = _formats(library, view, dtype, out, view.shape, stream)
        edges = device_offsets(library, x, offsets, view.shape[0], ordinal, stream, check)

        def launch(source: tuple[int, int], result: tuple[int, int]) -> None:
            scan = _segment_launch(element, target, exclusive, reverse, ordinal)
            scan(source[0], edges.address, edges.shape[0] - 1, result[0], stream)

        return _run(
            library, x, view, (), (0,), (0,), view.shape, target, out, place, launch, ordinal, stream
        )


def device_offsets(
    library: Library, like: Any, offsets: Any, n: int, ordinal: int, stream: int, check: bool
) -> DeviceArray:
    """The offsets of segments of n elements as contiguous int64 on the GPU of ``like``.

    Offsets in the host's memory are checked and copied there; those on the
    GPU are checked if ``check``, for which this waits for them.
    """
    home = library_of(offsets) if not _on_host(offsets) else None
    if home is None:
        line = checked_offsets(offsets, n)
        _refuse_capture(stream, "are in the host's memory: copy them to the GPU before, and pass check=False")
        place, address = library.empty(like, line.shape, line.dtype, ordinal)
        call("cuMemcpyHtoDAsync", address, line.ctypes.data, line.nbytes, stream)  # staged when this returns
        return DeviceArray(address, line.shape, (1,), line.dtype, ordinal, place)
    if home is not library:
        raise ParameterError(f"x is of {library.name}, offsets of {home.name}: pass arrays of one library")
    if home.ordinal("offsets", offsets) != ordinal:
        raise ParameterError(
            f"x is on GPU {ordinal}, offsets on GPU {home.ordinal('offsets', offsets)}: move both to one GPU"
        )
    view = library.view("offsets", offsets, stream)
    check_offsets_form(view.dtype.name, view.shape)
    if view.dtype != np.int64 or (view.shape[0] > 1 and view.strides != (1,)):
        view = library.view("offsets", library.whole_numbers(offsets), stream)
    if check:
        _refuse_capture(stream, "cannot be looked at: check them before, and pass check=False")
        call("cuStreamSynchronize", stream)
        checked_offsets(np.frombuffer(read(view.address, 8 * view.shape[0]), np.int64), n)
    return view


def _on_host(offsets: Any) -> bool:
    device = getattr(offsets, "device", None)  # of a PyTorch tensor
    return getattr(device, "type", None) == "cpu"


def _refuse_capture(stream: int, why: str) -> None:
    if int(call("cuStreamIsCapturing", stream)):
        raise ParameterError(f"while a graph is captured, offsets {why}")


def _formats(
    library: Library, x: DeviceArray, dtype: Any, out: Any, shape: tuple[int, ...], stream: int
) -> tuple[Format, Format, DeviceArray | None]:
    """The formats of elements and results, and ``out`` if there is one, which must take them."""
    element = summable(x.dtype, "x", "sum")
    check_address(x.address, element.dtype.itemsize)
    if out is None:
        return element, result_format(element, dtype), None
    place = library.view("out", out, stream)
    target = result_format(element, dtype, place.dtype)
    shared = any(step == 0 and extent > 1 for step, extent in zip(place.strides, place.shape, strict=True))
    if place.shape != shape or place.dtype != target.dtype or shared:
        raise ParameterError(
            f"out has shape {place.shape} and dtype {place.dtype}{', and elements in one place' if shared else ''}: "
            f"give an array of shape {shape} and dtype {target.dtype}"
        )
    return element, target, place


def _run(
    library: Library, x: Any, view: DeviceArray, kept: Kept, axes: Axes, order: tuple[int, ...],
    shape: tuple[int, ...], target: Format, out: Any, place: DeviceArray | None,
    launch: Callable[[tuple[int, int], tuple[int, int]], None], ordinal: int, stream: int,
) -> Any:  # fmt: skip
    """Scan the rows where they lie, or a copy that has them in order; and put the results in place."""
    moved = tuple(view.shape[axis] for axis in order)
    n = math.prod(view.shape[axis] for axis in axes)
    straight = order == tuple(range(len(order)))
    to = None
    if straight and place is not None:
        split = (kept, axes) if len(place.shape) == len(view.shape) else ((), (0,))
        found = laid_out(place, *split)
        to = None if found is None else (place.address, found[2])
    result, address = None, 0
    if to is None:
        result, address = library.empty(x, moved if not straight else shape, target.dtype, ordinal)
        to = (address, n)
    if math.prod(shape):
        laid = laid_out(view, kept, axes)
        if laid is None or (place is not None and result is None and _clash(view, place)):
            view = library.view("x", library.ordered(x, order), stream)
            laid = math.prod(shape) // n, n, n
        launch((view.address, laid[2]), to)
    if result is None:
        return out
    if straight and out is None:
        return library.finish(result, x, stream)
    back = tuple(int(axis) for axis in np.argsort(order)) if not straight else tuple(range(len(shape)))
    if out is None:
        out = library.empty(x, shape, target.dtype, ordinal)[0]
    library.assign(out, result, back)
    return out


def _clash(x: DeviceArray, out: DeviceArray) -> bool:
    """Whether results would lie where other elements than their own are still to be read."""
    (x_first, x_last), (first, last) = _span(x), _span(out)
    if x_last <= first or last <= x_first:
        return False
    return x.dtype != out.dtype or x.address != out.address or _steps(x) != _steps(out)


def _span(array: DeviceArray) -> tuple[int, int]:
    """The addresses between which an array lies, that is not empty."""
    reach = [(extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)]
    size = array.dtype.itemsize
    low, high = sum(min(each, 0) for each in reach), sum(max(each, 0) for each in reach)
    return array.address + low * size, array.address + (high + 1) * size


def _steps(array: DeviceArray) -> list[tuple[int, int]]:
    """Its dimensions as memory knows them: neighbours that are one line are one."""
    steps: list[tuple[int, int]] = []
    for extent, step in zip(array.shape, array.strides, strict=True):
        if extent == 1:
            continue
        if steps and steps[-1][1] == extent * step:
            steps[-1] = steps[-1][0] * extent, step
        else:
            steps.append((extent, step))
    return steps


@lru_cache(maxsize=4096)
def _launch(
    element: Format, target: Format, rows: int, n: int, stride_in: int, stride_out: int,
    aligned_in: bool, aligned_out: bool, exclusive: bool, reverse: bool, ordinal: int,
) -> ScanLaunch:  # fmt: skip
    """What rows like these need besides addresses."""
    plan = make_scan_plan(n, element)
    return ScanLaunch(
        plan, rows, stride_in, stride_out, aligned_in, aligned_out, target, find_gpu(ordinal),
        exclusive=exclusive, reverse=reverse,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _segment_launch(
    element: Format, target: Format, exclusive: bool, reverse: bool, ordinal: int
) -> SegmentScanLaunch:
    return SegmentScanLaunch(element, target, find_gpu(ordinal), exclusive=exclusive, reverse=reverse)
