"""``tcu explain``: one dot product, bit by bit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from tcu.cli import options
from tcu.cli.document import explain_document
from tcu.cli.dot import Problem, Trace, problem_of, trace, with_scales
from tcu.cli.drawing import MAX_WIDTH, draw_inputs, draw_others, draw_trace
from tcu.cli.output import console, print_json, write_page
from tcu.cli.story import tell
from tcu.errors import DtypeError, ParameterError, UnknownNameError, unknown_name
from tcu.formats.format import get_format
from tcu.report.html_page import drawing, page
from tcu.unfinished import check_place
from tcu.units import CATALOGUE, Instruction, Unit, find_instruction, find_scale, get_unit
from tcu.units.lookup import canonical_instruction

__all__ = ["explain_command"]

DEFAULT_UNIT = "V100"
MIN_WIDTH = 80
"""Below this a row of bits would not fit beside its labels."""


def explain_command(
    expression: Annotated[
        str | None,
        typer.Argument(metavar="EXPRESSION", help="Terms joined by + and -, such as '1 + 2^-24 + 0.5*3'."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            "--unit",
            metavar="UNIT",
            help=f"May be repeated; else {DEFAULT_UNIT}, or the first unit that has the formats.",
        ),
    ] = None,
    a: Annotated[
        str | None, typer.Option("--a", metavar="LIST", help="Row of A, as 1,0.5,2^-3; else ones.")
    ] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="LIST", help="Column of B; else ones.")] = None,
    c: Annotated[
        str | None, typer.Option("--c", metavar="NUMBER", help="The addend; all terms are products then.")
    ] = None,
    input_format: Annotated[
        str,
        typer.Option(
            "--input", metavar="FORMAT", help="f16, bf16, tf32, f64, e4m3, e5m2, e3m2, e2m3, e2m1 ..."
        ),
    ] = "f16",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="FORMAT", help="f32, f16 or f64; else the widest of the instruction."
        ),
    ] = None,
    instruction: Annotated[
        str,
        typer.Option(
            "--instruction", metavar="NAME", help="mma, wgmma, tcgen05, mxf8f6f4, mxf4 or mxf4nvf4."
        ),
    ] = "mma",
    scale_a: Annotated[
        str | None,
        typer.Option("--scale-a", metavar="LIST", help="Scales of A, one for 16 or 32 products; else ones."),
    ] = None,
    scale_b: Annotated[
        str | None, typer.Option("--scale-b", metavar="LIST", help="Scales of B; else ones.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale", metavar="FORMAT", help="ue8m0 or ue4m3, also as ue8m0/16, with 16 products to each."
        ),
    ] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="The frames alone: no notes, and not what others give.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the drawing as SVG, too.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the drawing as HTML, too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Draw how a unit computes c + a0·b0 + a1·b1 + ...: which bits are kept, cut and rounded.

    In an EXPRESSION the first term is c (unless it is a product, or --c is
    given); every other term is a product x*y, or x alone for 1·x.  Numbers are
    written 1.5, 2^-24, 1.5*2^-3, 1e-5, 0x1.8p-3, inf, nan, or as a sum in
    parentheses; 1.5×2^-3 is a product.  What a format cannot hold is rounded to
    nearest, and the drawing says so.

    Examples: [bold]tcu explain --unit V100 "1 + 2^-24 + 2^-24"[/bold]

    [bold]tcu explain --a 1,1 --b 0.5,2^-11 --c 1 --unit H100 --input bf16[/bold]

    [bold]tcu explain --instruction mxf4 --input e2m1 --a 6,1,-1 --b 3,2,2 --scale-a 2^-20 --c 1[/bold]
    """
    for place in (svg, html):
        if place is not None:
            check_place(place)
    given = get_format(input_format)
    wanted = None if output is None else get_format(output).name
    note = ""
    if unit is None:
        first, row = _first_unit(instruction, given.name, wanted, scale)
        rows = [(first, row)]
        if first.name != DEFAULT_UNIT:
            note = f"{DEFAULT_UNIT} has no {row.signature}; the first unit that has it is {first.name}."
    else:
        units = dict.fromkeys(get_unit(name).name for name in unit)
        rows = [
            (get_unit(name), _instruction(get_unit(name), instruction, given.name, wanted, scale))
            for name in units
        ]
    problem = problem_of(expression, a, b, c, given, get_format(rows[0][1].c))
    problem = with_scales(problem, rows[0][1], scale_a, scale_b)
    traces = [trace(problem, one, row) for one, row in rows]
    wide = _drawing(problem, traces, note, MAX_WIDTH, brief)
    if svg is not None:
        write_page(svg, _svg(wide))
    if html is not None:
        title = f"{expression or 'c + a·b'} on {', '.join(each.unit.name for each in traces)}"
        write_page(html, page(title, f"{rows[0][1].signature}, bit by bit", drawing(wide, MAX_WIDTH)))
    if as_json:
        print_json(explain_document(problem, traces))
        return
    screen = console()
    screen.width = max(MIN_WIDTH, min(screen.width, MAX_WIDTH))
    screen.print(_drawing(problem, traces, note, screen.width, brief))


def _instruction(unit: Unit, name: str, fmt: str, output: str | None, scale: str | None) -> Instruction:
    """The unit's instruction; where it takes scales and none are named, the first of them."""
    return find_instruction(unit, name, fmt, fmt, output, find_scale(unit, name, fmt, fmt, scale))


def _first_unit(
    instruction: str, fmt: str, output: str | None, scale: str | None
) -> tuple[Unit, Instruction]:
    """The default unit, or if it lacks the instruction the first of the catalogue that has it."""
    for unit in (get_unit(DEFAULT_UNIT), *CATALOGUE.values()):
        try:
            return unit, _instruction(unit, instruction, fmt, output, scale)
        except (DtypeError, ParameterError, UnknownNameError):
            continue
    names = dict.fromkeys(row.name for unit in CATALOGUE.values() for row in unit.instructions)
    if canonical_instruction(instruction) not in names:
        raise unknown_name("instruction", instruction, names)
    asked = f"{fmt} → {output}" if output else fmt
    raise DtypeError(f"no unit has {instruction} {asked}: tcu units lists what there is")


def _drawing(problem: Problem, traces: list[Trace], note: str, width: int, brief: bool) -> RenderableType:
    noted = [Text(note, "yellow")] if note else []
    drawn = [draw_trace(each, problem, tell(each, problem), width, notes=not brief) for each in traces]
    if brief:
        return Group(*noted, *drawn)
    return Group(draw_inputs(problem), *noted, Text(), *drawn, draw_others(problem, traces))


def _svg(drawn: RenderableType) -> str:
    # The file has its colours whatever this terminal can show.
    recorder = Console(
        file=io.StringIO(), record=True, width=MAX_WIDTH, force_terminal=True, color_system="truecolor",
        no_color=False, highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    recorder.print(drawn)
    return recorder.export_svg(title="tcu explain")
