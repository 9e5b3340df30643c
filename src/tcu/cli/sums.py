"""``tcu sum`` and ``tcu compare``: a file's sum as tensor cores compute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli.data import DataElements, count_text, of_the_rounded
from tcu.cli.exact import ExactOutcome, check_exact, exact_outcome, exact_panel
from tcu.cli.files import read_elements
from tcu.cli.outcome import Method, Outcome, compute, warning
from tcu.cli.output import console, json_number, print_json, short, visible, warn
from tcu.cli.progress import ProgressBar
from tcu.cli.resuming import check_alone, checkpoint_of, unit_of
from tcu.cli.rows import Along, is_wanted, sum_along
from tcu.errors import DtypeError, ParameterError, unknown_name
from tcu.plan import DEFAULT_VARIANT, VARIANTS
from tcu.units import DEFAULT_UNIT, get_unit

__all__ = ["compare_command", "sum_command"]

COMPARED_UNITS = ("V100", "A100", "H100", "B200")
_VARIANTS = ", ".join(VARIANTS)


@options.spread
def sum_command(
    file: options.DataFiles,
    *,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            metavar="UNIT",
            help=f"See [bold]tcu units[/bold]; else {DEFAULT_UNIT}, or with --gpu the GPU's.",
        ),
    ] = None,
    variant: Annotated[
        str, typer.Option("--variant", metavar="NAME", help=f"One of {_VARIANTS}.")
    ] = DEFAULT_VARIANT,
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
    """Sum numbers as a tensor core would, and compare with the exact sum.

    Prints the sum, its bits, the exact sum, the error and a proved bound of it,
    and the times that the papers' formulas give, in units of one MMA, addition
    or memory access each.  Several files, a folder or a glob count as one array,
    in the order of their names; they may be larger than memory.

    Examples: [bold]tcu sum data.npy --unit A100 --variant single-pass -R 4[/bold]

    [bold]tcu sum table.csv --column price --input-dtype float32[/bold]

    [bold]tcu sum --exact --checkpoint state.json 'run-*/*.npy'[/bold] goes on after an interruption.

    [bold]tcu sum matrix.npy --axis -1 -o sums.npy[/bold] sums every row alone.
    """
    _check_fraction(schedule, [variant])
    into_file = is_wanted(along, file)
    method = Method(unit or unit_of(reading), variant, schedule, dtype)
    if exact:
        check_exact(unit, method, into_file)
    memory = options.size_of(reading.memory)
    elements = read_elements(file, numbers, memory, once=not into_file)
    source = _source(elements.source.name, numbers)
    if into_file:
        check_alone(reading)
        sum_along(elements, source, along, method, as_json)
        _warn(elements)
        return
    with ProgressBar(elements.n, itemsize=elements.dtype.itemsize) as bar:
        how: Any = {
            "memory": memory,
            "checkpoint": lambda task: checkpoint_of(elements, reading, task),
            "progress": bar.advance,
            "gpu": 0 if reading.gpu else None,
        }
        outcome = exact_outcome(elements, dtype, **how) if exact else compute(elements, method, **how)
    _warn(elements)
    if as_json:
        print_json(outcome.document())
    else:
        panel = exact_panel(outcome, source) if isinstance(outcome, ExactOutcome) else _panel(outcome, source)
        console().print(panel)


def _check_fraction(schedule: options.Schedule, variants: Sequence[str]) -> None:
    """Refuse the share of the tensor cores where nothing would be shared."""
    if schedule.fraction is not None and "split" not in variants:
        raise ParameterError(
            f"--fraction {schedule.fraction}: only the variant split divides the numbers between tensor cores and "
            "ordinary ones: give --variant split, or leave --fraction out"
        )


def _source(file: str, numbers: options.Numbers) -> str:
    column = f", column {numbers.column}"
    return visible(file if numbers.column is None or file.endswith(column) else file + column)


def _warn(elements: DataElements) -> None:
    message = warning(elements)
    for each in (*elements.source.remarks, *([] if message is None else [message])):
        warn(each)


def _panel(outcome: Outcome, source: str) -> Panel:
    plan, time = outcome.info.plan, outcome.info.modelled_time
    chain = "" if plan.chain is None else f"R = {plan.chain}, "
    unit = get_unit(outcome.info.unit)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    rows: list[tuple[str, str | Text]] = [
        ("numbers", count_text(outcome.elements)),
        ("unit", f"{unit.name} ({unit.architecture})"),
        ("variant", f"{plan.variant}, {chain}B = {plan.block}"),
        ("", ""),
        ("sum", Text(str(outcome.result), style="bold")),
        ("bits", f"{outcome.bits}  ({outcome.format.name})"),
        ("exact sum", f"{outcome.exact!r}{of_the_rounded(outcome.elements)}"),
        ("relative error", _error_text(outcome)),
        ("error bound", _bound_text(outcome)),
        ("", ""),
        ("MMAs", f"{outcome.info.mmas:,}"),
        ("levels", f"{outcome.info.levels}"),
        ("modelled time", _times(("two-MMA", time.two_mma), ("chained", time.chained), ("classic", time.classic))),
        ("", Text("units of time: one per MMA, addition or memory access", style="dim")),
        ("speedup", _times(("two-MMA", time.speedup_two_mma), ("chained", time.speedup_chained))),
    ]  # fmt: skip
    for label, value in rows:
        grid.add_row(label, value)
    return Panel(grid, title=Text(f"sum of {source}", style="bold"), title_align="left", expand=False, padding=(0, 1),
                 box=box.ROUNDED)  # fmt: skip


def _times(*named: tuple[str, float]) -> Text:
    text = Text()
    for name, value in named:
        text.append(f"{name} ", style="dim")
        text.append(f"{value:.2f}   ")
    text.rstrip()
    return text


def _error_text(outcome: Outcome) -> Text:
    error, ulps = outcome.relative_error, outcome.ulps
    if error == 0:
        return Text("0", style="green")
    text = Text(short(error))
    if ulps is not None and error > 0:
        text.append(f"  ({short(ulps)} ulp of {outcome.format.name})", style="dim")
    return text


def _bound_text(outcome: Outcome) -> str:
    if math.isnan(outcome.bound):
        return "none: the numbers hold inf or NaN"
    if math.isinf(outcome.bound):
        return "none: an overflow cannot be excluded"
    return f"{short(outcome.bound)}  (absolute)"


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
            "--variant", metavar="NAME", help=f"May be repeated; else all for the dtype: {_VARIANTS}."
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
    _check_fraction(schedule, variants)
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
    _warn(elements)
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
    screen.print(Group(Text(f"{_source(file, numbers)}: {summary}"), table, *legend))


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
            document = outcome.document() | {"best": outcome.relative_error == best, "reason": None}
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
