"""One self-contained HTML page of what paper_measure.py wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

Rows = list[dict[str, Any]]
CLASSIC = "warp shuffle, atomic"
STYLE = "body{font-family:sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"


def draw(source: Path) -> Path:
    """The page beside the figures' file, under its name."""
    document = json.loads(source.read_text())
    figures, machine = document["figures"], document["machine"]
    drawn = [
        *_sweeps("Figure 3: recurrence", figures["3"]),
        *_sweeps("Figure 5: single-pass", figures["5"]),
        *_split(figures["6"]),
        *_over_n(figures["7 and 8"]),
    ]
    body = [one.to_html(full_html=False, include_plotlyjs=number == 0) for number, one in enumerate(drawn)]
    title = f"Paper 000's figures on {machine.get('gpu', machine['processor'])}"
    page = source.with_suffix(".html")
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1><p>Measured {document['date']} by <code>{document['command']}</code>.</p>"
        + "".join(body)
        + "</html>\n"
    )
    return page


def _figure(title: str, x: str, y: str, log_x: bool = False, log_y: bool = False) -> go.Figure:
    figure = go.Figure(
        layout={"title": title, "xaxis_title": x, "yaxis_title": y, "template": "plotly_white"}
    )
    figure.update_xaxes(type="log" if log_x else "linear")
    figure.update_yaxes(type="log" if log_y else "linear")
    return figure


def _present(rows: Rows) -> Rows:
    return [row for row in rows if "seconds" in row]


def _line(figure: go.Figure, name: str, x: list[Any], y: list[Any]) -> None:
    figure.add_scatter(name=name, x=x, y=y, mode="lines+markers")


def _sweeps(title: str, rows: Rows) -> list[go.Figure]:
    """Time and error over R, one line for each B, at each n."""
    drawn = []
    for n in dict.fromkeys(row["n"] for row in rows):
        time = _figure(f"{title}, n = {n:,}", "R", "time in µs")
        error = _figure(f"{title}, n = {n:,}, normal data", "R", "error in percent", log_y=True)
        for block in dict.fromkeys(row["block"] for row in rows):
            line = [row for row in _present(rows) if (row["n"], row["block"]) == (n, block)]
            chains = [row["chain"] for row in line]
            _line(time, f"B = {block}", chains, [row["seconds"] * 1e6 for row in line])
            _line(error, f"B = {block}", chains, [row["percent_error"]["normal"] for row in line])
        drawn += [time, error]
    return drawn


def _split(rows: Rows) -> list[go.Figure]:
    """Over the share of warp shuffles, as the paper draws it."""
    drawn = []
    for n in dict.fromkeys(row["n"] for row in rows):
        time = _figure(f"Figure 6: split, n = {n:,}", "fraction by warp shuffles", "time in µs")
        line = [row for row in _present(rows) if row["n"] == n]
        _line(time, "split", [1 - row["fraction"] for row in line], [row["seconds"] * 1e6 for row in line])
        drawn.append(time)
    return drawn


def _over_n(rows: Rows) -> list[go.Figure]:
    present = _present(rows)
    classic = {row["n"]: row["seconds"] for row in present if row["who"] == CLASSIC}
    title = "Figures 7 and 8"
    time = _figure(f"{title}: run time", "n", "time in µs", log_x=True, log_y=True)
    speedup = _figure(f"{title}: speedup over the classic warp shuffle", "n", "speedup", log_x=True)
    beps = _figure(f"{title}: billions of elements per second", "n", "BEPS", log_x=True)
    errors = {
        name: _figure(f"{title}: error, {name} distribution", "n", "error in percent", log_x=True, log_y=True)
        for name in ("normal", "uniform")
    }
    for who in dict.fromkeys(row["who"] for row in rows):
        line = [row for row in present if row["who"] == who]
        n = [row["n"] for row in line]
        _line(time, who, n, [row["seconds"] * 1e6 for row in line])
        _line(beps, who, n, [row["n"] / row["seconds"] * 1e-9 for row in line])
        timed = [row for row in line if row["n"] in classic]
        _line(
            speedup, who, [row["n"] for row in timed], [classic[row["n"]] / row["seconds"] for row in timed]
        )
        for name, figure in errors.items():
            _line(figure, who, n, [row["percent_error"][name] for row in line])
    return [time, speedup, beps, *errors.values()]
