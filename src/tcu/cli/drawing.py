"""The drawing of ``tcu explain``: from the inputs to d, and what others return."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tcu.cli.block_drawing import block_lines
from tcu.cli.catalogue import brief
from tcu.cli.dot import (
    Alternative,
    Operand,
    Problem,
    Step,
    Trace,
    alternatives,
    correctly_rounded,
    exact_value,
    in_order,
)
from tcu.cli.expression import Value
from tcu.cli.numbers import ROUGH, bit_fields, enough_digits, hex_bits, show, show_code, show_number
from tcu.formats.format import Format, get_format
from tcu.units import AlignedSum, ExactBlock, FlushedTree, FusedChain, GroupedSum, LateSum

__all__ = ["MAX_WIDTH", "draw_inputs", "draw_others", "draw_trace", "show_value"]

MAX_WIDTH = 100
_FRAME = 4


def show_value(value: Value, digits: int) -> str:
    """A real number, inf or NaN."""
    if isinstance(value, float):
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    return show(value, 32, digits=digits)


def draw_inputs(problem: Problem) -> RenderableType:
    """The inputs, and which of them were rounded to fit their format."""
    grid = Table.grid(padding=(0, 1))
    for name, operands in (("a", problem.a), ("b", problem.b), ("c", (problem.c,))):
        runs = [(value, len(list(same))) for value, same in groupby(map(_shown, operands))]
        listed = [value if count == 1 else f"{value} ({count} times)" for value, count in runs]
        if operands:
            grid.add_row(Text(name, "dim"), Text(_equals(", ".join(listed))))
    if problem.per_scale:
        for name, operands in (("scale a", problem.scale_a), ("scale b", problem.scale_b)):
            grid.add_row(Text(name, "dim"), Text(_equals(", ".join(map(_shown, operands)))))
    notes = [Text(_rounding_note(operand), "yellow") for operand in problem.operands if operand.rounded]
    return Group(Text("d = c + a·b", "bold"), grid, *notes)


def _equals(value: str) -> str:
    return value if value.startswith("≈") else f"= {value}"


def _shown(operand: Operand) -> str:
    return show_number(operand.number, digits=enough_digits(operand.format))


def _rounding_note(operand: Operand) -> str:
    return (
        f"{operand.name}: {operand.given.text} does not fit {operand.format.name} "
        f"and is rounded to {_shown(operand)}."
    )


def draw_trace(
    trace: Trace, problem: Problem, sentences: Sequence[str], width: int, *, notes: bool = True
) -> RenderableType:
    """One unit's way from the inputs to d, in a frame; ``notes``: with the remarks, which are dim, on what is drawn."""
    inner = width - _FRAME
    steps = [each for each in _steps(trace, problem, inner) if notes or getattr(each, "style", "") != "dim"]
    parts = [*steps, Text(), *_result(trace, inner), Text()]
    parts += [Text(sentence) for sentence in sentences]
    row = trace.instruction
    title = Text.assemble(
        (trace.unit.title, "bold cyan"), f"  {row.name} {brief(row.a)} → {brief(row.output)}"
    )
    return Panel(
        Group(*parts), title=title, title_align="left", subtitle=Text(_arithmetic(trace), "dim"),
        subtitle_align="right", box=box.ROUNDED, width=width, padding=(0, 1),
    )  # fmt: skip


_ROUNDINGS = {"RZ": "toward zero", "RNE": "to nearest", "RU": "up", "RD": "down", "RO": "to odd"}


def _arithmetic(trace: Trace) -> str:
    row = trace.instruction.arithmetic
    if isinstance(row, FusedChain):
        what = "multiply-adds" if row.rounded_products or row.group > 1 else "fused multiply-adds"
        lanes = f" in {row.lanes} sums" if row.lanes > 1 else ""
        return f"{what}{lanes}, each rounded {_ROUNDINGS[row.rounding]}"
    if isinstance(row, ExactBlock):
        return f"{row.block} products and c added exactly, rounded to nearest (RNE)"
    if isinstance(row, FlushedTree):
        return f"{row.group} products by a tree, each operation rounded to nearest and flushed"
    if isinstance(row, LateSum):
        return (
            f"{row.block} products at once, {row.fraction_bits} bits kept, then c, rounded to nearest (RNE)"
        )
    if isinstance(row, GroupedSum):
        count = row.block // row.group
        return (
            f"{count} groups of {row.group} at once, {row.fraction_bits} bits kept, rounded toward zero (RZ)"
        )
    assert isinstance(row, AlignedSum)
    rounding = f"{_ROUNDINGS[row.rounding]} ({row.rounding})"
    if row.output_fraction_bits is not None:
        rounding += f", to {row.output_fraction_bits} bits"
    return f"{row.block} products at once, {row.fraction_bits} bits kept, rounded {rounding}"


