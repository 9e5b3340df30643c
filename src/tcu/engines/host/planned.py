"""Sums by plans: of whole arrays, of rows along axes, of ragged segments.

The law: the bits of a row or a segment are those of its elements alone, those
of several axes in C order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.engines.host.rows import lines_of, row_pieces
from tcu.engines.host.source import operands_of, source_of
from tcu.formats.array import encode_array
from tcu.formats.format import Format
from tcu.model import threads
from tcu.model.elements import Elements
from tcu.model.execute import Progress, execute
from tcu.model.moments import moments, row_moments
from tcu.model.pairs import Pairs
from tcu.model.rows import execute_rows, row_width
from tcu.ops.finish import finish_totals
from tcu.ops.info import DotInfo, sum_info
from tcu.ops.layout import Axes, Ragged, Whole, check_line
from tcu.ops.offsets import checked_offsets
from tcu.ops.operation import Call, Operation
from tcu.ops.result import put, target_of
from tcu.plan import OWN_VARIANTS, Plan, make_dot_plan, make_plan
from tcu.units import DEFAULT_UNIT, Unit, get_unit

__all__ = ["encoded", "plan_of", "reduce"]

_PIECE = 1 << 18
"""Numbers, padding included, that one thread takes at a time: faster than 2^16 and 2^20, most of all for short rows."""
_LONG = 1 << 18
"""Rows and segments of that length are summed one after another, each by all threads."""

Totals = npt.NDArray[np.float64]
"""(1, m) of m groups of numbers; of moments (2, m)."""


def reduce(call: Call) -> tuple[Any, Any]:
    """(the results, how they came about)"""
    if isinstance(call.layout, Ragged):
        return _segments(call, call.layout), None
    source = source_of(call.operation, call.arrays)
    axes = Axes.of(call.layout, operands_of(source)[0].shape)
    plan, unit = plan_of(call.operation, axes.n, source.format, call.options)
    whole = isinstance(call.layout, Whole)
    target = target_of(source.format, call.dtype, call.out, None if whole else axes.shape)
    pieces: Iterable[Totals]
    if whole:
        pieces = [_alone(call.operation, source, plan, unit, call.progress)]
    else:
        pieces = _rows(call, source, axes, plan, unit)
    correction = call.operation.correction(call.options)
    codes = [encoded(finish_totals(call.operation, totals, axes.n, correction), target) for totals in pieces]
    if len(codes) == 1:
        found = codes[0]
    else:
        found = np.concatenate(codes) if codes else np.empty(0, target.code_dtype)
    info = _info(call.operation, plan, unit, found) if call.return_info else None
    return put(found.view(target.dtype).reshape(axes.shape), call.out), info


def _info(operation: Operation, plan: Plan, unit: Unit, found: npt.NDArray[Any]) -> Any:
    bits = int(found[0]) if found.size == 1 else None
    if operation.product:
        return DotInfo(plan, plan.levels, bits)
    return None if operation.moments else sum_info(unit, plan, bits, rows=found.size)


def plan_of(operation: Operation, n: int, fmt: Format, options: tuple[Any, ...]) -> tuple[Plan, Unit]:
    """The plan of n elements, and the unit whose bits it has; raises what the options deserve."""
    try:  # True is not 1 here, nor 256.0 256
        return _plan_of(operation, n, fmt, options, tuple(map(type, options)))
    except TypeError:  # an option that has no hash, which is none of the right ones
        return _plan_of.__wrapped__(operation, n, fmt, options)


@lru_cache(maxsize=1024)
def _plan_of(
    operation: Operation, n: int, fmt: Format, options: tuple[Any, ...], _: Any = ()
) -> tuple[Plan, Unit]:
    named = dict(zip(operation.options[:-1], options, strict=False))
    if operation.term != "value":
        return make_dot_plan(n, fmt, named["block"]), get_unit(DEFAULT_UNIT)
    given = named.pop("unit")
    unit = get_unit(DEFAULT_UNIT if given is None else given)
    return make_plan(n, fmt, unit, **named), unit


def _alone(
    operation: Operation, source: Elements | Pairs, plan: Plan, unit: Unit, progress: Progress | None = None
) -> Totals:
    """The totals of one group of numbers, by all threads."""
    if operation.moments:
        assert isinstance(source, Elements)
        return moments(plan, source)[1][:, None]
    return np.array([[execute(plan, source, unit, progress)]])


def _together(
    operation: Operation, plan: Plan, operands: Sequence[npt.NDArray[Any]], unit: Unit,
    absent: npt.NDArray[np.bool_] | None = None,
) -> Totals:  # fmt: skip
    """The totals of the rows (r, n) of one array or two, of which ``absent`` marks what is none of their numbers."""
    if operation.moments:
        return row_moments(plan, operands[0], absent)
    if absent is not None:
        operands = [np.where(absent, rows.dtype.type(0), rows) for rows in operands]
    given = np.stack([operands[0], operands[-1]]) if operation.product else operands[0]
    return execute_rows(plan, given, unit)[None]


def _rows(call: Call, source: Elements | Pairs, axes: Axes, plan: Plan, unit: Unit) -> Iterator[Totals]:
    """The rows' totals, a piece of them at a time."""
    operands = [array.transpose(*axes.kept, *axes.reduced) for array in operands_of(source)]
    if plan.n >= _LONG:
        for where in np.ndindex(operands[0].shape[: len(axes.kept)]):
            row = source_of(call.operation, [rows[where] for rows in operands])
            yield _alone(call.operation, row, plan, unit, call.progress)
        return

    def work(pieces: tuple[npt.NDArray[Any], ...]) -> Totals:
        lines = [lines_of(piece, source.format.dtype, len(axes.reduced)) for piece in pieces]
        return _together(call.operation, plan, lines, unit)

    together = max(1, _PIECE // max(row_width(plan), 1))
    pieces = (row_pieces(rows, len(axes.kept), together) for rows in operands)
    for totals in threads.in_order(work, zip(*pieces, strict=True)):
        yield totals
        if call.progress is not None:
            call.progress(totals.shape[1] * plan.n)


# Ragged segments.


def _segments(call: Call, layout: Ragged) -> Any:
    source = source_of(call.operation, call.arrays)
    check_line(operands_of(source)[0].shape)
    edges = checked_offsets(layout.offsets, source.n)
    lengths = np.diff(edges)
    target = target_of(source.format, call.dtype, call.out, lengths.shape)
    totals = _segment_totals(call.operation, source, edges[:-1], lengths, call.options)
    correction = call.operation.correction(call.options)
    results = finish_totals(call.operation, totals, lengths, correction) + 0.0  # a mean that underflows is +0
    return put(encoded(results, target).view(target.dtype), call.out)


def _segment_totals(
    operation: Operation, source: Elements | Pairs, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64],
    options: tuple[Any, ...],
) -> Totals:  # fmt: skip
    """The segments' totals, a piece of those of one width at a time."""
    fmt, lines = source.format, operands_of(source)
    plan_of(operation, int(lengths.max(initial=0)), fmt, options)  # which looks at the options
    totals = np.zeros((2 if operation.moments else 1, lengths.size))
    for i in np.flatnonzero(lengths >= _LONG):
        piece = source_of(operation, [line[starts[i] : starts[i] + lengths[i]] for line in lines])
        plan, unit = plan_of(operation, piece.n, fmt, options)
        totals[:, i : i + 1] = _alone(operation, piece, plan, unit)
    widths = np.where(lengths < _LONG, lengths, 0)
    if operation.term != "value" or operation.option("variant", options) in OWN_VARIANTS:
        widths = _rounded_up(widths)
    order = np.argsort(widths, kind="stable")

    def work(piece: tuple[int, npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.int64], Totals]:
        width, which = piece
        plan, unit = plan_of(operation, width, fmt, options)
        at = np.arange(width)
        places = np.minimum(starts[which, None] + at, source.n - 1)
        rows = [np.require(line[places], fmt.dtype, ["C", "A"]) for line in lines]
        return which, _together(operation, plan, rows, unit, at >= lengths[which, None])

    for which, sums in threads.in_order(work, _of_one_width(widths, order)):
        totals[:, which] = sums
    return totals


def _rounded_up(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Lengths of few kinds, an eighth longer at most (or 8): the padding of tcu's own plans changes no bits."""
    step = 1 << np.maximum(3, np.frexp(lengths)[1] - 4).astype(np.int64)
    return np.asarray(-(-lengths // step) * step)


def _of_one_width(
    widths: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(width, segments of that width), a piece at a time; without those of width 0."""
    values, counts = np.unique(widths, return_counts=True)
    lasts = np.cumsum(counts)
    for width, first, last in zip(values.tolist(), lasts - counts, lasts, strict=True):
        if width:
            together = max(1, _PIECE // width)
            for at in range(first, last, together):
                yield width, order[at : min(at + together, last)]


def encoded(totals: Totals, target: Format) -> npt.NDArray[Any]:
    """The codes of sums rounded once to nearest; every NaN is the one with all fraction bits set."""
    if target.name == "bfloat16" and totals.dtype == np.float64:  # which ml_dtypes rounds twice
        codes = encode_array(totals, target)
    else:
        with np.errstate(all="ignore"):
            codes = totals.astype(target.dtype).view(target.code_dtype)
    codes[np.isnan(totals)] = target.nan_code
    return codes
