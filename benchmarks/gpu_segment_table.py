"""The figures of gpu_segments.py on a terminal: a line a case, its claims, and what is wrong."""

from __future__ import annotations

from typing import Any

from gpu_segment_claims import Point, best_peer, ceiling, name_of, ours
from gpu_table import console
from rich.box import SIMPLE
from rich.table import Table


def show(figures: dict[str, Any]) -> None:
    points = figures["points"]
    if points:
        _show_speeds(points)
        _show_missing(points)
    _show_first_calls(figures)
    _show_claims(figures["claims"])


def _show_speeds(points: list[Point]) -> None:
    pairs = list(dict.fromkeys((point["dtype"], point["result"]) for point in points))
    cell = {(point["dtype"], point["result"], _case(point)): point for point in points}
    table = Table(
        title=f"{points[0]['part']}: TB/s of tcu, its share of the ceiling, its ratio to the best peer",
        box=SIMPLE,
    )
    table.add_column("case", no_wrap=True)
    for pair in pairs:
        table.add_column("→".join(pair), justify="right")
        for title in ("/ceiling", "/best"):
            table.add_column(title, justify="right")
        table.add_column("best peer", no_wrap=True)
    for case in dict.fromkeys(_case(point) for point in points):
        cells: list[str] = []
        for pair in pairs:
            cells += _cells(cell.get((*pair, case)))
        table.add_row(case, *cells)
    console().print(table)


def _case(point: Point) -> str:
    """The same for each dtype, though a shape's first length may differ."""
    if point.get("axis") is None or point["layout"] == "rows":
        return name_of(point)
    shape = [str(length) for length in point["shape"]]
    free = 1 - point["axis"]  # of the first axis the second is free, of a middle one the first
    shape[free] = "·"
    return f"{point['layout']} ({', '.join(shape)})"


def _cells(point: Point | None) -> list[str]:
    if point is None:
        return ["", "", "", ""]
    mine, top, best = ours(point), ceiling(point), best_peer(point)
    wrong = any(
        row.get("state") == "WRONG" for name, row in point["participants"].items() if name[:4] == "tcu."
    )
    return [
        "WRONG" if wrong else "–" if mine is None else f"{mine:.2f}",
        f"{mine / top:.3f}" if mine and top else "–",
        f"{mine / best[1]:.2f}" if mine and best else "–",
        f"{best[0]} {best[1]:.2f}" if best else "–",
    ]


def _show_missing(points: list[Point]) -> None:
    tops = [top for point in points if (top := ceiling(point)) is not None]
    if tops:
        console().print(f"ceiling: {min(tops):.3f} to {max(tops):.3f} TB/s", style="dim")
    missing: dict[str, int] = {}
    peers: dict[str, int] = {}
    for point in points:
        for name, row in point["participants"].items():
            if "missing" in row:
                line = f"{name}: {row['missing']}"
                missing[line] = missing.get(line, 0) + 1
            elif row.get("state") == "WRONG" and not name.startswith("tcu."):
                peers[name] = peers.get(name, 0) + 1
    for line, count in missing.items():
        console().print(f"{line} ({count} cases)", style="dim", markup=False)
    if peers:
        text = ", ".join(f"{name} in {count}" for name, count in peers.items())
        console().print(
            f"peers beyond their bounds: {text} of {len(points)} cases", style="dim", markup=False
        )


def _show_first_calls(figures: dict[str, Any]) -> None:
    for row in figures["first_calls"]:
        seconds = row.get("missing") or ", ".join(
            f"{name} {row[name]:.3f} s" for name in ("import", "first call", "second call")
        )
        text = f"{row['of']}, rows of {row['length']}, {row['cache']} cache: {seconds}"
        console().print(text, style="dim", markup=False)
    taken = sorted(row["seconds"] for row in figures["compile_seconds"] if "seconds" in row)
    if taken:
        text = f"torch.compile, processes side by side: {taken[0]:.1f} to {taken[-1]:.1f} s a shape"
        console().print(text, style="dim", markup=False)
    for row in figures["compile_seconds"]:
        if "missing" in row:
            console().print(f"torch.compile: {row['missing']}", style="dim", markup=False)


def _show_claims(claims: list[dict[str, Any]]) -> None:
    """A line a claim, a column for each pair of dtypes; the file names every case that fails."""
    pairs = list(dict.fromkeys(line["pair"] for line in claims))
    rows: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in claims:
        asked = f"≥ {line['at_least']:.3g}" if "at_least" in line else f"≤ {line['at_most']:.3g}"
        rows.setdefault((line["claim"], asked), {})[line["pair"]] = line
    table = Table(title="claims: the worst case", box=SIMPLE)
    for title in ("claim", "asked", *pairs):
        table.add_column(title)
    for (claim, asked), lines in rows.items():
        table.add_row(claim, asked, *(_claim_cell(lines.get(pair)) for pair in pairs))
    console().print(table)


def _claim_cell(line: dict[str, Any] | None) -> str:
    if line is None:
        return ""
    if line["state"] == "not measured":
        return "not measured"
    worst = "no case to win" if line["worst"] is None else f"{line['worst']:.3f} at {line['at']}"
    count = f": {len(line['failing'])} of {line['measured']}" if line["failing"] else ""
    return f"{line['state']}{count}, {worst}"


def show_wrong(figures: dict[str, Any]) -> int:
    """A line for each wrong result of tcu; how many there are."""
    count = 0
    for point in figures["points"]:
        for name, row in point["participants"].items():
            if name.startswith("tcu.") and row.get("state") == "WRONG":
                count += 1
                print(f"WRONG: {name}, {point['dtype']}→{point['result']}, {name_of(point)}: {row}")
    return count
