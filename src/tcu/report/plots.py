"""A figure as Plotly.js takes it; the colours of text and its size, which depend on the reader's screen, come from the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tcu.errors import ExtraMissingError
from tcu.report.series import THIN, Look, looks, widths
from tcu.study import Figure, Line

__all__ = ["log_ticks", "plot", "plotly_script"]


_PALE = "73"
"""The opacity of a curve that lies below others, in hexadecimal."""


def plotly_script() -> str:
    """Plotly.js, whole; raises ExtraMissingError."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ExtraMissingError(
            "a report draws its figures with Plotly, which is not installed: pip install 'tcu[plot]'"
        ) from None
    text: str = get_plotlyjs()
    return text


def plot(figure: Figure, known: Mapping[str, Look] | None = None) -> dict[str, Any]:
    """Traces and axes; known: the looks of the curves, by name, or those of this figure alone if None."""
    known = known or looks([figure])
    every_x = [x for line in figure.lines for x in line.x]
    every_y = [y for line in figure.lines for y in line.y if y is not None]
    return {
        "data": [
            _trace(line, known[line.name], width)
            for line, width in zip(figure.lines, widths(figure), strict=True)
        ],
        "xaxis": _axis(figure.x, figure.log_x, every_x), "yaxis": _axis(figure.y, figure.log_y, every_y),
    }  # fmt: skip


def _trace(line: Line, look: Look, width: int) -> dict[str, Any]:
    band = width > THIN  # those above it show through where they have its colour
    marked = not line.dashed and len(line.x) <= 60
    return {
        "type": "scatter", "mode": "lines+markers" if marked else "lines", "name": line.name, "x": list(line.x), "y": list(line.y),
        "line": {"color": look.colour + _PALE * band, "width": width, "dash": "dot" if line.dashed else "solid"},
        **({"marker": {"color": look.colour, "symbol": look.mark, "size": 7}} if marked else {}),
        **({"error_y": _spread(line)} if line.high else {}),
    }  # fmt: skip


def _spread(line: Line) -> dict[str, Any]:
    """Bars from ``low`` to ``high``, in the colour of the line."""

    def distances(ends: Sequence[float | None]) -> list[float]:
        return [
            0.0 if y is None or end is None else abs(end - y) for y, end in zip(line.y, ends, strict=True)
        ]

    return {"type": "data", "symmetric": False, "array": distances(line.high),
            "arrayminus": distances(line.low), "thickness": 1, "width": 2}  # fmt: skip


def _axis(title: str, log: bool, values: Sequence[float]) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": title},
        "type": "log" if log else "linear",
        "exponentformat": "power",
    }
    positive = [value for value in values if value > 0]
    if log and positive and max(positive) > 1.5 * min(positive):  # in less Plotly finds better ones
        ticks = log_ticks(min(positive), max(positive))
        axis |= {"tickvals": [value for value, _ in ticks], "ticktext": [text for _, text in ticks]}
    elif values and len(set(values)) <= 10 and all(float(value).is_integer() for value in values):
        axis["tickvals"] = sorted(set(values))
    return axis


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """A few round numbers around a range, and how they are written."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 8))
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        found = [
            (step, power) for power in range(first, last + 1, every if steps == (1,) else 1) for step in steps
            if low / 1.3 <= step * 10.0**power <= high * 1.3
        ]  # fmt: skip
        if len(found) >= 4:
            break
    return [(step * 10.0**power, _written(step, power)) for step, power in found]


def _written(step: float, power: int) -> str:
    if -3 <= power <= 4:
        return f"{step * 10.0**power:,.{max(0, (step == 1.5) - power)}f}"
    return f"10<sup>{power}</sup>" if step == 1 else f"{step:g}·10<sup>{power}</sup>"
