"""``tcu tune``: the fastest launch configurations of the GPU at hand, found by measurement and stored.

With ``--paper-002``: the fastest algorithms of paper 002, which are printed beside the built-in table.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tcu.calibration.paper_002 import TIE, Measured, fastest, measure, written
from tcu.cli import options
from tcu.cli.catalogue import brief
from tcu.cli.output import console, print_json, visible, write_page
from tcu.cli.progress import STEPS, ProgressBar, in_steps
from tcu.gpu.tune import tune
from tcu.gpu.tuning import read_rows, save_row, user_file
from tcu.plan.segmented import best_algorithm
from tcu.unfinished import check_place

__all__ = ["tune_command"]


def tune_command(
    device: Annotated[int, typer.Option("--device", metavar="N", help="The number of the GPU.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer configurations or lengths, fewer rounds, smaller arrays.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Store the results there; else launch configurations where tcu looks for them, and a table nowhere.",
        ),
    ] = None,
    paper_002: Annotated[
        bool,
        typer.Option(
            "--paper-002",
            help='Measure on this GPU the table that variant="paper-002" goes by. It is printed, and stored with '
            "--output; the variant keeps the built-in one.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Find the fastest launch configurations for the GPU at hand, and store them.

    Sums, dot products and exact sums of each format, tiny, small and large arrays:
    every configuration must return the same bits, and a new one is taken
    where it is faster beyond doubt.  Results never depend on it.

    With --paper-002 instead: which algorithm of Dakkak et al. is fastest at which length
    of segments, beside the built-in table, which an H200 was measured for.
    variant="paper-002" keeps that one on every GPU, for its bits depend on it.
    Where yours differs, name the algorithm: variant="reduction-256", for example.

    Example: [bold]tcu tune --quick[/bold]
    """
    if output is not None:
        check_place(output)
    if paper_002:
        _measure_paper_002(device, quick, output, as_json)
        return
    if output is not None:
        read_rows(output, "choose another place with --output")
    file = user_file() if output is None else output
    command = f"tcu tune{' --quick' * quick}"
    with ProgressBar(STEPS) as bar:
        found = tune(device, quick=quick, command=command, progress=in_steps(bar))
    save_row(file, found.gpu.compute_capability, found.row)
    if as_json:
        print_json(_document(found, file))
    else:
        console().print(_shown(found, file))


def _document(found: Any, file: Path) -> dict[str, Any]:
    row = found.row
    return {
        "gpu": row.gpu,
        "compute_capability": "{}.{}".format(*found.gpu.compute_capability),
        "file": str(file),
        "date": row.date,
        "versions": dict(row.versions),
        "command": row.command,
        "seconds": found.seconds,
        "resident_blocks": row.resident_blocks,
        "choices": [
            {
                "kernel": one.case.kernel,
                "element": one.case.element,
                "size": one.case.size,
                "bytes": one.case.nbytes,
                "tried": one.tried,
                "present": asdict(one.present),
                "chosen": asdict(one.chosen),
                "present_seconds": one.present_seconds,
                "chosen_seconds": one.chosen_seconds,
                "gain": one.gain,
                "spread": one.spread,
            }
            for one in found.choices
        ],
    }


