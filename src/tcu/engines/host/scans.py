"""Running sums: of a whole array as one line, of rows along an axis, within ragged segments.

The law: the bits of a row or a segment depend on its own numbers and on its
length alone, and ``reverse`` is the scan of the numbers in reverse order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host import exact_scans
from tcu.engines.host.planned import encoded
from tcu.engines.host.rows import given_back, lines_of, place_of, row_pieces
from tcu.formats.format import Format, format_of
from tcu.model import scans, threads
from tcu.model.elements import Elements
from tcu.model.execute import Progress
from tcu.model.mma_scans import prefixes
from tcu.ops.info import ScanInfo, scan_info
from tcu.ops.layout import Ragged, check_line, line_shape, scan_axis
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call
from tcu.ops.request import ScanRequest
from tcu.ops.result import target_of
from tcu.plan import MmaScanPlan
from tcu.units import DEFAULT_UNIT, get_unit

__all__ = ["scan"]

_PIECE = 1 << 18
"""Numbers of short rows that one thread takes at a time."""
_TOGETHER = 1 << 20
"""Numbers of rows by MMAs that are scanned at once, by all threads."""


def scan(call: Call) -> tuple[Any, ScanInfo | None]:
    """(the running sums, how they came about: None of exact ones, which have no order)"""
    elements = Elements.of(call.arrays[0])
    array = elements.array
    exclusive, reverse = call.option("exclusive"), call.option("reverse")
    arithmetic: Any = exact_scans if call.operation.exact else scans
    request = None if call.operation.exact else ScanRequest(*call.options)
    if isinstance(call.layout, Ragged):
        check_line(array.shape)
        edges = checked_offsets(call.layout.offsets, elements.n)
        longest = int(np.diff(edges).max(initial=0))
        # Which looks at the options.
        plan = None if request is None else scan_info((longest,), None, elements.format, **request.way).plan
        target = target_of(elements.format, call.dtype, call.out, array.shape)
        result = place_of(array, array.shape, call.out, target)
        if request is not None and isinstance(plan, MmaScanPlan):
            _scan_segments_by_mmas(elements, edges, result, request)
        else:
            _scan_segments(arithmetic, elements, edges, result, exclusive, reverse)
        return given_back(result, call.out), None
    axis = scan_axis(call.layout, array.ndim)
    shape = line_shape(array.shape, axis)
    info = None if request is None else scan_info(array.shape, axis, elements.format, **request.way)
    target = target_of(elements.format, call.dtype, call.out, shape)
    result = place_of(array, shape, call.out, target)
    if request is not None and info is not None and isinstance(info.plan, MmaScanPlan):
        _scan_rows_by_mmas(elements, axis, info, request, result, call.progress)
    else:
        _scan_rows(arithmetic, elements, axis, result, exclusive, reverse, call.progress)
    return given_back(result, call.out), info


def _scan_rows(
    arithmetic: Any, elements: Elements, axis: int | None, result: npt.NDArray[Any],
    exclusive: bool, reverse: bool, progress: Progress | None,
) -> None:  # fmt: skip
    fmt, array = elements.format, elements.array
    if not array.size:
        return
    if axis is None:
        arithmetic.scan_line(elements.n, fmt, elements.read, result, exclusive, reverse, progress)
        return
    rows, places = np.moveaxis(array, axis, -1), np.moveaxis(result, axis, -1)
    n = array.shape[axis]
    if n > arithmetic.piece_length(fmt):
        for where in np.ndindex(rows.shape[:-1]):
            arithmetic.scan_line(
                n, fmt, Elements(rows[where]).read, places[where], exclusive, reverse, progress
            )
        return

    def work(piece: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> int:
        given, place = piece
        line = lines_of(given, fmt.dtype).reshape(-1)
        arithmetic.scan_segments(line, np.arange(0, line.size + 1, n), place, exclusive, reverse)
        return line.size

    together = max(1, _PIECE // n)
    outer = array.ndim - 1
    pairs = zip(row_pieces(rows, outer, together), row_pieces(places, outer, together), strict=True)
    for done in threads.in_order(work, pairs):
        if progress is not None:
            progress(done)


def _scan_segments(
    arithmetic: Any,
    elements: Elements,
    offsets: npt.NDArray[np.int64],
    result: npt.NDArray[Any],
    exclusive: bool,
    reverse: bool,
) -> None:
    fmt = elements.format

    def work(run: tuple[int, int]) -> None:
        edges = offsets[run[0] : run[1] + 1]
        start, stop = int(edges[0]), int(edges[-1])
        arithmetic.scan_segments(
            elements.read(start, stop), edges - start, result[start:stop], exclusive, reverse
        )

    long: list[int] = []
    threads.each(work, _runs(offsets, arithmetic.piece_length(fmt), long))
    for segment in long:  # by all cores
        start, stop = int(offsets[segment]), int(offsets[segment + 1])
        read = partial(_read_from, elements, start)
        arithmetic.scan_line(stop - start, fmt, read, result[start:stop], exclusive, reverse)


def _scan_rows_by_mmas(
    elements: Elements, axis: int | None, info: ScanInfo, request: ScanRequest, result: npt.NDArray[Any],
    progress: Progress | None,
) -> None:  # fmt: skip
    """The rows a piece at a time, each of them by all threads."""
    array, n = elements.array, info.plan.n
    if not array.size:
        return
    if axis is None:
        rows, places = elements.read(0, n)[None], result[None]
    else:
        rows, places = np.moveaxis(array, axis, -1), np.moveaxis(result, axis, -1)
    together, outer = max(1, _TOGETHER // n), rows.ndim - 1
    for given, place in zip(
        row_pieces(rows, outer, together), row_pieces(places, outer, together), strict=True
    ):
        line = lines_of(given, elements.format.dtype)
        place[...] = _prefixes(line, elements.format, request, place.dtype).reshape(place.shape)
        if progress is not None:
            progress(line.size)


def _scan_segments_by_mmas(
    elements: Elements, offsets: npt.NDArray[np.int64], result: npt.NDArray[Any], request: ScanRequest
) -> None:
    """Segments of one length as rows."""
    lengths = np.diff(offsets)
    x = elements.read(0, elements.n)
    for n in np.unique(lengths[lengths > 0]).tolist():
        starts = offsets[:-1][lengths == n]
        for at in range(0, starts.size, max(1, _TOGETHER // n)):
            where = starts[at : at + max(1, _TOGETHER // n), None] + np.arange(n)
            result[where] = _prefixes(x[where], elements.format, request, result.dtype)


def _prefixes(
    rows: npt.NDArray[Any], fmt: Format, request: ScanRequest, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    plan = scan_info((rows.shape[1],), None, fmt, **request.way).plan
    assert isinstance(plan, MmaScanPlan)
    unit = get_unit(DEFAULT_UNIT if request.unit is None else request.unit)
    sums = prefixes(plan, rows, unit, request.exclusive, request.reverse)
    return encoded(sums, format_of(dtype)).view(format_of(dtype).dtype)


def _read_from(elements: Elements, start: int, first: int, last: int) -> npt.NDArray[Any]:
    return elements.read(start + first, start + last)


def _runs(offsets: npt.NDArray[np.int64], most: int, long: list[int]) -> Iterator[tuple[int, int]]:
    """Runs (first, stop) of segments that have up to ``most`` elements together; longer segments go to ``long``."""
    first, count = 0, offsets.size - 1
    while first < count:
        stop = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        if stop == first:
            long.append(first)
            first += 1
            continue
        yield first, stop
        first = stop
