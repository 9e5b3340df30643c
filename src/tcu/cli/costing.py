"""``tcu cost``: what an algorithm costs on an (m, ℓ)-TCU machine, beside its theorem."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tcu.algorithms.costs import COSTS, cost_of, find_costed
from tcu.algorithms.external_memory import simulate
from tcu.cli import options
from tcu.cli.cost_curve import WRITERS, curve_document, write_curve
from tcu.cli.output import console, print_json, short
from tcu.cli.progress import ProgressBar
from tcu.cli.whole_numbers import is_whole, whole
from tcu.errors import ParameterError
from tcu.machine.ledger import amount
from tcu.plan.cost import modelled_time
from tcu.unfinished import check_place

__all__ = ["cost_command", "latency_of", "whole"]

_DEPTH = 6
"""Sections in sections that the tree shows: more leave no room beside them."""
_SIZE = "The size"
_MACHINE = "The machine"


def cost_command(
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="One of those that [bold]tcu cost list[/bold] shows.")
    ],
    n: Annotated[
        str | None,
        typer.Option("--n", metavar="N", help="The size, such as 1000000, 1e6 or 2^20.", rich_help_panel=_SIZE),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option("--points", metavar="P", help="polynomial: how many points.", rich_help_panel=_SIZE),
    ] = None,
    per_row: Annotated[
        str | None,
        typer.Option("--per-row", metavar="K", help="sparse: numbers in a row of A and B.", rich_help_panel=_SIZE),
    ] = None,
    product: Annotated[
        str | None,
        typer.Option(
            "--product", metavar="WAY", help="dft: complex products by four, three or embedded.", rich_help_panel=_SIZE
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            "--scheme", metavar="NAME", help="sparse: the dense product, resident, standard, strassen or laderman.",
            rich_help_panel=_SIZE,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="sum: tall, two-mma or chained.", rich_help_panel=_SIZE),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option("-R", "--chain", metavar="R", help="sum, chained: MMAs in a row.", rich_help_panel=_SIZE),
    ] = None,
    m: Annotated[
        str,
        typer.Option("--m", metavar="M", help="Entries of the √m × √m operand, a square.", rich_help_panel=_MACHINE),
    ] = "256",
    latency: Annotated[
        str,
        typer.Option(
            "--latency", metavar="L", help="ℓ: what a tensor call costs beside n·√m, in CPU operations.",
            rich_help_panel=_MACHINE,
        ),
    ] = "0",
    word_bits: Annotated[
        str,
        typer.Option("--word-bits", metavar="K", help="κ: the bits of a word.", rich_help_panel=_MACHINE),
    ] = "64",
    weak: Annotated[
        bool,
        typer.Option(
            "--weak", help="A unit for square operands only, and the I/Os of Theorem 8.", rich_help_panel=_MACHINE
        ),
    ] = False,
    units: Annotated[
        str,
        typer.Option("--units", metavar="P", help="Tensor units that run at once.", rich_help_panel=_MACHINE),
    ] = "1",
    sweep: Annotated[
        list[Path] | None,
        typer.Option(
            "--sweep", metavar="FILE",
            help="Write the curve up to n, or over three decades, as .json, .csv or .html (a plot). May be repeated.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:  # fmt: skip
    """What an algorithm costs on an (m, ℓ)-TCU machine: ledger, theorem, ratio.

    Nothing is computed: the program runs on shapes, and its tensor calls and
    CPU steps are counted (Silvestri and Vella, A computational model for tensor core units).

    Example: [bold]tcu cost dft --n 2^20 --m 256 --latency 64[/bold]
    """
    if algorithm == "list":
        _list(list(COSTS.values()), as_json)
        return
    row = find_costed(algorithm)
    given = {"points": points, "per_row": per_row, "chain": chain}
    size: dict[str, Any] = {
        name: None if text is None else whole(_option(name), text) for name, text in given.items()
    }
    size |= {"product": product, "variant": variant, "scheme": scheme}
    number = {} if n is None else {"n": whole("--n", n)}
    machine: dict[str, Any] = {
        "m": whole("--m", m),
        "latency": latency_of(latency),
        "word_bits": whole("--word-bits", word_bits),
        "weak": weak,
        "units": whole("--units", units),
    }
    files = sweep or []
    for file in files:
        if file.suffix not in WRITERS:
            raise ParameterError(f"--sweep {file}: the name must end in {', '.join(WRITERS)}")
        check_place(file)
    if not number and not files:
        raise ParameterError(f"how large? give --n, {row.n}, such as --n 2^20, or --sweep FILE")
    curve = []
    if files:
        sizes = [each for each in row.sizes(machine["m"]) if each < number.get("n", math.inf)]
        sizes += number.values()
        with ProgressBar(sum(sizes)) as bar:
            for each in sizes:
                curve.append(cost_of(row, each, **machine, **size))
                bar.advance(each)
        for file in files:
            write_curve(file, row, curve)
    one = curve[-1] if curve else cost_of(row, number["n"], **machine, **size)
    if as_json:
        print_json(
            _document(one, weak)
            | _several(row, one, machine, size)
            | ({"sweep": curve_document(curve)} if curve else {})
        )
        return
    console().print(_shown(one, weak))
    if several := _several(row, one, machine, size):
        console().print(
            f"{amount(several['units'])} units are {several['speedup']:.2f} times as fast as one; "
            f"at most {several['speedup_limit']:.2f}, as the CPU's steps remain",
            soft_wrap=True,
        )
    for file in files:
        console().print(f"{len(curve)} sizes in {file}", soft_wrap=True)


def _several(row: Any, one: Any, machine: dict[str, Any], size: dict[str, Any]) -> dict[str, Any]:
    """What several units gain over one; nothing of one unit."""
    if one.ledger.units == 1:
        return {}
    alone = cost_of(row, one.size["n"], **(machine | {"units": 1}), **size).ledger
    limit = alone.cost / alone.steps if alone.steps else math.inf
    return {
        "units": one.ledger.units,
        "speedup": alone.cost / one.ledger.cost,
        "speedup_limit": min(limit, one.ledger.units),
    }


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def latency_of(text: str) -> int | float:
    """ℓ, as an integer where it is one.  Raises ParameterError."""
    if is_whole(text):
        return whole("--latency", text)
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"--latency {text}: give a number of at least 0, such as 64") from None


def _list(rows: list[Any], as_json: bool) -> None:
    if as_json:
        print_json([{"name": row.name, "title": row.title, "theorem": row.theorem, "n": row.n,
                     "options": list(row.options), "constant": row.constant,
                     "constant_everywhere": row.everywhere} for row in rows])  # fmt: skip
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("name", "what", "bound", "n counts", "options"):
        table.add_column(name)
    for row in rows:
        given = " ".join(map(_option, row.options))
        table.add_row(Text(row.name, style="cyan"), row.title, row.theorem, row.n, given)
    console().print(table)


def _document(one: Any, weak: bool) -> dict[str, Any]:
    ledger = one.ledger
    document = {
        "algorithm": one.algorithm.name,
        "theorem": one.algorithm.theorem,
        **one.size,
        "m": ledger.m,
        "latency": ledger.latency,
        "weak": weak,
        "cost": ledger.cost,
        "tensor_calls": ledger.tensor_calls,
        "tensor_cost": ledger.tensor_cost,
        "steps": ledger.steps,
        "bound": one.bound,
        "ratio": one.ratio,
        "whole_bound": one.whole,
        "whole_ratio": one.whole_ratio,
        "constant": one.most,
        "lower_bound": one.lower,
        "ledger": ledger.to_dict()["entries"],
    }
    if weak:
        moved, least = _transfers(one)
        document["transfers"] = {"reads": moved.reads, "writes": moved.writes, "memory": moved.memory,
                                 "per_time": moved.ratio, "lower_bound": least}  # fmt: skip
    if one.algorithm.name == "sum":
        time = _parallel(one)
        document["parallel_steps"] = {
            "two_mma": time.two_mma,
            "chained": time.chained,
            "classic": time.classic,
        }
    return document


def _transfers(one: Any) -> tuple[Any, float | None]:
    moved = simulate(one.ledger)
    known = one.algorithm.transfers
    return moved, None if known is None else known(moved.memory, one.size)


def _parallel(one: Any) -> Any:
    """The papers' own count for the same sum: parallel steps, their m being the side of a matrix."""
    return modelled_time(one.size["n"], one.size["chain"], one.ledger.side)


