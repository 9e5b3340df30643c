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
from tcu.units import (
    CATALOGUE,
    AlignedSum,
    Evidence,
    ExactBlock,
    ExactInteger,
    FlushedTree,
    FusedChain,
    GroupedSum,
    Instruction,
    LateSum,
    Unit,
    get_unit,
)

__all__ = ["brief", "parameters", "peculiarities", "units_command"]

_UNMEASURED = "no hardware vectors pin this row"
_WIDE = 10
"""Characters of the formats that a row of a table names."""
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
    for name in ("vendor", "units", "sm", "instructions and their inputs"):
        table.add_column(name, max_width=9 if name == "vendor" else None)
    shown = ""
    for (vendor, capability, instructions), alike in groupby(CATALOGUE.values(), _line):
        names = Text(", ").join(Text(unit.name, style="bold cyan") for unit in alike)
        table.add_row(Text(vendor if vendor != shown else "", style="bold"), names, capability, instructions)
        shown = vendor
    return Group(
        table, Text("tcu units UNIT shows the product, and how each instruction computes.", style="dim")
    )


def _line(unit: Unit) -> tuple[str, str, Text]:
    """What the list says of a unit; units of which it says the same share a line."""
    return unit.vendor, unit.compute_capability.strip("-"), _compressed(unit)


def _compressed(unit: Unit) -> Text:
    """A line for all instructions with the same inputs."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(row.name for row in unit.instructions):
        rows = [row for row in unit.instructions if row.name == name]
        formats = dict.fromkeys("int8" if row.output == "s32" else brief(row.a) for row in rows)
        names.setdefault(tuple(formats), []).append(name)
    lines = [
        Text.assemble((" ".join(alike), "bold"), " ", " ".join(formats)) for formats, alike in names.items()
    ]
    return Text("\n").join(lines)


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
        texts = [*_pairs(rows), *_notes(first)]
        marks = [notes.setdefault(text, chr(ord("a") + len(notes))) for text in texts]
        numbers = [str(evidence.setdefault(each, len(evidence) + 1)) for each in first.evidence]
        table.add_row(
            Text(first.name if first.name != shown else "", style="bold"), _signature(rows),
            "×".join(map(str, first.shape)), *parameters(first), " ".join(marks), " ".join(numbers),
        )  # fmt: skip
        shown = first.name
    of_gpu = "" if unit.compute_capability == "-" else f", compute capability {unit.compute_capability}"
    title = Text.assemble((unit.title, "bold cyan"), f"  {unit.architecture}{of_gpu}")
    return Group(title, table, *_legend(notes, evidence))


def _alike(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Neighbouring rows that differ in their inputs alone."""

    def rest(row: Instruction) -> tuple[Any, ...]:
        return row.name, row.output, row.shape, row.arithmetic, row.evidence, row.scale, row.per_scale

    return [list(rows) for _, rows in groupby(instructions, rest)]


def _signature(rows: list[Instruction]) -> str:
    first = rows[0]
    if len(rows) == 1 and first.a != first.b:
        return f"{brief(first.a)}·{brief(first.b)} → {brief(first.output)}"
    inputs = list(dict.fromkeys(brief(row.a) for row in rows))
    named = ", ".join(inputs)
    return f"{named if len(named) <= _WIDE else f'{len(inputs)} formats'} → {brief(first.output)}"


def _pairs(rows: list[Instruction]) -> list[str]:
    """What the inputs of rows are, where they are pairs of several formats; of integers the rules say so."""
    inputs = list(dict.fromkeys(row.a for row in rows))
    if len(rows) == 1 or len(rows) != len(inputs) ** 2 or isinstance(rows[0].arithmetic, ExactInteger):
        return []
    return [f"every pair of {', '.join(map(brief, inputs))}"]


