"""The figures of gpu_sum.py on a terminal, and what is wrong in them."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

Rows = list[dict[str, Any]]
WIDTH = 200
"""Columns where the output is no terminal."""


def console() -> Console:
    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDTH)


def power(n: int) -> str:
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else f"{n:,}"


def show_dtype(dtype: str, rows: Rows) -> None:
    """Two tables of speed, one line a participant and one column a size; then errors and who is missing."""
    measured = [row for row in rows if "events" in row]
    columns = list(dict.fromkeys((row["n"], row["cache"]) for row in measured))
    names = list(dict.fromkeys(row["participant"] for row in measured))
    cell = {(row["participant"], row["n"], row["cache"]): row for row in measured}
    for method, title in (("events", "one call, CUDA events"), ("graph", "calls in a row, CUDA graph")):
        table = Table(title=f"{dtype}: TB/s, {title}")
        table.add_column("participant", no_wrap=True)
        for n, cache in columns:
            table.add_column(power(n) + ("" if cache == "cold" else f"\n{cache}"), justify="right")
        for name in names:
            table.add_row(name, *(_speed(cell.get((name, *column)), method) for column in columns))
        console().print(table)
    _show_errors(dtype, names, measured)
    for row in rows:
        if "missing" in row and row["missing"] != "not at this size":
            where = f" at {power(row['n'])}" if "n" in row else ""
            console().print(f"{row['participant']}{where}: {row['missing']}", style="dim", markup=False)


def _speed(row: dict[str, Any] | None, method: str) -> str:
    if row is None or "missing" in row[method]:
        return "–"
    if _is_wrong(row):
        return "WRONG"
    return f"{row[method]['tb_per_s']:.3f}"


def _show_errors(dtype: str, names: list[str], rows: Rows) -> None:
    table = Table(title=f"{dtype}: largest error over all sizes, in ulp of the result")
    table.add_column("participant", no_wrap=True)
    for title in ("normal", "uniform", "bits of the CPU model"):
        table.add_column(title, justify="right")
    for name in names:
        errors = [row["errors"] for row in rows if row["participant"] == name and row["errors"].get("normal")]
        if errors:
            bits = [
                one["model_bits_equal"] for e in errors for one in e.values() if "model_bits_equal" in one
            ]
            same = "" if not bits else "yes" if all(bits) else "NO"
            table.add_row(name, *(_worst([e[d] for e in errors]) for d in ("normal", "uniform")), same)
    console().print(table)


def _worst(errors: Rows) -> str:
    finite = [error["ulps"] for error in errors if error["ulps"] is not None]
    text = f"{max(finite):.3g}" if finite else ""
    return text + (" overflow" if len(finite) < len(errors) else "")


def show_hard(rows: Rows) -> None:
    table = Table(title="tcu.fsum on arrays built to defeat it")
    for title in ("dtype", "array", "elements", "bits of the CPU", "time over normal data"):
        table.add_column(title)
    for row in rows:
        table.add_row(row["dtype"], row["array"], f"{row['n']:,}", row["state"], f"{row['times_normal']:.2f}")
    console().print(table)


def show_energy(rows: Rows) -> None:
    table = Table(title="energy of back-to-back sums of 2^30 numbers")
    for title in ("dtype", "participant", "round", "J/TB", "W", "TB/s"):
        table.add_column(title, justify="left" if title in ("dtype", "participant") else "right")
    for row in rows:
        keys = ("joules_per_terabyte", "watts", "terabytes_per_second")
        figures = (row["missing"], "", "") if "missing" in row else tuple(f"{row[key]:.4g}" for key in keys)
        table.add_row(row["dtype"], row["participant"], str(row["round"]), *figures)
    console().print(table)


def show_host(host: dict[str, Any]) -> None:
    table = Table(title="host time of a call, 1024 binary16 numbers")
    table.add_column("call")
    for title in ("µs", "p10", "p90"):
        table.add_column(title, justify="right")
    for name, row in host.items():
        keys = ("median", "p10", "p90")
        table.add_row(
            name, *((row["missing"], "", "") if "missing" in row else (f"{row[k] * 1e6:.2f}" for k in keys))
        )
    console().print(table)


def show_claims(claims: Rows) -> None:
    """Without those in L2, which the file has."""
    table = Table(title="ratios")
    for title in ("what", "of", "over", "ratio"):
        table.add_column(title)
    for claim in (one for one in claims if one.get("cache") != "in L2"):
        if "by_n" in claim:
            what = f"{claim['dtype']} {claim['what']}, {claim['method']}, {claim['cache']}"
            ratio = "  ".join(f"{power(n)}: {value:.3f}" for n, value in claim["by_n"].items())
        else:
            what = f"{claim.get('dtype', '')} {claim['what']}".strip()
            ratio = f"{claim['ratio']:.3f}"
        table.add_row(what, claim["of"], claim["over"], ratio)
    console().print(table)


def _is_wrong(row: dict[str, Any]) -> bool:
    return any(error.get("state") == "WRONG" for error in row["errors"].values())


def show_wrong(figures: dict[str, Any]) -> int:
    """A line for each wrong result; the exit status is 1 if one of them is tcu's."""
    wrong = [row for row in figures["rows"] if "errors" in row and row["cache"] == "cold" and _is_wrong(row)]
    for row in wrong:
        print(f"WRONG: {row['participant']}, {row['dtype']}, {power(row['n'])}: {row['errors']}")
    hard = [row for row in figures["hard"] if row["state"] == "WRONG"]
    for row in hard:
        print(f"WRONG: tcu.fsum, {row['dtype']}, {row['array']}: {row['result']}")
    ours = any(row["participant"].startswith("tcu") for row in wrong)
    return 1 if ours or hard else 0
