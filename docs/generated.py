"""The pages and pictures of the site that are generated: from the registries, and from benchmarks/results.

A hook of MkDocs: commands, units, pictures, the explorer and the interactive
report exist in the built site alone.  The report's and the benchmarks' pages
are kept in the repository, where they can be read as they are:

    python docs/generated.py

writes them anew, and a test holds them to it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

import tcu
from tcu.cli.app import app
from tcu.cli.app import main as main_of_tcu
from tcu.cli.catalogue import brief, peculiarities
from tcu.report import Chapter, collect, explorer_page, origin_of, report_page
from tcu.study import STUDIES, stored_folder
from tcu.units import CATALOGUE, AlignedSum, FusedChain, Instruction

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = {
    "cut": ("V100", "1 + 2^-24 + 2^-24"),
    "kept": ("H100", "1 + 2^-24 + 2^-24"),
    "guard": ("V100", "-0x1.fffffep-1 + 1"),
    "monotonic-low": ("V100", "0x1.fffffep-1 + 2^-24 + 2^-24 + 2^-24 + 2^-24"),
    "monotonic-high": ("V100", "1 + 2^-24 + 2^-24 + 2^-24 + 2^-24"),
}
"""Name → unit and expression that ``tcu explain`` draws."""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(map(cell, header))} |", "| --- " * len(header) + "|",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
    ]  # fmt: skip


def generated(source: str) -> str:
    return f"<!-- Written by docs/generated.py from {source}; do not edit. -->"


# From benchmarks/results


def chapters() -> list[Chapter]:
    """Every study as it is stored in the repository: nothing is measured."""
    return collect(
        list(STUDIES.values()),
        Path(tempfile.gettempdir()),
        quick=False,
        stored=stored_folder(),
        measure=False,
    )


def report_markdown(found: Sequence[Chapter]) -> str:
    lines = [
        generated("benchmarks/results"), "# The papers, measured again", "",
        "What the papers measured, tabulated or proved, what came of it here, and where the figures are from. "
        "`tcu report` measures on your machine and writes the same with figures; with the results below it is "
        "[one interactive page](report.html).", "",
    ]  # fmt: skip
    for chapter in found:
        study = chapter.study
        covers = f" Covers {', '.join(f'paper {one}' for one in study.covers)}." if study.covers else ""
        lines += [
            f"## {study.title}", "", study.question + covers, "", f"{origin_of(chapter)} `{chapter.command}`", "",
            *table(
                ("where", "what is stated", "what we measured", "verdict"),
                [
                    (v.place, v.statement, v.measured, f"**{v.word}**" + (f": {v.why}" if v.why else ""))
                    for v in chapter.shown.verdicts
                ],
            ), "",
        ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return document


def benchmarks_markdown() -> str:
    return "\n".join([generated("benchmarks/results"), *_benchmarks()]).rstrip() + "\n"


def _benchmarks() -> Iterator[str]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from readme import table as gpu_table  # the table of the README

    yield from ("# Benchmarks", "", "Generated from the files in `benchmarks/results`.", "")
    gpu = load("gpu-sum.json")
    yield from ("## Sums on a GPU", "", _origin(gpu), "", "TB/s of one call on the largest arrays:", "")
    yield from (*gpu_table(gpu), "")
    yield from ("Host time of one call with 1024 numbers, in µs:", "")
    host = {name: row for name, row in gpu["figures"]["host"].items() if "median" in row}
    yield from (
        *table(("call", "median"), [(n, f"{row['median'] * 1e6:.1f}") for n, row in host.items()]),
        "",
    )
    units = load("gpu-units.json")
    yield from ("## First calls on a GPU", "", _origin(units), "", "Seconds in a new process:", "")
    start = units["figures"]["start"]
    names = list(next(iter(start.values())))
    rows = [(state, *(f"{row[name]:.2f}" for name in names)) for state, row in start.items()]
    yield from (*table(("kernels", *names), rows), "")
    cpu = load("cpu.json")
    yield from ("## The model on a CPU", "", _origin(cpu), "")
    for cores, figures in cpu["figures"].items():
        speeds = figures["elements per second"]
        who = list(dict.fromkeys(name for row in speeds.values() for name in row))
        rows = [(n, *(f"{speeds[d][n] * 1e-6:,.0f}" if n in speeds[d] else "–" for d in speeds)) for n in who]
        mmas = ", ".join(
            f"{value:,.0f} ({kind})" for kind, value in figures["m16n8k16 MMAs per second"].items()
        )
        yield from (f"Million numbers per second on {cores}; m16n8k16 MMAs per second: {mmas}.", "")
        yield from (*table(("sum", *speeds), rows), "")


def _origin(document: dict[str, Any]) -> str:
    machine = document["machine"]
    where = machine.get("gpu", machine["processor"])
    return f"Measured {document['date']} on {where} by `{document['command']}`."


# From the registries


def commands_markdown() -> str:
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "Every command has `--help`; bad input gives one line on stderr and exit code 2.",
        "",
    ]
    for name, command in group.commands.items():
        lines += [f"## tcu {name}", "", *_prose(command.help or ""), ""]
        rows = []
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                shown = parameter.metavar or parameter.name
            else:
                metavar = f" {parameter.metavar}" if parameter.metavar else ""
                shown = ", ".join(parameter.opts) + metavar
            rows.append((f"`{shown}`", _plain(parameter.help or "")))
        lines += [*table(("option", "what it does"), rows), ""]
    return "\n".join(lines)


def _plain(text: str) -> str:
    for bold in ("[bold]", "[/bold]"):
        text = text.replace(bold, "`")
    return " ".join(text.split())


def _prose(text: str) -> list[str]:
    return [_plain(part) + "\n" for part in inspect.cleandoc(text).split("\n\n")]


def units_markdown() -> str:
    lines = [
        "# Units", "",
        "Every instruction of the catalogue and what pins its row. block: products aligned together; F: bits kept "
        "below the largest exponent; RZ: toward zero, RNE: to nearest, ties to even. `tcu units` prints the same.", "",
    ]  # fmt: skip
    for unit in CATALOGUE.values():
        lines += [f"## {unit.name}", "", f"{unit.title}; {unit.architecture}, compute capability "
                  f"{unit.compute_capability}.", ""]  # fmt: skip
        lines += [*table(("instruction", "k", "block", "F", "rounding", "notes", "pinned by"),
                         [_row(row) for row in unit.instructions]), ""]  # fmt: skip
    return "\n".join(lines)


def _row(row: Instruction) -> tuple[str, ...]:
    arithmetic = row.arithmetic
    inputs = brief(row.a) if row.a == row.b else f"{brief(row.a)}·{brief(row.b)}"
    name = f"{row.name} {inputs} → {brief(row.output)}"
    pinned = "; ".join(f"{each.kind}: {each.text}" for each in row.evidence)
    rules = ("1", "–", "RNE") if isinstance(arithmetic, FusedChain) else ("–", "–", "exact")
    if isinstance(arithmetic, AlignedSum):
        rules = str(arithmetic.block), str(arithmetic.fraction_bits), arithmetic.rounding
    return name, str(row.k), *rules, "; ".join(peculiarities(row)), pinned


def picture(unit: str, expression: str, folder: Path) -> str:
    """What ``tcu explain --svg`` writes."""
    path = folder / "picture.svg"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main_of_tcu(["explain", "--unit", unit, expression, "--svg", str(path)])
    assert code == 0, expression
    return path.read_text(encoding="utf-8")


# The hook


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    found = chapters()
    pages = {
        "reference/commands.md": commands_markdown(),
        "reference/units.md": units_markdown(),
        "explorer.html": explorer_page(),
        "report.html": report_page(found, f"tcu {tcu.__version__}, stored results"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (unit, expression) in PICTURES.items():
            pages[f"pictures/{name}.svg"] = picture(unit, expression, Path(folder))
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def main() -> None:
    (DOCS / "report.md").write_text(report_markdown(chapters()), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(benchmarks_markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
