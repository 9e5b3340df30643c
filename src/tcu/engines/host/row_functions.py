"""Functions of whole rows along axes: every row as it is alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.planned import encoded
from tcu.engines.host.rows import given_back, lines_of, place_of, row_pieces
from tcu.formats.format import Format, format_of
from tcu.model import exponentials, norms, threads
from tcu.model.elements import Elements
from tcu.ops.layout import Axes, Ragged, check_line, row_axis
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call
from tcu.ops.result import map_dtype, put, target_of

__all__ = ["of_rows", "scaled"]

_PIECE = 1 << 16
"""Numbers of rows that one thread takes at a time."""


def of_rows(call: Call) -> tuple[Any, None]:
    """(the rows, or a number for each, None)"""
    elements = Elements.of(call.arrays[0])
    if isinstance(call.layout, Ragged):
        return _of_segments(call, elements, call.layout), None
    return (_mapped if call.operation.kind == "map" else _reduced)(call, elements), None


def scaled(x: Any, weight: Any, bias: Any, axis: int, dtype: npt.DTypeLike, out: Any = None) -> Any:
    """Rows of binary32 or binary64 along an axis times a weight, plus a bias, each step rounded, then rounded to ``dtype``."""
    target = target_of(format_of(x.dtype), dtype, out, x.shape)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    found = x
    with np.errstate(all="ignore"):
        if weight is not None:
            found = found * weight.astype(x.dtype).reshape(shape)
        if bias is not None:
            found = found + bias.astype(x.dtype).reshape(shape)
    codes = encoded(np.ascontiguousarray(found).reshape(-1), target)
    return put(codes.view(target.dtype).reshape(x.shape), out)


def _mapped(call: Call, elements: Elements) -> Any:
    array = elements.array
    axis = row_axis(call.layout, array.ndim)
    dtype = map_dtype(call.dtype, elements.format.dtype, call.out)
    target = target_of(elements.format, dtype, call.out, array.shape)
    result = place_of(array, array.shape, call.out, target)
    rows, places = np.moveaxis(array, axis, -1), np.moveaxis(result, axis, -1)

    def work(piece: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> None:
        given, place = piece
        codes = _codes(call, elements.format, given, target)
        place[...] = codes.view(target.dtype).reshape(place.shape)

    together = max(1, _PIECE // max(rows.shape[-1], 1))
    pieces = (row_pieces(each, rows.ndim - 1, together) for each in (rows, places))
    threads.each(work, zip(*pieces, strict=True))
    return given_back(result, call.out)


def _reduced(call: Call, elements: Elements) -> Any:
    assert not isinstance(call.layout, Ragged)
    axes = Axes.of(call.layout, elements.array.shape)
    target = target_of(elements.format, call.dtype, call.out, axes.shape)
    rows = elements.array.transpose(*axes.kept, *axes.reduced)

    def work(piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return _codes(call, elements.format, piece, target, len(axes.reduced))

    pieces = row_pieces(rows, len(axes.kept), max(1, _PIECE // max(axes.n, 1)))
    codes = [*threads.in_order(work, pieces), np.empty(0, target.code_dtype)]
    return put(np.concatenate(codes).view(target.dtype).reshape(axes.shape), call.out)


def _of_segments(call: Call, elements: Elements, layout: Ragged) -> Any:
    """Segments as rows, filled up with -inf, whose exponentials are 0, to the next power of two of their length."""
    array = elements.array
    check_line(array.shape)
    edges = checked_offsets(layout.offsets, elements.n)
    lengths, is_map = np.diff(edges), call.operation.kind == "map"
    shape = array.shape if is_map else lengths.shape
    dtype = map_dtype(call.dtype, elements.format.dtype, call.out) if is_map else call.dtype
    target = target_of(elements.format, dtype, call.out, shape)
    codes = np.empty(shape, target.code_dtype)
    sizes = np.exp2(np.ceil(np.log2(np.maximum(lengths, 1)))).astype(np.int64)

    def work(piece: npt.NDArray[np.int64]) -> None:
        size = int(sizes[piece[0]])
        places = edges[piece][:, None] + np.arange(size)
        inside = np.arange(size) < lengths[piece][:, None]
        rows = np.full(places.shape, -np.inf, array.dtype)
        rows[inside] = array[places[inside]]
        found = _codes(call, elements.format, rows, target)
        if is_map:
            codes[places[inside]] = found[inside]
        else:
            codes[piece] = found

    pieces = (
        alike[first : first + together]
        for size in np.unique(sizes).tolist()
        for alike, together in [(np.flatnonzero(sizes == size), max(1, _PIECE // size))]
        for first in range(0, len(alike), together)
    )
    threads.each(work, pieces)
    return put(codes.view(target.dtype), call.out)


def _codes(
    call: Call, given: Format, rows: npt.NDArray[Any], target: Format, along: int = 1
) -> npt.NDArray[Any]:
    """Of rows along the last axes, in binary64 where x or the result is."""
    work = np.float64 if "binary64" in (given.name, target.name) else np.float32
    lines = lines_of(rows, work, along)
    operation, finish = call.operation, call.operation.finish
    if operation.arithmetic == "norms":
        found = norms.of_rows(lines, operation.eps(call.options, work), finish)  # type: ignore[arg-type]
    else:
        found = exponentials.of_rows(lines, finish)  # type: ignore[arg-type]
    return encoded(found, target)
