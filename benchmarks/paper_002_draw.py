"""One self-contained HTML page of what paper_002_measure.py wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from paper_draw import STYLE
from plotly.colors import qualitative
from plotly.subplots import make_subplots

from tcu.plan.segmented import ALGORITHMS

Rows = list[dict[str, Any]]


def draw(source: Path) -> Path:
    """The page beside the figures' file, under its name."""
    document = json.loads(source.read_text())
    figures, machine = document["figures"], document["machine"]
    drawn = [_throughput(figures["rows"], figures["count"])]
    if any(row["of_ceiling"] for row in figures["rows"]):
        drawn.append(_shares(figures["rows"]))
    drawn.append(_errors(figures["rows"]))
    if figures["energy"]:
        drawn += [
            _energy(figures["energy"], "watts", "W"),
            _energy(figures["energy"], "joules_per_terabyte", "J/TB"),
        ]
    body = [one.to_html(full_html=False, include_plotlyjs=number == 0) for number, one in enumerate(drawn)]
    title = f"Paper 002's figure 5 on {machine.get('gpu', machine['processor'])}"
    claims = json.dumps(figures.get("claims", {}), indent=1, ensure_ascii=False)
    page = source.with_suffix(".html")
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1><p>Measured {document['date']} by <code>{document['command']}</code>.</p>"
        + "".join(body)
        + f"<h2>The paper's claims</h2><pre>{claims}</pre></html>\n"
    )
    return page


def _names(rows: Rows) -> dict[str, str]:
    """Everyone and a colour."""
    names = list(dict.fromkeys(row["who"] for row in rows))
    return {name: qualitative.Plotly[number % 10] for number, name in enumerate(names)}


def _log2(rows: Rows) -> list[int]:
    return [row["segment"].bit_length() - 1 for row in rows]


def _lines(figure: go.Figure, rows: Rows, what: str, scale: float = 1, **where: int) -> None:
    for name, colour in _names(rows).items():
        line = [row for row in rows if row["who"] == name and row.get(what) is not None]
        figure.add_scatter(
            name=name, x=_log2(line), y=[scale * row[what] for row in line], mode="lines+markers",
            line_color=colour, **where,
        )  # fmt: skip


def _throughput(rows: Rows, count: int) -> go.Figure:
    """Figure 5, with its bar of the best algorithms on top."""
    figure = make_subplots(rows=2, row_heights=[0.06, 0.94], shared_xaxes=True, vertical_spacing=0.02)
    best = [row for row in rows if row["best"]]
    colours = _names(rows)
    for name in ALGORITHMS:
        mine = [row for row in best if row["who"] == name]
        figure.add_bar(
            name=f"best: {name}",
            x=_log2(mine),
            y=[1] * len(mine),
            width=1,
            marker_color=colours[name],
            row=1,
            col=1,
        )
    elements = [{**row, "elements": count / row["median"]} for row in rows]
    _lines(figure, elements, "elements", 1e-9, row=2, col=1)
    figure.update_yaxes(visible=False, row=1, col=1)
    figure.update_yaxes(title="billions of elements per second", row=2, col=1)
    figure.update_xaxes(title="log2 of the segment's length", row=2, col=1)
    figure.update_layout(
        title=f"Figure 5: equal segments of {count:,} binary16 values", template="plotly_white", height=650
    )
    return figure


def _shares(rows: Rows) -> go.Figure:
    figure = go.Figure(layout={
        "title": "Bytes read and written, over those of a kernel that only reads; the paper's 90 to 98 % shaded",
        "xaxis_title": "log2 of the segment's length", "yaxis_title": "share of the ceiling", "template": "plotly_white",
    })  # fmt: skip
    figure.add_hrect(y0=0.90, y1=0.98, fillcolor="lightgreen", opacity=0.3, line_width=0)
    _lines(figure, rows, "of_ceiling")
    return figure


def _errors(rows: Rows) -> go.Figure:
    figure = go.Figure(layout={
        "title": "Largest error of all segments, normal data", "xaxis_title": "log2 of the segment's length",
        "yaxis_title": "absolute error", "yaxis_type": "log", "template": "plotly_white",
    })  # fmt: skip
    _lines(figure, rows, "largest_error")
    return figure


def _energy(rows: Rows, what: str, unit: str) -> go.Figure:
    figure = go.Figure(layout={
        "title": f"Whole board: {what.replace('_', ' ')}", "xaxis_title": "segment's length", "yaxis_title": unit,
        "template": "plotly_white", "barmode": "group",
    })  # fmt: skip
    for name, colour in _names(rows).items():
        line = [row for row in rows if row["who"] == name]
        figure.add_bar(
            name=name,
            x=[f"{row['segment']:,}" for row in line],
            y=[row[what] for row in line],
            marker_color=colour,
        )
    return figure
