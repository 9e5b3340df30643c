"""``tcu probe`` and ``tcu infer``: what a unit, a GPU or a function computes, found by asking it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli import probe_page as page
from tcu.cli.foreign import foreign_function, told
from tcu.cli.output import console, print_json, write_page
from tcu.cli.progress import waiting
from tcu.errors import DtypeError, ParameterError, UnknownNameError, unknown_name
from tcu.probes import infer, probe
from tcu.probes.finding import Probe
from tcu.probes.infer import Inference
from tcu.probes.target import Function, Operation, Target, as_target
from tcu.unfinished import check_place
from tcu.units import CATALOGUE, find_instruction

__all__ = ["infer_command", "probe_command"]

NOT_IDENTIFIED = 1
COMPARED_FORMATS = (
    ("binary16", "binary32"), ("binary16", "binary16"), ("bfloat16", None), ("tf32", None), ("e4m3", None),
    ("e5m2", None), ("binary64", None),
)  # fmt: skip
"""Inputs and outputs (None: the widest) of the tables that ``tcu probe --all`` prints."""
_SOURCES_FROM = 100
"""Columns of a terminal that has room for the sources."""
_STYLES = {"": "", "name": "bold", "dim": "dim", "good": "green", "differs": "bold yellow"}


@options.spread
def probe_command(
    *,
    asked: options.TargetOptions,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Compare every unit of the catalogue.", rich_help_panel=options.TARGET),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "-v", "--verbose", help="Show the inputs, bits and predictions.", rich_help_panel=options.OUTPUT
        ),
    ] = False,
    as_json: options.Json = False,
    html: options.Html = None,
) -> None:
    """Find by experiment how a unit multiplies and adds: rounding, extra bits, order, subnormals, ...

    Every experiment asks for dot products on which the hypotheses differ, and
    compares the bits of the answers.

    Examples: [bold]tcu probe A100 -v[/bold]

    [bold]tcu probe --module mine.py:f --input bf16 --output f32 --k 16 --html mine.html[/bold]

    [bold]tcu probe --all[/bold]
    """
    if html is not None:
        check_place(html, _files_of(asked))
    if everything:
        if replace(asked, instruction=None) != options.TargetOptions():
            raise ParameterError(
                "--all probes every unit: give it no TARGET, --module, --input, --output, --k or --scale"
            )
        _compare(asked.instruction or "mma", as_json, html)
        return
    target = _target(asked)
    with waiting(f"probing {target.name}"):
        found = probe(target)
    if html is not None:
        write_page(html, page.probe_page(found))
    if as_json:
        print_json(page.probe_document(found))
    else:
        _show_probe(found, verbose)


@options.spread
def infer_command(
    *,
    asked: options.TargetOptions,
    outputs: Annotated[
        int,
        typer.Option(
            "--outputs",
            metavar="N",
            help="Fresh outputs that must agree.",
            min=1,
            rich_help_panel=options.TARGET,
        ),
    ] = 1_000_000,
    seed: options.Seed = None,
    as_json: options.Json = False,
    html: options.Html = None,
) -> None:
    """Infer a bit-exact model of a unit, a GPU or a function from its answers alone.

    The model found is compared on fresh adversarial inputs; one different bit
    and the target is not identified.

    Exit code: 0 identified, 1 not identified, 2 bad input.

    Example: [bold]tcu infer --module mine.py:f --input f16 --output f32 --k 16[/bold]
    """
    if html is not None:
        check_place(html, _files_of(asked))
    target = _target(asked)
    with waiting(f"inferring {target.name}") as progress:
        known = infer(target, outputs=outputs, seed=seed, progress=progress)
    if html is not None:
        write_page(html, page.inference_page(known, target))
    if as_json:
        print_json(page.inference_document(known, target))
    else:
        _show_inference(known, target)
    if not known.identified:
        raise typer.Exit(NOT_IDENTIFIED)


# The target


def _target(asked: options.TargetOptions) -> Target:
    given, module, k = asked.target, asked.module, asked.k
    if (given is None) == (module is None):
        raise ParameterError("give either a TARGET (a unit's name, gpu or cpu) or --module FILE.py:NAME")
    fmt, output = asked.input_format or "binary16", asked.output
    if given is not None:
        if ":" in given:
            raise ParameterError(f"{given} is a function's name: give it as --module {given}, and --k")
        name = given.lower() if given.lower() in ("gpu", "cpu") else given
        if name == "cpu":  # of which none has binary16 alone
            fmt = asked.input_format or "bfloat16"
        if k is not None and name != "gpu":
            raise ParameterError("--k belongs to --module and gpu; a unit's instruction has its own")
        return as_target(
            name,
            instruction=asked.instruction or "mma",
            input=fmt,
            output=output,
            k=k,
            scale=_scale(asked.scale),
        )
    assert module is not None
    if asked.instruction is not None:
        raise ParameterError("--instruction belongs to a unit; a function has none")
    if k is None:
        raise ParameterError("--module needs --k: the number of products that it adds up at a time")
    function = _guarded(module, foreign_function(module, "--module"))
    return as_target(function, input=fmt, output=output, k=k, scale=_scale(asked.scale))


def _scale(text: str | None) -> tuple[str, int] | None:
    """ue8m0/32 → the format, and how many k share a scale."""
    if text is None:
        return None
    fmt, _, count = text.partition("/")
    if not count.isdecimal():
        raise ParameterError(
            f"--scale {text}: give the format and how many k share a scale, such as ue8m0/32"
        )
    return fmt, int(count)


def _files_of(asked: options.TargetOptions) -> list[str]:
    """The file of the user's function."""
    place = (asked.module or "").rpartition(":")[0]
    return [place] if place.endswith(".py") else []


