"""A figure as Plotly.js takes it; colours and sizes, which depend on the reader's screen, come from the page."""

from __future__ import annotations

from typing import Any

from tcu.errors import ExtraMissingError
from tcu.study import Figure

__all__ = ["plot", "plotly_script"]


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


def plot(figure: Figure) -> dict[str, Any]:
    """Traces and axes."""
    return {
        "data": [
            {
                "type": "scatter", "mode": "lines+markers" if len(line.x) < 60 else "lines", "name": line.name,
                "x": list(line.x), "y": list(line.y), "line": {"dash": "dot"} if line.dashed else {},
            }
            for line in figure.lines
        ],
        "xaxis": _axis(figure.x, figure.log_x), "yaxis": _axis(figure.y, figure.log_y),
    }  # fmt: skip


def _axis(title: str, log: bool) -> dict[str, Any]:
    return {"title": {"text": title}, "type": "log" if log else "linear", "exponentformat": "power"}
