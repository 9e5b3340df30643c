"""The curve of ``tcu cost --sweep``: as JSON, as CSV, and drawn by Plotly on one page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tcu.cli.output import write_page
from tcu.errors import ExtraMissingError
from tcu.report.html_page import Markup, page, tag

__all__ = ["WRITERS", "cost_figure", "curve_document", "plotly", "write_curve"]

_COLUMNS = ("n", "cost", "tensor_calls", "tensor_cost", "steps", "bound", "ratio", "lower_bound")


def write_curve(file: Path, row: Any, curve: Sequence[Any]) -> None:
    """Raises DataFileError where it cannot be written, ExtraMissingError for a plot without Plotly."""
    write_page(file, WRITERS[file.suffix](row, curve))


def curve_document(curve: Sequence[Any]) -> list[dict[str, Any]]:
    """One object for each size."""
    return [
        dict(zip(_COLUMNS, (one.size["n"], one.ledger.cost, one.ledger.tensor_calls, one.ledger.tensor_cost,
                            one.ledger.steps, one.bound, one.ratio, one.lower), strict=True))
        for one in curve
    ]  # fmt: skip


def _json(row: Any, curve: Sequence[Any]) -> str:
    first = curve[0]
    others = {name: value for name, value in first.size.items() if name != "n"}
    head = {
        "algorithm": row.name,
        "theorem": row.theorem,
        "m": first.ledger.m,
        "latency": first.ledger.latency,
    }
    return json.dumps(head | others | {"curve": curve_document(curve)}, indent=2, ensure_ascii=False) + "\n"


def _csv(_: Any, curve: Sequence[Any]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(curve_document(curve))
    return text.getvalue()


def _html(row: Any, curve: Sequence[Any]) -> str:
    first = curve[0].ledger
    machine = f"m = {first.m:,}, latency {first.latency:,}"
    drawn = Markup(cost_figure(row, curve).to_html(full_html=False, include_plotlyjs=True))
    body = [
        tag("tr", *(tag("td", "" if row_[name] is None else f"{row_[name]:,.6g}") for name in _COLUMNS))
        for row_ in curve_document(curve)
    ]
    head = tag("thead", tag("tr", *(tag("th", name.replace("_", " ")) for name in _COLUMNS)))
    table = tag("div", tag("table", head, tag("tbody", *body)), class_="table")
    return page(f"{row.title}: cost on an (m, ℓ)-TCU machine", f"{machine}; n: {row.n}", drawn, table)


def cost_figure(row: Any, curve: Sequence[Any]) -> Any:
    """Cost, its parts and the bound over n, on logarithmic axes, and their ratio below."""
    go, subplots = plotly("graph_objects"), plotly("subplots")
    figure = subplots.make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.06
    )
    sizes = [float(one.size["n"]) for one in curve]
    lines = {
        "cost": [one.ledger.cost for one in curve],
        "tensor calls": [one.ledger.tensor_cost for one in curve],
        "CPU steps": [one.ledger.steps for one in curve],
        f"{row.theorem}, without constant": [one.bound for one in curve],
        "lower bound": [one.lower for one in curve],
    }
    for name, values in lines.items():
        if any(values):
            dash = "solid" if name == "cost" else "dash" if "bound" in name or "constant" in name else "dot"
            figure.add_trace(
                go.Scatter(
                    x=sizes, y=[float(v) if v else None for v in values], name=name, line={"dash": dash}
                ),
                row=1, col=1,
            )  # fmt: skip
    ratios = [one.ratio for one in curve]
    figure.add_trace(
        go.Scatter(x=sizes, y=ratios, name="cost over bound", mode="lines+markers"), row=2, col=1
    )
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(type="log", title="CPU operations", exponentformat="power", row=1, col=1)
    figure.update_yaxes(title="ratio", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title=f"n: {row.n}", row=2, col=1)
    figure.update_layout(template="plotly_white", height=720, legend={"orientation": "h", "y": 1.08})
    return figure


def plotly(module: str) -> Any:
    """A module of Plotly.  Raises ExtraMissingError where it is not installed."""
    import importlib

    try:
        return importlib.import_module(f"plotly.{module}")
    except ImportError as error:
        raise ExtraMissingError(f'a plot needs Plotly: pip install "tcu[plot]" ({error})') from error


WRITERS: dict[str, Callable[[Any, Sequence[Any]], str]] = {".json": _json, ".csv": _csv, ".html": _html}