def _steps(trace: Trace, problem: Problem, width: int) -> list[RenderableType]:
    blocks = trace.blocks
    drawn = trace.busy_blocks
    parts: list[RenderableType] = []
    for block in drawn:
        parts.append(Text())
        if len(blocks) > 1:
            parts.append(Text(f"Block {blocks.index(block) + 1} of {len(blocks)}", "bold"))
        parts.extend(block_lines(block, problem, trace, width))
    operations = [step for step in trace.steps if isinstance(step, Step)]
    if operations:
        parts += [Text(), _operations(operations, trace, width)]
    skipped = len(blocks) - len(drawn)
    if skipped:
        what = "The other block holds" if skipped == 1 else f"The other {skipped} blocks hold"
        parts.append(
            Text(f"{what} only zeros and leave{'s' if skipped == 1 else ''} the sum as it is.", "dim")
        )
    return parts[1:]


def _operations(steps: Sequence[Step], trace: Trace, width: int) -> RenderableType:
    """Of a chain, or the late addition of c: exact, rounded, lost."""
    output, arithmetic = get_format(trace.instruction.output), trace.instruction.arithmetic
    how = _ROUNDINGS[arithmetic.rounding if isinstance(arithmetic, FusedChain) else "RNE"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    kept = "kept" if any(isinstance(step.result, Fraction) for step in steps) else f"rounded {how}"
    for name in ("step", "exact", kept, "lost"):
        table.add_column(name, no_wrap=True)
    longest = max(len(step.label) for step in steps)
    room = 24 if longest <= 12 else (width - longest - 22) // 2
    for step in steps:
        result = step.number(output)
        exact, lost = "–", Text("–", "dim")
        if step.exact is not None:
            exact = _fitting(step.exact, room, enough_digits(output))
            if result.kind == "finite":
                rest = step.exact - result.value
                lost = Text(show(rest, 16, digits=ROUGH), "red" if rest else "dim")
        table.add_row(step.label, exact, Text(_left(step, output, room), "bold"), lost)
    return table


def _left(step: Step, output: Format, room: int) -> str:
    if isinstance(step.result, Fraction):
        return _fitting(step.result, room, enough_digits(output))
    return show_code(step.result, output, room)


def _fitting(value: Fraction, room: int, digits: int) -> str:
    text = show(value, room, digits=digits)
    return text if len(text) <= room else f"≈ {float(value):.{max(room - 9, 1)}g}"


def _result(trace: Trace, width: int) -> list[Text]:
    output = get_format(trace.instruction.output)
    value = Text.assemble(("d ", "bold"), (_equals(show_code(trace.result, output, 40)), "bold green"))
    bits = hex_bits(trace.result, output)
    if output.bits < 64:
        bits += f" = {bit_fields(trace.result, output)}"
    if len(value) + 3 + len(bits) <= width:
        return [value.append("   ").append(bits, "dim")]
    return [value, Text("    " + bits, "dim")]


def draw_others(problem: Problem, traces: Sequence[Trace]) -> RenderableType:
    """What the same inputs give in real arithmetic, by IEEE 754, and on every unit that has the formats."""
    row = traces[0].instruction
    output = get_format(row.output)
    exact = exact_value(problem)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim", title_justify="left"
    )
    table.add_column("the same inputs give")
    table.add_column("value", no_wrap=True)
    table.add_column("bits", no_wrap=True)
    table.add_row("in real arithmetic, exactly", show_value(exact, enough_digits(output)), "")
    _add(table, f"correctly rounded to {output.name}", correctly_rounded(exact, output), output)
    _add(table, f"{output.name} additions one after another (IEEE 754)", in_order(problem, output), output)
    shown = {trace.unit.name for trace in traces}
    table.add_section()
    for other in alternatives(problem, row):
        _add(table, _who(other, shown), other.code, output)
    return table


def _who(other: Alternative, shown: set[str]) -> Text:
    text = Text()
    for name in other.who:
        text.append(", " if text else "")
        text.append(name, "bold cyan" if name.split()[0] in shown else "")
    return text


def _add(table: Table, who: str | Text, code: int, output: Format) -> None:
    table.add_row(who, show_code(code, output, 20), Text(hex_bits(code, output), "dim"))
