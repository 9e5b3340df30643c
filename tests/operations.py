"""The table of operations that tests are made from: a row for each, with what it must return.

An oracle takes the elements of one group (a whole array, a row, a segment) as
exact fractions and gives the exact result, or None where there is none.
"""

from __future__ import annotations

import decimal
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tcu.ops import OPERATIONS, Operation
from tcu.ops.layout import WHOLE, Along, Layout, Ragged, Whole

__all__ = ["LAYOUTS", "ROWS", "Row", "all_cells", "groups", "layouts_of", "names_of", "needed"]

Group = Sequence[Fraction]


@dataclass(frozen=True)
class Row:
    """What tests know of an operation."""

    oracle: Callable[..., Fraction | None]
    """Of the groups of its operands."""
    size: Callable[..., Fraction | None] | None = None
    """Of results that are not exact: what their error is relative to, in units of 2^-24 per element."""
    nothing: float = math.nan
    """The result where the oracle has none."""


def _sum(x: Group) -> Fraction:
    return sum(x, Fraction(0))


def _mean(x: Group) -> Fraction | None:
    return _sum(x) / len(x) if x else None


def _dot(x: Group, y: Group) -> Fraction:
    return _sum([a * b for a, b in zip(x, y, strict=True)])


def _root(value: Fraction) -> Fraction:
    """To 2^-200 of its size, far below what any format sees."""
    return Fraction(math.isqrt(value.numerator * value.denominator << 400), value.denominator << 200)


def _norm(x: Group) -> Fraction:
    return _root(_dot(x, x))


def _var(x: Group) -> Fraction | None:
    mean = _mean(x)
    return _mean([(each - mean) ** 2 for each in x])


def _std(x: Group) -> Fraction | None:
    return _root(_var(x)) if x else None


def _exponentials(x: Group) -> tuple[Fraction, Fraction]:
    """(that of the first, their sum), to 10^-60 of their size"""
    with decimal.localcontext(decimal.Context(prec=60)):
        found = [Fraction((decimal.Decimal(each.numerator) / each.denominator).exp()) for each in x]
    return found[0], _sum(found)


def _softmax(x: Group) -> Fraction:
    first, total = _exponentials(x)
    return first / total


def _logarithm(value: Fraction) -> Fraction:
    with decimal.localcontext(decimal.Context(prec=60)):
        return Fraction((decimal.Decimal(value.numerator) / value.denominator).ln())


def _log_softmax(x: Group) -> Fraction:
    return _logarithm(_softmax(x))


def _logsumexp(x: Group) -> Fraction | None:
    return _logarithm(_exponentials(x)[1]) if x else None


def _rms_norm(x: Group) -> Fraction:
    return x[0] / _root(_dot(x, x) / len(x) + Fraction(2) ** -23)


def _layer_norm(x: Group) -> Fraction:
    return (x[0] - _sum(x) / len(x)) / _root(
        _dot(x, x) / len(x) - (_sum(x) / len(x)) ** 2 + Fraction(1, 10**5)
    )


def _reach(x: Group) -> Fraction:
    """Of what logarithms are added to."""
    return max(map(abs, x)) + 1


def _mass(x: Group, *y: Group) -> Fraction:
    """The sum of the magnitudes that are added up."""
    return (
        _dot(*([abs(each) for each in group] for group in (x, *y))) if y else _sum([abs(each) for each in x])
    )


ROWS: dict[str, Row] = {
    "sum": Row(_sum, _mass), "mean": Row(_mean, _mass), "dot": Row(_dot, _mass), "norm": Row(_norm, _norm),
    "cumsum": Row(_sum, _mass), "fcumsum": Row(_sum), "var": Row(_var, _var), "std": Row(_std, _std),
    "softmax": Row(_softmax, lambda x: _softmax(x) * _reach(x)), "log_softmax": Row(_log_softmax, _reach), "logsumexp": Row(_logsumexp, _reach, -math.inf),
    "rms_norm": Row(_rms_norm, lambda x: Fraction(3)), "layer_norm": Row(_layer_norm, lambda x: Fraction(1)),
    "normalize": Row(lambda x: x[0] / _norm(x), lambda x: Fraction(1)),
    "fsum": Row(_sum), "fmean": Row(_mean), "fdot": Row(_dot), "fnorm": Row(_norm), "fvar": Row(_var), "fstd": Row(_std),
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
    """Of the table, those that the operation takes; what gives as many results takes one axis and keeps all."""
    found = [layout for kind in operation.layouts for layout in LAYOUTS[kind]]
    if operation.kind != "reduce":
        found = [
            each
            for each in found
            if isinstance(each, Ragged)
            or isinstance(each.axis, int if operation.kind == "map" else int | None)
        ]  # type: ignore[union-attr]
        found = [Along(each.axis) if isinstance(each, Along) else each for each in found]
    return found


def names_of(**properties: Any) -> list[str]:
    """Of the operations that have these properties: ``names_of(moments=True, exact=False)``."""
    return [
        each.name
        for each in OPERATIONS.values()
        if all(getattr(each, name) == value for name, value in properties.items())
    ]


def needed(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that a call must give: "x", "y", "offsets"."""
    return [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.default is inspect.Parameter.empty
    ]


def all_cells() -> list[Any]:
    return [(operation, layout) for operation in OPERATIONS.values() for layout in layouts_of(operation)]
