"""``tcu collect`` and ``tcu verify``: what a GPU returns, kept in a file, and its replay on the models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli.catalogue import brief
from tcu.cli.output import console, json_number, print_json, visible
from tcu.cli.progress import STEPS, ProgressBar, in_steps
from tcu.errors import ParameterError, unknown_name
from tcu.formats.format import get_format
from tcu.probes.vectors import Difference, Machine, Replay, Vectors, Verification, collect, value_of, verify
from tcu.probes.vectors.collection import DEFAULT_OUTPUTS
from tcu.unfinished import check_place
from tcu.units import Instruction

__all__ = ["collect_command", "verify_command"]

DIFFERENT = 1
"""Exit code of ``tcu verify`` unless every bit is the same."""
_SHOWN_KINDS = 2


def collect_command(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="gpu, or cpu for the processor's own matrix instructions."),
    ] = "gpu",
    *,
    file: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The .npz file to write.")],
    instruction: Annotated[
        str | None,
        typer.Option(
            "--instruction", metavar="NAME", help="Only mma or only wgmma; else all that the GPU has."
        ),
    ] = None,
    input_format: Annotated[
        str | None, typer.Option("--input", metavar="FORMAT", help="Only this input, such as bf16; else all.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FORMAT", help="Only this output, such as f32; else all."),
    ] = None,
    outputs: Annotated[
        int,
        typer.Option(
            "--outputs", metavar="N", help="Results per kind of question, in matrices of 16 × 8.", min=1
        ),
    ] = DEFAULT_OUTPUTS,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Of the operands.", min=0)] = 0,
    unit: Annotated[
        str | None, typer.Option("--unit", metavar="UNIT", help="Ask this unit's model instead of the GPU.")
    ] = None,
) -> None:
    """Ask the GPU at hand, or the processor, every kind of question, and keep its answers in a file.

    Ordinary and hostile numbers, probes of everything near zero, special
    values: for each instruction that the GPU has.  The file says which GPU,
    driver and compiler answered, and [bold]tcu verify[/bold] replays it on any machine.

    Examples: [bold]tcu collect -o my-gpu.npz[/bold]

    [bold]tcu collect cpu -o my-cpu.npz[/bold]
    """
    if target not in ("gpu", "cpu"):
        raise unknown_name("target", target, ("gpu", "cpu"))
    if target == "cpu" and unit is not None:
        raise ParameterError("both cpu and --unit: give one of them")
    check_place(file)
    with ProgressBar(STEPS) as bar:
        vectors = collect(
            "cpu" if target == "cpu" else unit, instruction=instruction, input=input_format, output=output, outputs=outputs, seed=seed,
            progress=in_steps(bar),
        )  # fmt: skip
    vectors.save(file)
    count = len(vectors.entries)
    console().print(
        Text(
            f"{visible(str(file))}: {vectors.outputs:,} outputs of {count} instruction{'s' * (count != 1)} of "
            f"{_named(vectors.machine)}, {file.stat().st_size / 1000:,.0f} kB.\nCompare them: tcu verify {visible(str(file))}"
        ),
        soft_wrap=True,
    )


def verify_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that [bold]tcu collect[/bold] wrote.")],
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", metavar="UNIT", help="Compare with this unit; else with that of the GPU in the file."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Replay a GPU's answers through the catalogue, and compare every bit.

    A GPU that the catalogue does not have is compared with every unit, and
    the one that agrees best is shown.  Exit code 0: every bit is the same;
    1: an output differs, or nothing could be compared; 2: bad input.

    Example: [bold]tcu verify my-gpu.npz[/bold]
    """
    with ProgressBar(STEPS) as bar:
        result = verify(Vectors.load(file), unit, progress=in_steps(bar))
    if as_json:
        print_json(_document(file, result))
    else:
        console().print(_shown(file, result))
    if not result.agrees:
        raise typer.Exit(DIFFERENT)


def _named(machine: Machine) -> str:
    name = visible(machine.name)
    return f"the model of {name}" if machine.kind == "model" else name


# JSON


def _document(file: Path, result: Verification) -> dict[str, Any]:
    vectors = result.vectors
    return {
        "file": str(file),
        "machine": asdict(vectors.machine),
        "date": vectors.date,
        "tcu": vectors.tcu,
        "seed": vectors.seed,
        "unit": result.unit.name,
        "outputs": result.outputs,
        "different": result.different,
        "agrees": result.agrees,
        "instructions": [_instruction_document(one) for one in result.replays],
        "units": [
            {"unit": name, "outputs": outputs, "different": different}
            for name, outputs, different in result.others
        ],
    }