def parameters(row: Instruction) -> tuple[str, str, str, str]:
    """block, F, rounding, floor."""
    arithmetic = row.arithmetic
    if isinstance(arithmetic, FusedChain):
        return str(arithmetic.group), "–", arithmetic.rounding, "–"
    if isinstance(arithmetic, ExactBlock):
        return str(arithmetic.block), "all", "RNE", "–"
    if isinstance(arithmetic, FlushedTree):
        return str(arithmetic.group), "–", "RNE", "–"
    if isinstance(arithmetic, LateSum):
        return str(arithmetic.block), str(arithmetic.fraction_bits), "RNE", "–"
    if isinstance(arithmetic, GroupedSum):
        floor = f"2^{arithmetic.exponent_floor}"
        return str(arithmetic.block), str(arithmetic.fraction_bits), "RZ", floor
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
        return _chain_peculiarities(arithmetic)
    if not isinstance(arithmetic, AlignedSum | ExactInteger):
        return [*_scale_note(row), *_block_peculiarities(arithmetic)]
    if not isinstance(arithmetic, AlignedSum):
        return ["exact, for every pair of the inputs; the 32-bit result wraps"]
    notes = _scale_note(row)
    if row.addend is not None:
        notes.append(
            f"C is of {brief(row.addend)}, where a subnormal number has the exponent of the smallest normal one"
        )
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
    if arithmetic.through_binary16:
        notes.append("the inputs become binary16 first, where a subnormal E4M3 is a normal number")
    if arithmetic.normalized_products:
        notes.append("a product in [2, 4) counts with the exponent one higher")
    if arithmetic.flush_inputs:
        notes.append("subnormal inputs count as zero")
    if arithmetic.flush_outputs:
        notes.append("subnormal results become zero")
    if arithmetic.carry_bits is not None:
        notes.append(f"a sum has {arithmetic.carry_bits} bits for carries, beyond which it wraps around")
    if arithmetic.signed_zeros:
        notes.append("zeros keep their signs")
    if arithmetic.nan_rule != "nvidia":
        notes.append(f"NaN results by the rule of {arithmetic.nan_rule}")
    if arithmetic.saturate:
        notes.append("a sum that overflows becomes the largest number")
    return notes


_NANS = {
    "x86": "a NaN is the first operand that is one, a before b before the sum, quieted, or the default one, negative",
    "arm": "every NaN is the default one, positive",
}


_JOINS = {
    (1, False): "fused multiply-adds, each rounded",
    (1, True): "each product is rounded, then the sum with it",
    (2, False): "the exact sum of two products is rounded, then the sum with it",
    (2, True): "two products are rounded, then their sum, then the sum with that",
}


def _scale_note(row: Instruction) -> list[str]:
    if row.scale is None:
        return []
    what = (
        "raises the products' exponents" if isinstance(row.arithmetic, AlignedSum) else "multiplies a group"
    )
    return [f"a scale of {row.scale} to {row.per_scale} k of each operand {what}"]


def _block_peculiarities(rules: ExactBlock | FlushedTree | LateSum | GroupedSum) -> list[str]:
    if isinstance(rules, ExactBlock):
        return ["c and the products of a block are added exactly, and rounded once"]
    if isinstance(rules, FlushedTree):
        return [
            "products of a block by a balanced tree, then c; every operation rounds and flushes subnormals"
        ]
    if isinstance(rules, GroupedSum):
        return [f"groups of {rules.group} products are added exactly and aligned by their scales"]
    note = (
        f"the products' sum is cut to {rules.late_bits + 1} bits at the exponent of c or of the products, c to "
        f"{rules.fraction_bits}, their sum to {rules.late_bits}, all toward -inf"
    )
    if rules.groups == 2:
        note += "; even and odd products are two groups, each aligned and cut by itself"
    if rules.drops_small_c:
        note += f"; c counts as zero more than {rules.fraction_bits + 1} bits below the products"
    return [note]


def _chain_peculiarities(rules: FusedChain) -> list[str]:
    if rules == FusedChain():
        return ["IEEE 754 fused multiply-adds, k ascending from c, each rounded"]
    notes = [_JOINS[rules.group, rules.rounded_products]]
    if rules.order is not None:
        more = ", ..." if len(rules.order) > 8 else ""
        notes.append(f"k enters in the order {', '.join(map(str, rules.order[:8]))}{more}")
    if rules.lanes > 1:
        of = "pair" if rules.group == 2 else "k"
        notes.append(f"{rules.lanes} sums side by side, by {of} modulo {rules.lanes}, added in the end")
    if rules.late_c:
        notes.append("sums start from zero; c is added last")
    if rules.flush_inputs:
        notes.append("subnormal a and b count as zero")
    if rules.flush_outputs:
        notes.append("subnormal c and results become zero")
    if rules.nan_rule in _NANS:
        notes.append(_NANS[rules.nan_rule])
    return ["; ".join(notes)]


def _legend(notes: dict[str, str], evidence: dict[Evidence, int]) -> list[RenderableType]:
    columns = (
        "block: products aligned together. F: bits kept below the largest exponent. floor: the least common "
        "exponent. RZ: toward zero, RNE: to nearest, ties to even, RO: to odd."
    )
    grid = Table.grid(padding=(0, 1))
    for text, mark in notes.items():
        grid.add_row(mark, text)
    for each, number in evidence.items():
        grid.add_row(str(number), Text.assemble((f"{each.kind}: ", "bold"), each.text))
    return [Text(columns, style="dim"), Padding(grid, (1, 0, 0, 0))]