def _guarded(name: str, function: Function) -> Function:
    def call(*arrays: Any) -> Any:
        with told(name):  # the function may keep or change its arrays
            return np.asarray(function(*(each.copy() for each in arrays)))

    call.__name__ = name
    return call


# The answer


def _table(grid: page.Grid, columns: int | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    lines = max(name.count("\n") for name in grid.header)
    for index, name in enumerate(grid.header[:columns]):
        # On the last line of the head, whatever stands above it in other columns.
        table.add_column(Text("\n" * (lines - name.count("\n")) + name), no_wrap=index == 0)
    for row in grid.rows:
        table.add_row(*(Text(text, style=_STYLES[style]) for text, style in row[:columns]))
    return table


def _show_probe(found: Probe, verbose: bool) -> None:
    screen = console()
    columns = 3 if screen.width >= _SOURCES_FROM else 2
    screen.print(Text.assemble((found.target, "bold cyan"), f"  {page.scope(found)}\n"))
    screen.print(_table(page.findings_grid(found), columns))
    if not verbose:
        screen.print(Text("\n-v shows the inputs, the bits and what each hypothesis predicts.", style="dim"))
        return
    for each in found.findings:
        screen.print(Text.assemble((f"\n{each.name}", "bold cyan"), (f"  {each.source}", "dim")))
        screen.print(Text(each.question))
        for case in each.cases:
            screen.print(Padding(_table(page.case_grid(case, found.output)), (1, 0, 0, 2)))
        screen.print(Text(f"\n{each.conclusion}", style="bold"))


def _show_inference(known: Inference, asked: Operation) -> None:
    screen = console()
    sign, style = ("✓", "bold green") if known.identified else ("✗", "bold red")
    screen.print(Text.assemble((f"{sign} ", style), (known.target, "bold cyan"), f"  {known.conclusion}"))
    for title, grid in page.inference_grids(known, asked):
        screen.print(Text(f"\n{title}\n", style="bold cyan"), _table(grid), sep="\n")
    if known.unit is not None:
        screen.print(Text("\nThe unit in Python\n", style="bold cyan"))
        # Not wrapped, so that it can be copied.
        screen.print(Text(page.unit_expression(known.unit)), soft_wrap=True)


def _compare(instruction: str, as_json: bool, html: Path | None) -> None:
    blocks = [
        block for fmt, output in COMPARED_FORMATS
        if (block := _comparison(instruction, fmt, output)).probes
    ]  # fmt: skip
    if not blocks:
        names = dict.fromkeys(row.name for unit in CATALOGUE.values() for row in unit.instructions)
        raise unknown_name("instruction", instruction, names)
    if html is not None:
        write_page(html, page.comparison_page(blocks))
    if as_json:
        print_json(page.comparison_document(blocks))
        return
    screen = console()
    for block in blocks:
        screen.print(Text(block.title, style="bold cyan"), _table(page.comparison_grid(block)), "", sep="\n")
    screen.print(Text(page.COMPARED, style="dim"))


def _comparison(instruction: str, fmt: str, output: str | None) -> page.Comparison:
    """The units that have the instruction with these formats; perhaps none."""
    probes = {}
    for name in CATALOGUE:
        try:
            find_instruction(name, instruction, fmt, fmt, output)
        except (DtypeError, UnknownNameError):
            continue
        with waiting(f"probing {name}: {fmt}"):
            probes[name] = probe(name, instruction=instruction, input=fmt, output=output)
    widest = next(iter(probes.values())).output.name if probes else ""
    return page.Comparison(instruction, fmt, output or widest, probes)