def _instruction_document(one: Replay) -> dict[str, Any]:
    row = one.entry.row
    return {
        "name": one.entry.name,
        "instruction": row.name,
        "a": row.a,
        "b": row.b,
        "output": row.output,
        "k": row.k,
        "outputs": one.outputs,
        "different": one.different,
        "kinds": list(one.kinds),
        "first": None if one.first is None else _difference_document(one.first, row),
        "reason": one.missing,
    }


def _difference_document(first: Difference, row: Instruction) -> dict[str, Any]:
    def number(word: int, fmt: str) -> dict[str, Any]:
        return {"bits": _bits(word, fmt), "value": json_number(value_of(word, fmt))}

    return {
        "t": first.t,
        "row": first.row,
        "column": first.column,
        "kind": first.kind,
        "a": [number(word, row.a) for word in first.a],
        "b": [number(word, row.b) for word in first.b],
        "c": number(first.c, row.output),
        "recorded": number(first.recorded, row.output),
        "model": number(first.model, row.output),
    }


def _bits(word: int, fmt: str) -> str:
    return f"0x{word:0{2 * get_format(fmt).code_dtype.itemsize}x}"


# The screen


def _shown(file: Path, result: Verification) -> RenderableType:
    machine = result.vectors.machine
    versions = [("driver", machine.driver), ("CUDA", machine.cuda), ("NVRTC", machine.nvrtc)]
    known = ", ".join(
        [f"compute capability {machine.compute_capability}"] * (machine.kind != "cpu")
        + [f"{name} {version}" for name, version in versions if version]
    )
    head = Text.assemble(
        (f"{visible(str(file))}: {_named(machine)}", "bold"),
        "\n",
        (visible("; ".join(filter(None, (known, result.vectors.date)))), "dim"),
    )
    parts: list[RenderableType] = [head, _table(result)]
    first = next((one for one in result.replays if one.first is not None), None)
    if first is not None:
        parts += [_counterexample(first, result.unit.name), Text()]
    return Group(*parts, *_conclusion(result))


def _signature(row: Instruction) -> str:
    given = brief(row.a) if row.a == row.b else f"{brief(row.a)}·{brief(row.b)}"
    return f"{row.name} {given} → {brief(row.output)}"


def _table(result: Verification) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("instruction", no_wrap=True)
    for name in ("k", "outputs", "different"):
        table.add_column(name, justify="right", no_wrap=True)
    if result.different:
        table.add_column("on questions of the kind", overflow="ellipsis", no_wrap=True)
    for one in result.replays:
        different = Text(f"{one.different:,}", style="bold red" if one.different else "green")
        if one.missing is not None:
            different = Text("–", style="dim")
        cells: list[str | Text] = [
            _signature(one.entry.row),
            str(one.entry.row.k),
            f"{one.outputs:,}",
            different,
        ]
        if result.different:
            cells.append(_listed(one.kinds))
        table.add_row(*cells)
    return table


def _listed(kinds: tuple[str, ...]) -> str:
    """The kinds, as far as a line goes."""
    if len(kinds) <= _SHOWN_KINDS:
        return ", ".join(kinds)
    return f"{', '.join(kinds[:_SHOWN_KINDS])} and {len(kinds) - _SHOWN_KINDS} more"


def _counterexample(one: Replay, unit: str) -> RenderableType:
    first, row = one.first, one.entry.row
    assert first is not None
    where = f"matrix {first.t} ({first.kind}), row {first.row}, column {first.column}"
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row("a", " ".join(_bits(word, row.a) for word in first.a))
    grid.add_row("b", " ".join(_bits(word, row.b) for word in first.b))
    for label, word in (("c", first.c), ("in the file", first.recorded), (unit, first.model)):
        grid.add_row(label, f"{_bits(word, row.output)} = {value_of(word, row.output)!r}")
    return Group(Text(f"First: {_signature(row)} with k = {row.k}, {where}"), grid)


def _conclusion(result: Verification) -> list[RenderableType]:
    unit, machine = result.unit.name, result.vectors.machine
    lines: list[RenderableType] = []
    missing = sum(one.missing is not None for one in result.replays)
    if missing:
        have = "instruction is" if missing == 1 else "instructions are"
        lines.append(Text(f"{missing} {have} not in the catalogue's {unit}, so not compared."))
    if result.others:
        lines.append(
            Text(
                f"The catalogue does not have {visible(machine.name)} (compute capability "
                f"{machine.compute_capability}); of its {len(result.others)} units {unit} agrees best."
            )
        )
    if result.outputs == 0:
        lines.append(Text("Nothing could be compared.", style="bold red"))
    elif result.different:
        text = f"{result.different:,} of {result.outputs:,} outputs differ from {unit}."
        lines.append(Text(text, style="bold red"))
    else:
        lines.append(Text(f"All {result.outputs:,} outputs are those of {unit}, bit for bit.", style="green"))
    return lines
