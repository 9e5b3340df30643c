"""``tcu calibrate``: the CPU or a GPU as an (m, ℓ)-TCU machine, and how well that predicts times."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tcu.calibration import calibrate
from tcu.cli import options
from tcu.cli.cost_curve import plotly
from tcu.cli.output import console, error_console, print_json, short, write_page
from tcu.report.html_page import Markup, page, tag
from tcu.unfinished import check_place

__all__ = ["calibrate_command", "calibration_page"]


def calibrate_command(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", help="cpu (NumPy's BLAS) or gpu (tensor cores, with CuPy).")
    ] = "cpu",
    input_format: Annotated[
        str | None,
        typer.Option("--input", metavar="FORMAT", help="gpu: f64 (default), f16, bf16, tf32, u8 or s8."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and smaller products and algorithms.")
    ] = False,
    as_json: options.Json = False,
    html: options.Html = None,
) -> None:
    """Fit m, ℓ and a unit of time to measured tall products, then predict algorithms and compare.

    An (m, ℓ)-TCU machine takes n·√m + ℓ units of time for an n × √m by √m × √m product and
    one for an operation of the CPU.  How far times so predicted are from the clock's is
    the open question of the model's paper.

    Example: [bold]tcu calibrate gpu --input f16 --html calibration.html[/bold]
    """
    if html is not None:
        check_place(html)
        plotly("graph_objects")  # before the measurement, not after it
    with error_console().status("measuring") as status:
        found = calibrate(device, input=input_format, quick=quick, progress=status.update)
    if html is not None:
        write_page(html, calibration_page(found))
    if as_json:
        print_json(found.to_dict())
    else:
        console().print(_shown(found))


def _shown(found: Any) -> RenderableType:
    fit = found.fit
    head = Text.assemble(
        (found.device, "bold cyan"),
        f"\nm = {fit.m:,}, latency {fit.latency:,.0f} ({_time(fit.latency * fit.unit_seconds)}), "
        f"unit of time {_time(fit.unit_seconds)}; {len(found.samples)} products, "
        f"off by {fit.median_error:.0%} in the median and {fit.largest_error:.0%} at most\n"
        f"an operation of the CPU takes {_time(found.step_seconds)} in a long vector, and a vector {_time(found.vector_seconds)}",
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("algorithm")
    for name in ("n", "tensor calls", "measured", "predicted", "error", "steps apart", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found.predictions:
        table.add_row(
            one.algorithm, f"{one.n:,}", f"{one.tensor_calls:,}", _time(one.seconds), _time(one.predicted),
            f"{one.error:+.0%}", _time(one.predicted_apart), f"{one.error_apart:+.0%}",
        )  # fmt: skip
    tail = Text("steps apart: with the measured time of an operation instead of the unit", style="dim")
    return Group(head, table, tail)


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{short(seconds / 1e-12)} ps"


def calibration_page(found: Any) -> str:
    """Both comparisons drawn: the fitted products, and the predicted algorithms."""
    go, subplots = plotly("graph_objects"), plotly("subplots")
    figure = subplots.make_subplots(rows=1, cols=2, subplot_titles=("tall products", "algorithms"))
    for side in sorted({sample.side for sample in found.samples}):
        own = [sample for sample in found.samples if sample.side == side]
        rows = [sample.rows for sample in own]
        name = f"side {side}"
        times = [sample.seconds for sample in own]
        figure.add_trace(
            go.Scatter(x=rows, y=times, mode="markers", name=name, legendgroup=name), row=1, col=1
        )
        fitted = [found.fit.seconds(n, side) for n in rows]
        line = {"mode": "lines", "legendgroup": name, "showlegend": False, "line": {"dash": "dot"}}
        figure.add_trace(go.Scatter(x=rows, y=fitted, **line), row=1, col=1)
    for name in dict.fromkeys(one.algorithm for one in found.predictions):
        own = [one for one in found.predictions if one.algorithm == name]
        points = {"x": [one.seconds for one in own], "y": [one.predicted for one in own]}
        figure.add_trace(go.Scatter(**points, mode="lines+markers", name=name), row=1, col=2)
    if found.predictions:
        ends = [pick(one.seconds for one in found.predictions) for pick in (min, max)]
        figure.add_trace(
            go.Scatter(x=ends, y=ends, mode="lines", name="exact", line={"dash": "dash"}), row=1, col=2
        )
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(type="log", exponentformat="power")
    figure.update_xaxes(title="rows", row=1, col=1)
    figure.update_yaxes(title="seconds", row=1, col=1)
    figure.update_xaxes(title="measured seconds", row=1, col=2)
    figure.update_yaxes(title="predicted seconds", row=1, col=2)
    figure.update_layout(template="plotly_white", height=560)
    drawn = Markup(figure.to_html(full_html=False, include_plotlyjs=True))
    names = ("algorithm", "n", "measured", "predicted", "error", "steps apart", "error")
    body = [
        tag("tr", *(tag("td", text) for text in (
            one.algorithm, f"{one.n:,}", _time(one.seconds), _time(one.predicted), f"{one.error:+.0%}",
            _time(one.predicted_apart), f"{one.error_apart:+.0%}")))
        for one in found.predictions
    ]  # fmt: skip
    table = tag("table", tag("thead", tag("tr", *(tag("th", name) for name in names))), tag("tbody", *body))
    fit = found.fit
    title = f"{found.device} as an (m, ℓ)-TCU machine"
    facts = f"m = {fit.m:,}, latency {fit.latency:,.0f}, unit of time {_time(fit.unit_seconds)}"
    return page(title, facts, drawn, tag("div", table, class_="table"))
