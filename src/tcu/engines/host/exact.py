"""Exact sums, rounded once: of whole arrays, of rows along axes, of ragged segments.

The law: each result has the bits of its row or segment alone, and the order of
the numbers does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.rows import lines_of, row_pieces
from tcu.engines.host.source import operands_of, source_of
from tcu.engines.host.terms import roots_of, sums_of, terms_of
from tcu.errors import InvalidOperationError
from tcu.formats.format import Format
from tcu.model import threads
from tcu.model.elements import Elements
from tcu.model.pairs import Pairs
from tcu.ops.exact import Tally, tally_on_host
from tcu.ops.exact_products import sum_of_products, tally_of_pairs
from tcu.ops.finish import finish_exactly
from tcu.ops.layout import Axes, Ragged, Whole, check_line
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call, Operation
from tcu.ops.result import put, round_number, target_of

__all__ = ["reduce", "tallies_of"]

_PIECE = 1 << 18
"""Numbers that one thread takes at a time."""
_LONG = 1 << 20
"""Rows of that length are summed one after another, each by all threads; so are moments of any row."""


def tallies_of(operation: Operation, source: Elements | Pairs) -> tuple[int, tuple[Tally, ...]]:
    """(n, the exact sums) of whole arrays: of their elements or products, or of elements and of squares."""
    if isinstance(source, Pairs):
        return source.n, (tally_of_pairs(source),)
    n, first = tally_on_host(source)
    return n, (first, tally_of_pairs(Pairs(source.array, source.array))) if operation.moments else (first,)


def reduce(call: Call) -> tuple[Any, None]:
    """(the results, None: an exact sum has no order to tell of)"""
    if isinstance(call.layout, Ragged):
        return _segments(call, call.layout), None
    if isinstance(call.layout, Whole):
        return _whole(call), None
    return _rows(call), None


def _whole(call: Call) -> Any:
    source = source_of(call.operation, call.arrays)
    target = target_of(source.format, call.dtype, call.out)
    n, found = tallies_of(call.operation, source)
    number = finish_exactly(call.operation, found, n, call.operation.correction(call.options))
    return put(np.asarray(round_number(number, target)), call.out)


def _rows(call: Call) -> Any:
    source = source_of(call.operation, call.arrays)
    arrays = operands_of(source)
    assert not isinstance(call.layout, Ragged)
    axes = Axes.of(call.layout, arrays[0].shape)
    target = target_of(source.format, call.dtype, call.out, axes.shape)
    left = tuple(arrays[0].shape[i] for i in axes.kept)
    operands = [array.transpose(*axes.kept, *axes.reduced) for array in arrays]
    codes = np.empty(math.prod(axes.shape), target.code_dtype)
    if axes.n >= _least_alone(call.operation):
        for number, where in enumerate(np.ndindex(left)):
            row = source_of(call.operation, [rows[where] for rows in operands])
            codes[number] = _alone(call, row, target, f"row {where}")
    else:

        def work(pieces: tuple[npt.NDArray[Any], ...]) -> tuple[npt.NDArray[Any], int]:
            rows = [lines_of(piece, source.format.dtype, len(axes.reduced)) for piece in pieces]
            starts, lines = axes.n * np.arange(len(rows[0])), [each.reshape(-1) for each in rows]
            return _sums(call.operation, lines, source.format, starts, starts + axes.n, target)

        at = 0
        pieces = [row_pieces(rows, len(axes.kept), max(1, _PIECE // max(axes.n, 1))) for rows in operands]
        for found, clash in threads.in_order(work, zip(*pieces, strict=True)):
            if clash >= 0:
                where = np.unravel_index(at + clash, left)
                raise _clash(f"row {tuple(int(i) for i in where)}")
            codes[at : at + found.size] = found
            at += found.size
    return put(codes.view(target.dtype).reshape(axes.shape), call.out)


def _segments(call: Call, layout: Ragged) -> Any:
    source = source_of(call.operation, call.arrays)
    arrays = operands_of(source)
    check_line(arrays[0].shape)
    edges = checked_offsets(layout.offsets, source.n)
    count = edges.size - 1
    target = target_of(source.format, call.dtype, call.out, (count,))
    codes = np.empty(count, target.code_dtype)
    lengths = np.diff(edges)
    least = _least_alone(call.operation)
    for i in np.flatnonzero(lengths >= least):
        piece = source_of(call.operation, [array[edges[i] : edges[i + 1]] for array in arrays])
        codes[i] = _alone(call, piece, target, f"segment {i}")
    if not least:
        return put(codes.view(target.dtype), call.out)
    short = np.where(lengths < least, lengths, 0)

    def work(where: tuple[int, int]) -> tuple[npt.NDArray[Any], int]:
        first, last = where
        begin = int(edges[first])
        lines = [
            np.require(array[begin : int(edges[last])], source.format.dtype, ["C", "A"]) for array in arrays
        ]
        starts = edges[first:last] - begin
        stops = starts + short[first:last]
        return _sums(call.operation, lines, source.format, starts, stops, target)

    at = 0
    for found, clash in threads.in_order(work, _runs(edges, short)):
        if clash >= 0:
            raise _clash(f"segment {at + clash}")
        here = slice(at, at + found.size)
        codes[here] = np.where(lengths[here] < least, found, codes[here])
        at += found.size
    return put(codes.view(target.dtype), call.out)


def _runs(edges: npt.NDArray[np.int64], short: npt.NDArray[np.int64]) -> Any:
    """Segments one after another with about ``_PIECE`` numbers together, and no long one among others."""
    cuts = np.floor_divide(np.cumsum(short) + np.arange(short.size), _PIECE)
    is_long = np.diff(edges) != short
    new = np.ones(short.size, np.bool_)  # where a run begins
    new[1:] = (cuts[1:] != cuts[:-1]) | is_long[1:] | is_long[:-1]
    firsts = np.flatnonzero(new).tolist()
    return pairwise([*firsts, short.size])


def _sums(
    operation: Operation, lines: Sequence[npt.NDArray[Any]], fmt: Format, starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64], target: Format,
) -> tuple[npt.NDArray[Any], int]:  # fmt: skip
    """(codes of the results of the pieces of a line, the first that has no value or -1)."""
    if not operation.product:
        return sums_of(lines[0], fmt, starts, stops, target, operation.mean)
    terms = terms_of(lines, fmt, starts, stops)
    if operation.root:
        codes, clash, left = roots_of(terms, target)
    else:
        codes, clash = sums_of(terms.line, terms.format, terms.starts, terms.stops, target)
        left = terms.left
    for row in np.flatnonzero(left).tolist():  # with what the quick way may not have
        x, y = (each[starts[row] : stops[row]] for each in (lines[0], lines[-1]))
        found = (sum_of_products(x, y, fmt),)
        try:
            number = finish_exactly(operation, found, x.size)
        except InvalidOperationError:
            clash = row if clash < 0 else min(clash, row)
            continue
        codes[row] = int(np.array([round_number(number, target)]).view(target.code_dtype)[0])
    return codes, clash


def _least_alone(operation: Operation) -> int:
    """Elements from which on a row is added up alone: any number of them where there are moments."""
    return 0 if operation.moments else _LONG


def _alone(call: Call, source: Elements | Pairs, target: Format, name: str) -> int:
    """The code of one row."""
    n, found = tallies_of(call.operation, source)
    try:
        number = finish_exactly(call.operation, found, n, call.operation.correction(call.options))
    except InvalidOperationError:
        raise _clash(name) from None
    return int(np.array([round_number(number, target)]).view(target.code_dtype)[0])


def _clash(name: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"{name} holds inf and -inf, so its sum has no value: find them with numpy.isinf and remove them"
    )
