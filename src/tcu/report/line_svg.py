"""A figure's curves as an SVG drawing, for pages without a script: axes, curves, and a legend below that wraps.

A colour stands for a series: two drawings of the same series by :func:`series_colours` give it one colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tcu.report.plots import log_ticks
from tcu.study import Figure, Line

__all__ = ["line_svg", "series_colours"]

COLOURS = ("#0b7285", "#d9480f", "#5f3dc4", "#2b8a3e", "#c2255c", "#8d5a2b", "#f08c00", "#868e96")
"""Told apart on white and on black."""
_STYLE = """
.lines:root { color-scheme: light dark; --ink: #1c2024; --dim: #60676f; --page: #fff; --grid: #e3e6ea; background: var(--page); }
@media (prefers-color-scheme: dark) { .lines:root { --ink: #e4e7ea; --dim: #98a1ab; --page: #14171a; --grid: #2b3036; } }
.lines { font: 13px system-ui, sans-serif; max-width: 100%; height: auto; }
.lines text { fill: var(--ink); } .lines .dim { fill: var(--dim); } .lines .grid { stroke: var(--grid); }
.lines .curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .lines .dashed { stroke-dasharray: 5 4; }
"""
_Places = Sequence[tuple[float, float] | None]
_WIDTH, _TALL, _LEFT, _TOP, _RIGHT, _LETTER, _ROW = 720.0, 320.0, 78.0, 40.0, 16.0, 7.8, 20.0


def series_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name; those beyond eight begin again."""
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(dict.fromkeys(names))}


def line_svg(figure: Figure, colours: dict[str, str] | None = None) -> str:
    """The drawing, as a file; a gap in a curve stays a gap, and what a logarithm does not have is one."""
    lines = figure.lines
    colours = colours or series_colours(line.name for line in lines)
    points = [[_point(figure, x, y) for x, y in zip(line.x, line.y, strict=True)] for line in lines]
    known = [point for each in points for point in each if point is not None]
    if not known:
        known = [(0.0, 0.0)]
    xs, ys = ([point[i] for point in known] for i in (0, 1))
    x_range = min(xs), max(xs)
    y_range = (min(ys), max(ys)) if figure.log_y else (min(0.0, *ys), max(ys))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = _share(point[0], x_range) * (_WIDTH - _LEFT - _RIGHT)
        return _LEFT + across, _TOP + _TALL * (1 - _share(point[1], y_range))

    found = [f'<text x="{_LEFT:g}" y="18" font-weight="600">{escape(figure.title)}</text>']
    for value, text in _ticks(x_range, figure.log_x):
        x, _ = place((value, y_range[0]))
        found.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}v{_TALL:g}"/>')
        found.append(
            f'<text class="dim" x="{x:.1f}" y="{_TOP + _TALL + 17:.1f}" text-anchor="middle">{text}</text>'
        )
    for value, text in _ticks(y_range, figure.log_y):
        _, y = place((x_range[0], value))
        found.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}h{_WIDTH - _LEFT - _RIGHT:g}"/>')
        found.append(f'<text class="dim" x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    found.append(f'<text class="dim" x="{_LEFT:g}" y="{_TOP - 6:g}">{escape(figure.y)}</text>')
    below = _TOP + _TALL + 36
    found.append(
        f'<text class="dim" x="{_WIDTH - _RIGHT:g}" y="{below:g}" text-anchor="end">{escape(figure.x)}</text>'
    )
    places = [[None if point is None else place(point) for point in own] for own in points]
    for i, (line, own) in enumerate(zip(lines, places, strict=True)):
        hidden = sum(_covers(later, own) for later in places[i + 1 :])
        found += _curve(line, own, colours[line.name], 2 + 4 * hidden)
    legend, bottom = _legend(lines, colours, below + 8)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lines" width="{_WIDTH:g}" height="{bottom:g}" '
        f'viewBox="0 0 {_WIDTH:g} {bottom:g}" role="img"><title>{escape(figure.title)}</title><style>{_STYLE}</style>\n'
        + "\n".join([*found, *legend])
        + "\n</svg>\n"
    )


def _point(figure: Figure, x: float, y: float | None) -> tuple[float, float] | None:
    if y is None or not math.isfinite(y) or (figure.log_x and x <= 0) or (figure.log_y and y <= 0):
        return None
    return math.log10(x) if figure.log_x else float(x), math.log10(y) if figure.log_y else float(y)


def _share(value: float, ends: tuple[float, float]) -> float:
    return 0.5 if ends[0] == ends[1] else (value - ends[0]) / (ends[1] - ends[0])


def _ticks(ends: tuple[float, float], log: bool) -> Iterator[tuple[float, str]]:
    """Places, in logarithms where the axis has them, and what is written there."""
    low, high = ends
    if log:
        for value, text in log_ticks(10.0**low, 10.0**high):
            at = math.log10(value)
            if low - 1e-9 <= at <= high + 1e-9:
                power = text.replace("<sup>", '<tspan dy="-5" font-size="10">').replace("</sup>", "</tspan>")
                yield at, power
        return
    step = 10.0 ** math.floor(math.log10((high - low) or 1.0))
    step = next(each for each in (step / 5, step / 2, step, 2 * step) if (high - low) / each <= 8)
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield i * step, f"{i * step:,.10g}"


def _covers(later: _Places, own: _Places) -> bool:
    """Whether most of a curve would lie under another, which is why it is drawn wider."""
    near = [
        abs(a[0] - b[0]) + abs(a[1] - b[1]) < 3
        for a, b in zip(later, own, strict=False) if a is not None and b is not None
    ]  # fmt: skip
    return 2 * sum(near) > len(own)


def _curve(line: Line, places: _Places, colour: str, width: int) -> Iterator[str]:
    move, path = "M", ""
    for place in places:
        path += "" if place is None else f"{move}{place[0]:.1f} {place[1]:.1f}"
        move = "M" if place is None else "L"
    kind = "curve dashed" if line.dashed else "curve"
    if path:
        yield f'<path class="{kind}" stroke="{colour}" style="stroke-width: {width}" d="{path}"><title>{escape(line.name)}</title></path>'
    if not line.dashed and len(line.x) <= 30:
        yield from (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in filter(None, places)
        )


def _legend(lines: Sequence[Line], colours: dict[str, str], top: float) -> tuple[list[str], float]:
    """(the names, row by row; where they end)"""
    found, x, y = [], _LEFT, top + _ROW
    for line in lines:
        width = 44 + _LETTER * len(line.name)
        if x > _LEFT and x + width > _WIDTH:
            x, y = _LEFT, y + _ROW
        kind = "curve dashed" if line.dashed else "curve"
        found.append(f'<path class="{kind}" stroke="{colours[line.name]}" d="M{x:.1f} {y - 4:.1f}h20"/>')
        found.append(f'<text x="{x + 26:.1f}" y="{y:.1f}">{escape(line.name)}</text>')
        x += width
    return found, y + 12
