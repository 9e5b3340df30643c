"""Ledger over bound of every algorithm of the (m, ℓ)-TCU machine: the constants behind the theorems.

    python benchmarks/machine_bounds.py [--html FILE]

n grows over three decades and more, m in {16, 256, 65536}, ℓ in {0, m, 100 m};
nothing is computed, programs run on shapes.  Writes
benchmarks/results/machine-bounds.json and, with Plotly, one page of plots.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import record

from tcu.algorithms import COSTS, cost_of, simulate
from tcu.algorithms.costs import CostedAlgorithm

SIZES = (16, 256, 65536)
LATENCIES = (0, 1, 100)
"""ℓ as multiples of m."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--html", type=Path, help="write the plots to this page")
    options = parser.parse_args()
    start = time.perf_counter()
    figures: dict[str, Any] = {
        "algorithms": [measure(row) for row in COSTS.values()],
        "latency": latency_terms(),
    }
    figures["seconds"] = time.perf_counter() - start
    print(f"{'':12}{'bound':42}{'constant':>9}{'worst':>9}{'least':>9}{'I/O over time':>15}")
    for row in figures["algorithms"]:
        print(
            f"{row['name']:12}{row['theorem']:42}{row['constant']:9.4g}{row['worst']:9.4g}{row['least']:9.4g}"
            f"{row['most_transfers_per_time']:15.3f}"
        )
    print(record.save("machine-bounds", figures))
    if options.html:
        options.html.write_text(page(figures), encoding="utf-8")
        print(options.html)


def measure(row: CostedAlgorithm) -> dict[str, Any]:
    curves = []
    for m in SIZES:
        for multiple in LATENCIES:
            runs = [cost_of(row, n, m, multiple * m) for n in row.sizes(m)]
            curves.append(
                {
                    "m": m,
                    "latency": multiple * m,
                    "n": [one.size["n"] for one in runs],
                    "cost": [one.ledger.cost for one in runs],
                    "bound": [one.bound for one in runs],
                    "ratio": [one.ratio for one in runs],
                    "lower_bound": [one.lower for one in runs],
                }
            )
    ratios = [ratio for curve in curves for ratio in curve["ratio"]]
    return {
        "name": row.name, "title": row.title, "theorem": row.theorem, "n": row.n, "constant": row.constant,
        "worst": max(ratios), "least": min(ratios), "curves": curves,
        "most_transfers_per_time": max(transfers(row)),
    }  # fmt: skip


def transfers(row: CostedAlgorithm) -> list[float]:
    """I/Os of the weak machine over its time, at most 3 (Theorem 8)."""
    return [
        simulate(cost_of(row, n, m, 0, weak=True).ledger).ratio for m in SIZES[:2] for n in row.sizes(m)[:4]
    ]


def latency_terms() -> list[dict[str, Any]]:
    """What ℓ costs in Theorems 1 and 2: the same product, with squares and with one operand resident."""
    rows = []
    for m in SIZES:
        for blocks in (2, 8, 32):
            n, latency = blocks * math.isqrt(m), 100 * m
            tall, squares = (cost_of(name, n, m, latency).ledger for name in ("matmul", "standard"))
            rows.append({"m": m, "latency": latency, "rows": n, "theorem_1": squares.tensor_calls * latency,
                         "theorem_2": tall.tensor_calls * latency, "costs": [squares.cost, tall.cost]})  # fmt: skip
    return rows


def page(figures: dict[str, Any]) -> str:
    import plotly.graph_objects as go

    drawn = []
    for row in figures["algorithms"]:
        figure = go.Figure(
            layout={"title": f"{row['title']}: ledger over {row['theorem']}", "template": "plotly_white"}
        )
        for curve in row["curves"]:
            figure.add_trace(
                go.Scatter(
                    x=curve["n"], y=curve["ratio"], mode="lines+markers",
                    name=f"m = {curve['m']:,}, ℓ = {curve['latency']:,}",
                )
            )  # fmt: skip
        figure.add_hline(y=row["constant"], line_dash="dash", annotation_text=f"stated: {row['constant']:g}")
        figure.update_xaxes(type="log", title=f"n: {row['n']}")
        figure.update_yaxes(title="cost over bound", rangemode="tozero")
        drawn.append(figure.to_html(full_html=False, include_plotlyjs=not drawn))
    body = "\n".join(drawn)
    return f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Ledger over bound</title>\n{body}\n</html>\n'


if __name__ == "__main__":
    main()
