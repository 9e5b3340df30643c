"""A figure's curves as an SVG drawing, for pages without a script: axes, curves, and a legend below that wraps.

A colour stands for a series: two drawings by the same looks give it one colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tcu.report.plots import log_ticks
from tcu.report.series import THIN, Look, Places, looks, places, ranges, share, widths
from tcu.study import Figure, Line

__all__ = ["line_svg"]

_STYLE = """
.lines:root { color-scheme: light dark; --ink: #1c2024; --dim: #60676f; --page: #fff; --grid: #e3e6ea; background: var(--page); }
@media (prefers-color-scheme: dark) { .lines:root { --ink: #e4e7ea; --dim: #98a1ab; --page: #14171a; --grid: #2b3036; } }
.lines { font: 13px system-ui, sans-serif; max-width: 100%; height: auto; }
.lines text { fill: var(--ink); } .lines .dim { fill: var(--dim); } .lines .grid { stroke: var(--grid); }
.lines .curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .lines .dashed { stroke-dasharray: 5 4; }
"""
_WIDTH, _TALL, _LEFT, _TOP, _RIGHT, _LETTER, _ROW = 720.0, 320.0, 78.0, 40.0, 16.0, 7.8, 20.0


def line_svg(figure: Figure, known: Mapping[str, Look] | None = None) -> str:
    """The drawing, as a file; a gap in a curve stays a gap, and what a logarithm does not have is one.

    known: the looks of the curves, by name; those of this figure alone if None.
    """
    lines = figure.lines
    known = known or looks([figure])
    across = _WIDTH - _LEFT - _RIGHT
    x_range, y_range = ranges(figure)
    found = [f'<text x="{_LEFT:g}" y="18" font-weight="600">{escape(figure.title)}</text>']
    for value, text in _ticks(x_range, figure.log_x):
        x = _LEFT + across * share(value, x_range)
        found.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}v{_TALL:g}"/>')
        found.append(
            f'<text class="dim" x="{x:.1f}" y="{_TOP + _TALL + 17:.1f}" text-anchor="middle">{text}</text>'
        )
    for value, text in _ticks(y_range, figure.log_y):
        y = _TOP + _TALL * (1 - share(value, y_range))
        found.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}h{across:g}"/>')
        found.append(f'<text class="dim" x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    found.append(f'<text class="dim" x="{_LEFT:g}" y="{_TOP - 6:g}">{escape(figure.y)}</text>')
    below = _TOP + _TALL + 36
    found.append(
        f'<text class="dim" x="{_WIDTH - _RIGHT:g}" y="{below:g}" text-anchor="end">{escape(figure.x)}</text>'
    )
    drawn = places(figure, across, _TALL)
    for line, own, width in zip(lines, drawn, widths(figure), strict=True):
        at = [point and (_LEFT + point[0], _TOP + _TALL - point[1]) for point in own]
        found += _curve(line, at, known[line.name].colour, width)
    legend, bottom = _legend(lines, known, below + 8)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lines" width="{_WIDTH:g}" height="{bottom:g}" '
        f'viewBox="0 0 {_WIDTH:g} {bottom:g}" role="img"><title>{escape(figure.title)}</title><style>{_STYLE}</style>\n'
        + "\n".join([*found, *legend])
        + "\n</svg>\n"
    )


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


def _curve(line: Line, places: Places, colour: str, width: int) -> Iterator[str]:
    move, path = "M", ""
    for place in places:
        path += "" if place is None else f"{move}{place[0]:.1f} {place[1]:.1f}"
        move = "M" if place is None else "L"
    kind = "curve dashed" if line.dashed else "curve"
    pale = ' stroke-opacity=".45"' if width > THIN else ""
    if path:
        yield f'<path class="{kind}" stroke="{colour}" style="stroke-width: {width}"{pale} d="{path}"><title>{escape(line.name)}</title></path>'
    if not line.dashed and len(line.x) <= 30:
        yield from (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in filter(None, places)
        )


def _legend(lines: Sequence[Line], known: Mapping[str, Look], top: float) -> tuple[list[str], float]:
    """(the names, row by row; where they end)"""
    found, x, y = [], _LEFT, top + _ROW
    for line in lines:
        width = 44 + _LETTER * len(line.name)
        if x > _LEFT and x + width > _WIDTH:
            x, y = _LEFT, y + _ROW
        kind = "curve dashed" if line.dashed else "curve"
        found.append(f'<path class="{kind}" stroke="{known[line.name].colour}" d="M{x:.1f} {y - 4:.1f}h20"/>')
        found.append(f'<text x="{x + 26:.1f}" y="{y:.1f}">{escape(line.name)}</text>')
        x += width
    return found, y + 12