def _shown(found: Any, file: Path) -> RenderableType:
    row = found.row
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("kernel", "format", "size"):
        table.add_column(name, no_wrap=True)
    for name in ("threads", "unroll", "resident", "loads", "TB/s", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    before: tuple[str, str] = ("", "")
    for one in found.choices:
        case = one.case
        new = one.chosen != one.present
        table.add_row(
            Text(case.kernel if (case.kernel, case.element) != before else "", style="bold"),
            brief(case.element) if (case.kernel, case.element) != before else "",
            case.size,
            *(_changed(one, name) for name in ("threads", "unroll", "resident", "loads")),
            _rate(case.nbytes, one.present_seconds, one.chosen_seconds if new else None),
            Text(f"{100 * one.gain:+.1f} %", style="green") if new else Text("–", style="dim"),
        )
        before = case.kernel, case.element
    changed = sum(one.chosen != one.present for one in found.choices)
    head = Text(
        f"{row.gpu}, compute capability {'{}.{}'.format(*found.gpu.compute_capability)}", style="bold cyan"
    )
    tail = Text(
        f"{changed} of {len(found.choices)} configurations are new, of {sum(one.tried for one in found.choices)} "
        f"tried in {found.seconds:.0f} s; within each row all returned the same bits.\nStored in {visible(str(file))}",
        overflow="fold",
    )
    return Group(head, table, tail)


def _changed(one: Any, name: str) -> str:
    old, new = getattr(one.present, name, None), getattr(one.chosen, name, None)
    if new is None:
        return ""
    return str(new) if old == new else f"{old}→{new}"


def _rate(nbytes: int, before: float, after: float | None) -> str:
    old = f"{nbytes / before / 1e12:.2f}"
    return old if after is None else f"{old}→{nbytes / after / 1e12:.2f}"


# --paper-002


def _measure_paper_002(device: int, quick: bool, output: Path | None, as_json: bool) -> None:
    command = f"tcu tune --paper-002{' --quick' * quick}"
    with ProgressBar(STEPS) as bar:
        found = measure(device, quick=quick, command=command, progress=in_steps(bar))
    if output is not None:
        write_page(output, written(found.source, found.table))
    if as_json:
        print_json(_document_of_algorithms(found, output))
    else:
        console().print(_shown_algorithms(found, output))


def _document_of_algorithms(found: Measured, file: Path | None) -> dict[str, Any]:
    """The table, and what it rests on."""
    return {
        **json.loads(written(found.source, found.table)),
        "gpu": found.gpu.name,
        "compute_capability": "{}.{}".format(*found.gpu.compute_capability),
        "file": None if file is None else str(file),
        "seconds": found.seconds,
        "numbers": found.count,
        "lengths": [
            {
                "length": length,
                "seconds": dict(times),
                "chosen": fastest(times),
                "built_in": best_algorithm(length),
            }
            for length, times in found.times.items()
        ],
    }


def _shown_algorithms(found: Measured, file: Path | None) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("segment", justify="right", no_wrap=True)
    table.add_column("here", overflow="fold")
    table.add_column("TB/s", justify="right", no_wrap=True)
    table.add_column("built in", overflow="fold")
    table.add_column("slower", justify="right", no_wrap=True)
    slower = {}
    for length, times in found.times.items():
        own, built_in = fastest(times), best_algorithm(length)
        same = own == built_in
        if not same:
            slower[length] = times[built_in] / times[own] - 1
        table.add_row(
            f"{length:,}",
            Text(own, style="" if same else "bold"),
            f"{2 * found.count / times[own] / 1e12:.2f}",
            Text(built_in, style="dim" if same else ""),
            Text("–", style="dim") if same else f"{100 * slower[length]:+.1f} %",
        )
    head = Text(
        f"{found.gpu.name}, compute capability {'{}.{}'.format(*found.gpu.compute_capability)}: "
        f"{found.count:,} numbers of binary16",
        style="bold cyan",
    )
    told = [
        f"Chosen is the first algorithm within {100 * TIE:.0f} % of the fastest: at {len(slower)} of {len(found.times)} "
        f"lengths another one than the built-in table has. Measured in {found.seconds:.0f} s; all sums were checked.",
        'variant="paper-002" keeps the built-in table on every GPU, for its bits depend on it.',
    ]
    if slower:
        worst = max(slower, key=lambda length: slower[length])
        told.append(
            f'Where yours differs, name the algorithm: variant="{fastest(found.times[worst])}" for segments of {worst:,}.'
        )
    if file is not None:
        told.append(f"Stored in {visible(str(file))}")
    return Group(head, table, Text("\n".join(told), overflow="fold"))
