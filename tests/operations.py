"""The table of operations that tests are made from: a row for each, with what it must return.

An oracle takes the elements of one group (a whole array, a row, a segment) as
exact fractions and gives the exact result, or None where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tcu.ops import OPERATIONS, Operation
from tcu.ops.layout import WHOLE, Along, Layout, Ragged, Whole

__all__ = ["LAYOUTS", "ROWS", "Row", "groups"]

Group = Sequence[Fraction]


@dataclass(frozen=True)
class Row:
    """What tests know of an operation."""

    oracle: Callable[..., Fraction | None]
    """Of the groups of its operands."""
    exact: bool
    """Whether the result is the oracle's, rounded once; else within ``error`` of it."""
    error: float = 0.0
    """Relative to the sum of the magnitudes that are added up, in units of 2^-24, per element."""


def _sum(x: Group) -> Fraction:
    return sum(x, Fraction(0))


def _mean(x: Group) -> Fraction | None:
    return _sum(x) / len(x) if x else None


def _dot(x: Group, y: Group) -> Fraction:
    return _sum([a * b for a, b in zip(x, y, strict=True)])


def _norm(x: Group) -> Fraction:
    """To 2^-200 of its size, far below what any format sees."""
    total = _dot(x, x)
    return Fraction(math.isqrt(total.numerator * total.denominator << 400), total.denominator << 200)


ROWS: dict[str, Row] = {
    "sum": Row(_sum, False, 1.0), "mean": Row(_mean, False, 1.0), "dot": Row(_dot, False, 1.0),
    "norm": Row(_norm, False, 1.0), "fsum": Row(_sum, True), "fmean": Row(_mean, True), "fdot": Row(_dot, True),
    "fnorm": Row(_norm, True), "cumsum": Row(_sum, False, 1.0),
}  # fmt: skip

LAYOUTS: dict[type[Layout], list[Layout]] = {
    Whole: [WHOLE],
    Along: [Along(0), Along(-1, True), Along((0, 2)), Along((1, 2), True), Along(None, True)],
    Ragged: [Ragged([0, 7, 7, 60]), Ragged([0, 60])],
}
"""Layouts of an array of shape (3, 4, 5), or of its 60 elements as a line."""


def groups(layout: Layout, shape: tuple[int, ...]) -> tuple[list[list[int]], tuple[int, ...]]:
    """(the places of the elements of each group, in C order; the shape of the results)"""
    places = list(range(math.prod(shape)))
    if isinstance(layout, Whole):
        return [places], ()
    if isinstance(layout, Ragged):
        edges = list(layout.offsets)
        return [places[a:b] for a, b in pairwise(edges)], (len(edges) - 1,)
    axis = layout.axis
    given = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = sorted(each % len(shape) for each in given)
    found: dict[tuple[int, ...], list[int]] = {}
    for place in places:
        rest, where = place, []
        for extent in reversed(shape):
            rest, at = divmod(rest, extent)
            where.append(at)
        where.reverse()
        found.setdefault(tuple(at for i, at in enumerate(where) if i not in axes), []).append(place)
    kept = tuple((1 if layout.keepdims else None) if i in axes else extent for i, extent in enumerate(shape))
    return list(found.values()), tuple(extent for extent in kept if extent is not None)


def layouts_of(operation: Operation) -> list[Layout]:
    """Of the table, those that the operation takes; a running sum takes one axis and keeps all."""
    found = [layout for kind in operation.layouts for layout in LAYOUTS[kind]]
    if operation.kind == "scan":
        found = [each for each in found if isinstance(each, Ragged) or isinstance(each.axis, int | None)]  # type: ignore[union-attr]
        found = [Along(each.axis) if isinstance(each, Along) else each for each in found]
    return found


def all_cells() -> list[Any]:
    return [(operation, layout) for operation in OPERATIONS.values() for layout in layouts_of(operation)]