def _shown(one: Any, weak: bool) -> RenderableType:
    row, ledger = one.algorithm, one.ledger
    what = ", ".join(f"{name} = {amount(value)}" if isinstance(value, int) else f"{name} {value}"
                     for name, value in one.size.items())  # fmt: skip
    lines = [Text.assemble((row.title, "bold cyan"), f": {what}"), ledger.folded(_DEPTH)]
    if any(len(entry.path) > _DEPTH for entry in ledger):
        lines.append(Text(f"what lies deeper than {_DEPTH} sections is taken together; --json lists all"))
    lines.append(
        Text(f"{row.theorem}: {_amount(one.bound)} without its constant; this is {one.ratio:.3f} times that")
    )
    most = "" if one.most is None else f", for every n at most {one.most:g}"
    lines.append(Text(f"in whole tensor calls {_amount(one.whole)}: {one.whole_ratio:.3f} times that{most}"))
    if one.lower is not None:
        lines.append(
            Text(
                f"no program costs less than {_amount(one.lower)}: {short(ledger.cost / one.lower)} times that"
            )
        )
    if weak:
        moved, least = _transfers(one)
        known = "" if least is None else f", of at least {_amount(least)} that any program needs"
        lines.append(
            Text(
                f"with {amount(moved.memory)} words of memory, {amount(moved.total)} I/Os{known}: "
                f"{moved.ratio:.2f} for a unit of time (Theorem 8: at most 3)"
            )
        )
    if row.name == "sum":
        time = _parallel(one)
        lines.append(
            Text(
                f"in parallel steps, as the reductions' papers count: two-MMA {short(time.two_mma)}, "
                f"chained {short(time.chained)}, without matrix units {short(time.classic)}"
            )
        )
    return Group(*lines)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.4g}"
