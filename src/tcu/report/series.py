"""How the curves of figures look: a colour for a series, a mark for each of its curves, and room for those that lie below others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tcu.study import Figure, Line

__all__ = ["COLOURS", "MARKS", "THIN", "Look", "looks", "places", "ranges", "share", "widths"]

COLOURS = (
    "#1c7ed6", "#d9480f", "#2b8a3e", "#b05bd0", "#a6761d", "#c2255c", "#0b9ab0", "#6c4ff0",
    "#748c1f", "#78818c", "#a0522d", "#e64980",
)  # fmt: skip
"""Three times as bright as a dark page, and a light page three times as bright as they: graphics need that to be seen."""
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
"""By Plotly's names."""
THIN = 2
"""The width of a curve that lies below no other."""
Places = Sequence[tuple[float, float] | None]


@dataclass(frozen=True)
class Look:
    """What a curve has in every figure of a page."""

    colour: str
    mark: str


def looks(figures: Iterable[Figure]) -> dict[str, Look]:
    """Name of a curve → its look.

    Of the colours a series takes the one that fewest series have beside which it is
    drawn, so that no two share one in a figure of as many series as there are colours.
    """
    curves: dict[str, str] = {}
    beside: dict[str, set[str]] = {}
    for figure in figures:
        drawn = {_series(line) for line in figure.lines}
        for line in figure.lines:
            curves.setdefault(line.name, _series(line))
        for one in dict.fromkeys(_series(line) for line in figure.lines):
            beside.setdefault(one, set()).update(drawn - {one})
    colours: dict[str, str] = {}
    for one, others in beside.items():
        near = [colours[other] for other in others if other in colours]
        every = list(colours.values())
        colours[one] = min(COLOURS, key=lambda each: (near.count(each), every.count(each)))
    found: dict[str, Look] = {}
    used = dict.fromkeys(beside, 0)
    for name, one in curves.items():
        found[name] = Look(colours[one], MARKS[used[one] % len(MARKS)])
        used[one] += 1
    return found


def _series(line: Line) -> str:
    return line.series or line.name


def ranges(figure: Figure) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of both axes, in logarithms where an axis has them; an axis of plain numbers begins at 0 if they are positive."""
    points = [point for each in _points(figure) for point in each if point is not None]
    xs, ys = ([point[i] for point in points] or [0.0] for i in (0, 1))
    return (min(xs), max(xs)), (min(ys) if figure.log_y else min(0.0, *ys), max(ys))


def places(figure: Figure, across: float, up: float) -> list[Places]:
    """Where the points of each curve are drawn in a box of this size; None is a gap, or what a logarithm does not have."""
    x_range, y_range = ranges(figure)
    return [
        [point and (across * share(point[0], x_range), up * share(point[1], y_range)) for point in each]
        for each in _points(figure)
    ]  # fmt: skip


def widths(figure: Figure) -> list[int]:
    """The width of each curve, drawn in their order: one that lies below others shows on both sides of them."""
    drawn = places(figure, 620, 300)
    return [THIN + 3 * sum(_covers(later, own) for later in drawn[i + 1 :]) for i, own in enumerate(drawn)]


def _points(figure: Figure) -> list[Places]:
    return [[_point(figure, x, y) for x, y in zip(line.x, line.y, strict=True)] for line in figure.lines]


def _point(figure: Figure, x: float, y: float | None) -> tuple[float, float] | None:
    if y is None or not math.isfinite(y) or (figure.log_x and x <= 0) or (figure.log_y and y <= 0):
        return None
    return math.log10(x) if figure.log_x else float(x), math.log10(y) if figure.log_y else float(y)


def share(value: float, ends: tuple[float, float]) -> float:
    """How far along an axis a value is."""
    return 0.5 if ends[0] == ends[1] else (value - ends[0]) / (ends[1] - ends[0])


def _covers(later: Places, own: Places) -> bool:
    """Whether most of a curve would lie under another."""
    near = [
        b is not None and abs(a[0] - b[0]) + abs(a[1] - b[1]) < 3
        for a, b in zip(own, later, strict=False) if a is not None
    ]  # fmt: skip
    return 2 * sum(near) > len(near)
