"""``tcu sum`` and ``tcu compare``: a file's sum as tensor cores compute it."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli.data import DataElements, count_text, of_the_rounded
from tcu.cli.files import read_elements, source_text
from tcu.cli.outcome import Method, Outcome, compute, warn_about
from tcu.cli.output import console, json_number, print_json, short
from tcu.cli.progress import ProgressBar
from tcu.cli.reductions import Reduced, answer, check_exact, reduced
from tcu.cli.resuming import unit_of
from tcu.cli.rows import Along, is_wanted
from tcu.errors import DtypeError, ParameterError, unknown_name
from tcu.ops import FSUM, SUM
from tcu.plan import DEFAULT_VARIANT, VARIANTS
from tcu.units import get_unit

__all__ = ["compare_command", "sum_command"]

COMPARED_UNITS = ("V100", "A100", "H100", "B200")


@options.spread
def sum_command(
    file: options.DataFiles,
    *,
    unit: options.UnitName = None,
    variant: options.Variant = DEFAULT_VARIANT,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="The exact sum alone, rounded once: as fast as the numbers can be read."
        ),
    ] = False,
    schedule: options.Schedule,
    numbers: options.Numbers,
    reading: options.Reading,
    along: Along,
    dtype: options.ResultDtype = None,
    as_json: options.Json = False,
) -> None:
    """Sum numbers by a plan, or as a tensor core would, and compare with the exact sum.

    Prints the sum, its bits, the exact sum, the error and a proved bound of it,
    and the times that the papers' formulas give, in units of one MMA, addition
    or memory access each.  Several files, a folder or a glob count as one array,
    in the order of their names; they may be larger than memory.

    Examples: [bold]tcu sum data.npy --unit A100 --variant single-pass -R 4[/bold]

    [bold]tcu sum table.csv --column price --input-dtype float32[/bold]

    [bold]tcu sum --exact --checkpoint state.json 'run-*/*.npy'[/bold] goes on after an interruption.

    [bold]tcu sum matrix.npy --axis -1 -o sums.npy[/bold] sums every row alone.
    """
    schedule.check([variant])
    method = Method(unit or unit_of(reading), variant, schedule, dtype)
    if exact:
        check_exact(unit, method, is_wanted(along, file))

    def work(elements: DataElements, **how: Any) -> Reduced | Outcome:
        return (
            reduced(elements, FSUM, method, "exact sum", **how) if exact else compute(elements, method, **how)
        )

    answer(SUM, file, method, numbers, reading, along, as_json, work)


@options.spread
def compare_command(
    file: options.DataFile,
    *,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", metavar="UNIT", help=f"May be repeated; else {', '.join(COMPARED_UNITS)}."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME",
            help=f"May be repeated; else all for the dtype: {', '.join(VARIANTS)}.",
        ),
    ] = None,
    schedule: options.Schedule,
    numbers: options.Numbers,
    dtype: options.ResultDtype = None,
    as_json: options.Json = False,
) -> None:
    """Sum a file on several units by several variants, side by side.

    The smallest error is marked.  What a unit cannot compute shows as "–";
    the last lines say why.  --chain, --accumulator and --fraction likewise rule
    out the variants that have none.

    Example: [bold]tcu compare data.npy --unit V100 --unit H100 --input-dtype float16[/bold]
    """
    units = [get_unit(name).name for name in dict.fromkeys(unit or COMPARED_UNITS)]
    variants = list(dict.fromkeys(variant or VARIANTS))
    for name in variants:
        if name not in VARIANTS:
            raise unknown_name("variant", name, VARIANTS)
    schedule.check(variants)
    elements = read_elements(file, numbers)
    if not variant:
        variants = [name for name in variants if VARIANTS[name].takes(elements.format)]
    methods = [Method(one, name, schedule, dtype) for one in units for name in variants]
    with ProgressBar(len(methods) * elements.n, itemsize=elements.dtype.itemsize) as bar:
        rows: list[Row] = []
        exact: float | None = None
        for method in methods:
            outcome = _attempt(elements, method, exact, bar)
            rows.append((method, outcome))
            exact = outcome.exact if isinstance(outcome, Outcome) else exact
    warn_about(elements)
    reasons = [outcome for _, outcome in rows if not isinstance(outcome, Outcome)]
    if exact is None:
        raise reasons[0]
    errors = [outcome.relative_error for _, outcome in rows if isinstance(outcome, Outcome)]
    best = min((error for error in errors if not math.isnan(error)), default=math.nan)
    if as_json:
        print_json(_comparison(elements, exact, rows, best))
        return
    screen = console()
    table = _fitting_table(rows, best, screen)
    summary = f"{count_text(elements)}, exact sum{of_the_rounded(elements)} {exact!r}"
    legend = [Text("★ smallest error", style="dim"), *_absences(reasons)]
    if len(table.columns) < len(_COLUMNS):
        legend.append(Text("A wider terminal shows more columns.", style="dim"))
    screen.print(Group(Text(f"{source_text(file, numbers)}: {summary}"), table, *legend))


def _absences(reasons: list[DtypeError | ParameterError]) -> list[Text]:
    """Why cells are empty: each option that rules variants out, and what units lack in one sentence."""
    options_first = dict.fromkeys(str(each) for each in reasons if isinstance(each, ParameterError))
    lines = [f"– {reason}" for reason in options_first]
    if any(isinstance(each, DtypeError) for each in reasons):
        lines.append("– the unit does not have the MMA that the variant needs; --json says which")
    return [Text(line, style="dim") for line in lines]


Row = tuple[Method, Outcome | DtypeError | ParameterError]


def _attempt(
    elements: DataElements, method: Method, exact: float | None, bar: ProgressBar
) -> Outcome | DtypeError | ParameterError:
    try:
        return compute(elements, method, exact, progress=bar.advance)
    except (DtypeError, ParameterError) as error:
        return error


_OF_ALL = ("n", "dtype", "exact", "rounded_from")
"""What a comparison says once."""


def _comparison(elements: DataElements, exact: float, rows: list[Row], best: float) -> dict[str, Any]:
    documents: list[dict[str, Any]] = []
    for method, outcome in rows:
        if isinstance(outcome, Outcome):
            document = outcome.document() | {
                "unit": outcome.info.unit,
                "best": outcome.relative_error == best,
                "reason": None,
            }
            documents.append({key: document[key] for key in document if key not in _OF_ALL})
        else:
            documents.append(
                {"unit": method.unit, "variant": method.variant, "result": None, "reason": str(outcome)}
            )
    return {
        "n": elements.n,
        "dtype": str(elements.format.dtype),
        "exact": json_number(exact),
        "rounded_from": elements.rounded_from,
        "rows": documents,
    }


_COLUMNS = (
    ("variant", "left"), ("R", "right"), ("B", "right"), ("sum", "right"), ("rel. error", "right"),
    ("", "left"), ("bound", "right"), ("MMAs", "right"), ("bits", "left"),
)  # fmt: skip
_DISPENSABLE = ("MMAs", "bound", "bits")
"""Columns that a narrow terminal does without, in this order."""
_BOUNDLESS = 1000


def _fitting_table(rows: list[Row], best: float, screen: Console) -> Table:
    hidden: set[str] = set()
    table = _table(rows, best, hidden)
    boundless = screen.options.update(width=_BOUNDLESS)
    for name in _DISPENSABLE:
        if screen.measure(table, options=boundless).maximum <= screen.width:
            break
        hidden.add(name)
        table = _table(rows, best, hidden)
    return table


def _table(rows: list[Row], best: float, hidden: set[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name, justify in _COLUMNS:
        if name not in hidden:
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    shown = ""
    for method, outcome in rows:
        if method.unit != shown:
            if shown:
                table.add_section()
            table.add_row(Text(method.unit, style="bold cyan"))
            shown = method.unit
        cells = _cells(method, outcome, best)
        table.add_row(*[cell for (name, _), cell in zip(_COLUMNS, cells, strict=True) if name not in hidden])
    return table


def _cells(method: Method, outcome: Outcome | DtypeError | ParameterError, best: float) -> list[str | Text]:
    if not isinstance(outcome, Outcome):
        none = Text("–", style="dim")
        return [Text(f"  {method.variant}", style="dim"), *[none] * 4, "", *[none] * 3]
    plan, error = outcome.info.plan, outcome.relative_error
    style = "bold green" if error == best else ""
    return [
        f"  {plan.variant}", "–" if plan.chain is None else str(plan.chain), str(plan.block),
        str(outcome.result), Text(short(error), style=style), Text("★" if style else "", style=style),
        short(outcome.bound), f"{outcome.info.mmas:,}", outcome.bits,
    ]  # fmt: skip
