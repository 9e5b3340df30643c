"""``tcu units``: the catalogue of units, and what pins each of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli.output import console, print_json
from tcu.units import CATALOGUE, AlignedSum, Evidence, FusedChain, Instruction, Unit, get_unit

__all__ = ["brief", "peculiarities", "units_command"]

_UNMEASURED = "no hardware vectors pin this row"
_BRIEF = {
    "binary16": "f16", "bfloat16": "bf16", "binary32": "f32", "binary64": "f64",
}  # fmt: skip


def brief(fmt: str) -> str:
    """The short name of a format, as narrow tables need it."""
    return _BRIEF.get(fmt, fmt)


def units_command(
    unit: Annotated[
        str | None, typer.Argument(metavar="UNIT", help="Show every instruction of this unit.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the matrix units of the catalogue, or all that is known about one.

    A unit's table says how each instruction adds up: how many products are
    aligned together, how many bits are kept, how the sum is rounded, and
    which evidence pins that.

    Example: [bold]tcu units H100[/bold]
    """
    if unit is not None:
        chosen = get_unit(unit)
        if as_json:
            print_json(_document(chosen))
        else:
            console().print(_one(chosen))
    elif as_json:
        print_json([_document(each) for each in CATALOGUE.values()])
    else:
        console().print(_all())


def _document(unit: Unit) -> dict[str, Any]:
    document = asdict(unit)
    for row, instruction in zip(document["instructions"], unit.instructions, strict=True):
        arithmetic = instruction.arithmetic
        row["arithmetic"] = {"kind": type(arithmetic).__name__, **asdict(arithmetic)}
    return document


def _all() -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("unit", "product", "architecture", "sm", "instructions and their inputs"):
        table.add_column(name, no_wrap=name in ("unit", "sm"))
    for unit in CATALOGUE.values():
        table.add_row(Text(unit.name, style="bold cyan"), unit.title, unit.architecture,
                      unit.compute_capability, _compressed(unit))  # fmt: skip
    return Group(table, Text("tcu units UNIT shows how each instruction computes.", style="dim"))


def _compressed(unit: Unit) -> Text:
    lines = Text()
    for name in dict.fromkeys(row.name for row in unit.instructions):
        rows = [row for row in unit.instructions if row.name == name]
        formats = dict.fromkeys("int8" if row.output == "s32" else brief(row.a) for row in rows)
        if lines:
            lines.append("\n")
        lines.append(f"{name} ", style="bold")
        lines.append(" ".join(formats))
    return lines


def _one(unit: Unit) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name, numeric in (
        ("name", False), ("inputs → output", False), ("m×n×k", False), ("block", True), ("F", True),
        ("rounds", False), ("floor", True), ("notes", False), ("source", False),
    ):  # fmt: skip
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    evidence: dict[Evidence, int] = {}
    notes: dict[str, str] = {}
    shown = ""
    for rows in _alike(unit.instructions):
        first = rows[0]
        marks = [notes.setdefault(text, chr(ord("a") + len(notes))) for text in _notes(first)]
        numbers = [str(evidence.setdefault(each, len(evidence) + 1)) for each in first.evidence]
        table.add_row(
            Text(first.name if first.name != shown else "", style="bold"), _signature(rows),
            "×".join(map(str, first.shape)), *_parameters(first), " ".join(marks), " ".join(numbers),
        )  # fmt: skip
        shown = first.name
    title = Text.assemble(
        (unit.title, "bold cyan"), f"  {unit.architecture}, compute capability {unit.compute_capability}"
    )
    return Group(title, table, *_legend(notes, evidence))


def _alike(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Neighbouring rows that differ in their inputs alone."""

    def rest(row: Instruction) -> tuple[Any, ...]:
        return row.name, row.output, row.shape, row.arithmetic, row.evidence

    return [list(rows) for _, rows in groupby(instructions, rest)]


def _signature(rows: list[Instruction]) -> str:
    return f"{', '.join(dict.fromkeys(brief(row.a) for row in rows))} → {brief(rows[0].output)}"


def _parameters(row: Instruction) -> tuple[str, str, str, str]:
    """block, F, rounding, floor."""
    arithmetic = row.arithmetic
    if isinstance(arithmetic, FusedChain):
        return "1", "–", "RNE", "–"
    if not isinstance(arithmetic, AlignedSum):
        return "–", "–", "exact", "–"
    floor = "–" if arithmetic.exponent_floor is None else f"2^{arithmetic.exponent_floor}"
    return str(arithmetic.block), str(arithmetic.fraction_bits), arithmetic.rounding, floor


def _notes(row: Instruction) -> list[str]:
    """Sentences on what the columns cannot say."""
    measured = row.standing == "pinned by hardware outputs"
    return [*peculiarities(row), *([] if measured else [_UNMEASURED])]


def peculiarities(row: Instruction) -> list[str]:
    arithmetic = row.arithmetic
    if isinstance(arithmetic, FusedChain):
        return ["IEEE 754 fused multiply-adds, k ascending from c, each rounded"]
    if not isinstance(arithmetic, AlignedSum):
        return ["exact, for every pair of the inputs; the 32-bit result wraps"]
    notes = []
    if arithmetic.output_fraction_bits is not None:
        notes.append(f"the rounding keeps {arithmetic.output_fraction_bits} fraction bits")
    if arithmetic.order is not None:
        ranges = ", then ".join(
            ", ".join(map(str, arithmetic.order[at : at + 4])) + ", ..."
            for at in range(0, len(arithmetic.order), arithmetic.block)
        )
        notes.append(f"k enters in the order {ranges}")
    if arithmetic.late_c:
        notes.append("the blocks start from zero; c comes last, by an IEEE addition to nearest")
    if arithmetic.normalized_products:
        notes.append("a product in [2, 4) counts with the exponent one higher")
    if arithmetic.flush_inputs:
        notes.append("subnormal inputs count as zero")
    if arithmetic.flush_outputs:
        notes.append("subnormal results become zero")
    return notes


def _legend(notes: dict[str, str], evidence: dict[Evidence, int]) -> list[RenderableType]:
    columns = (
        "block: products aligned together. F: bits kept below the largest exponent. floor: the least common "
        "exponent. RZ: toward zero, RNE: to nearest, ties to even."
    )
    grid = Table.grid(padding=(0, 1))
    for text, mark in notes.items():
        grid.add_row(mark, text)
    for each, number in evidence.items():
        grid.add_row(str(number), Text.assemble((f"{each.kind}: ", "bold"), each.text))
    return [Text(columns, style="dim"), Padding(grid, (1, 0, 0, 0))]
