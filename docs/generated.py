"""The pages and pictures of the site that are generated: from the registries, and from benchmarks/results.

A hook of MkDocs: commands, units, pictures, the explorer and the interactive
report exist in the built site alone.  The report's and the benchmarks' pages
are kept in the repository, where they can be read as they are, and so are the
sections of pages of the reference that are made from the table of operations:

    python docs/generated.py

writes them anew, and a test holds them to it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tcu
from tcu.cli.app import app
from tcu.cli.app import main as main_of_tcu
from tcu.cli.catalogue import brief, parameters, peculiarities
from tcu.ops import OPERATIONS
from tcu.probes.replay import tree_of
from tcu.report.chapters import Chapter, collect, parts_of
from tcu.report.line_svg import line_svg
from tcu.report.mma_errors import measured, rows
from tcu.report.page import HEAD, MARKS, explorer_page, origin_of, report_page
from tcu.report.series import looks
from tcu.report.tree_svg import tree_svg
from tcu.study import ABSENT, STUDIES, Figure, named, stored_folder
from tcu.surfaces import served
from tcu.surfaces.functions import FUNCTIONS
from tcu.units import CATALOGUE, Instruction

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PICTURES: dict[str, tuple[str, ...]] = {
    "cut": ("V100", "1 + 2^-24 + 2^-24"),
    "kept": ("H100", "1 + 2^-24 + 2^-24"),
    "guard": ("V100", "-0x1.fffffep-1 + 1"),
    "kept-A100": ("A100", "1 + 2^-24 + 2^-24"),
    "kept-AMX": ("AMX", "1 + 2^-24 + 2^-24", "--instruction", "tdpfp16ps"),
    "monotonic-low": ("V100", "0x1.fffffep-1 + 2^-24 + 2^-24 + 2^-24 + 2^-24"),
    "monotonic-high": ("V100", "1 + 2^-24 + 2^-24 + 2^-24 + 2^-24"),
}
"""Name → unit, expression and options of what ``tcu explain`` draws."""
CHARTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "errors-normal": ("errors", "Error of each variant, normal numbers, as a V100 computes it", ()),
    "chains": ("chain-length", "single-pass: error over the chain length R, uniform numbers", ()),
    "speed-16": (
        "memory-ceiling",
        "Speed of one call over n, float16",
        ("read alone", "tcu.sum", "tcu.fsum", "torch", "CUB half→float"),
    ),
    "speed-32": (
        "memory-ceiling",
        "Speed of one call over n, float32",
        ("read alone", "tcu.sum", "tcu.fsum", "torch", "torch, dtype=float64", "CUB float→float gpu_to_gpu"),
    ),
}
"""Name → study, title of its figure, and the series that are shown: all of them if none is named."""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(map(cell, header))} |", "| --- " * len(header) + "|",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
    ]  # fmt: skip


def generated(source: str) -> str:
    return f"<!-- Written by docs/generated.py from {source}; do not edit. -->"


# From the table of operations


def described(section: str) -> str:
    """What shows the docstrings of the functions that a section of reference/api.md has."""
    return "\n".join(f"::: tcu.{name}" for name in FUNCTIONS if _section_of(name) == section)


def _section_of(function: str) -> str:
    operation = OPERATIONS[function.removeprefix("segment_").removesuffix("_error_bound")]
    if not operation.in_parts:
        return "rows that become rows"
    if operation.kind == "scan" or function.startswith("segment_"):
        return "running sums and segments"
    return "correctly rounded" if operation.exact else "sums by a plan"


SECTIONS: dict[str, Callable[[], str]] = {
    "what is served where": served.table,
    "sums by index": served.table_by_index,
    **{
        name: partial(described, name)
        for name in (
            "sums by a plan",
            "running sums and segments",
            "rows that become rows",
            "correctly rounded",
        )
    },
}
"""What stands between the comments "Written by docs/generated.py: NAME" and "Written until here" of a page."""
_SECTION = re.compile(
    r"(<!-- Written by docs/generated\.py: ([\w ]+) -->\n).*?(<!-- Written until here -->\n)", re.DOTALL
)


def filled(page: str) -> str:
    """The page with its sections as they are now."""
    return _SECTION.sub(lambda found: f"{found[1]}\n{SECTIONS[found[2]]()}\n\n{found[3]}", page)


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
    parts = parts_of(found)
    lines = [
        generated("benchmarks/results"), "# The papers, measured again", "",
        "What the papers measured, tabulated or proved, what came of it here, and where the figures are from. "
        "`tcu report` measures on your machine and writes the same with figures; with the results below it is "
        "[one interactive page](report.html).", "",
        "## Every figure, table and theorem", "", "✓ reproduced, ≠ differs, – cannot be measured here; each verdict with "
        "its reason stands below.", "",
    ]  # fmt: skip
    for part in parts:
        rows = [
            (name, " ".join(MARKS[verdict.outcome] for _, verdict in verdicts),
             ", ".join(dict.fromkeys(f"[{c.study.title}](#{c.study.name})" for c, _ in verdicts)))
            for name, verdicts in part.items.items() if part.number
        ]  # fmt: skip
        if rows:
            lines += [
                f"**{part.name}**: {part.about}",
                "",
                *table(("where", "verdicts", "studies"), rows),
                "",
            ]
    lines += [
        "**Not here**: what the papers describe and no study has",
        "",
        *table(("where", "what"), [(named(where), what) for where, what in ABSENT]),
        "",
    ]
    for part in parts:
        lines += [f"## {part.name}", "", f"{part.about}.", ""]
        for chapter in part.chapters:
            lines += [
                f'<a id="{chapter.study.name}"></a>', "", f"### {chapter.study.title}", "", named(chapter.study.question), "",
                f"{origin_of(chapter)} `{chapter.command}`", "",
                *table(
                    HEAD,
                    [
                        (named(v.place), named(v.statement) + (f" *{v.basis}*" if v.basis else ""), named(v.measured),
                         f"**{v.word}**" + (f": {named(v.why)}" if v.why else ""))
                        for v in chapter.shown.verdicts
                    ],
                ), "",
            ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def benchmarks_markdown() -> str:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from page import page  # beside what measures

    return f"{generated('benchmarks/results')}\n{page()}".rstrip() + "\n"


# From the registries


def commands_markdown() -> str:
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "Every command has `--help`; bad input gives one line on stderr and exit code 2.",
        "",
    ]
    for name, late in group.commands.items():
        command = late.loaded
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
        sources = list(dict.fromkeys(source for row in unit.instructions for source in _sources(row)))
        of_gpu = "" if unit.compute_capability == "-" else f", compute capability {unit.compute_capability}"
        lines += [f"## {unit.name}", "", f"{unit.title}; {unit.architecture}{of_gpu}.", ""]  # fmt: skip
        lines += [*table(("instruction", "k", "block", "F", "rounding", "notes", "pinned by"),
                         [_row(row, sources) for row in unit.instructions]), ""]  # fmt: skip
        lines += ["Pinned by:", "", *(f"{number}. {source}" for number, source in enumerate(sources, 1)), ""]
    return "\n".join(lines)


def mma_errors_markdown() -> str:
    lines = [
        "# The error of one MMA", "",
        "D = A·B + C by one instruction, in units of the last place of the exact result, for sums of numbers of one sign: where "
        "terms cancel, no unit's error has a bound in those. *Proved*: no sum of normal numbers errs more, unless it overflows or "
        "is subnormal. *Found*: the worst of some thousands of sums that are made to lose much. *Typical*: root of the mean "
        "square, of numbers from [0, 1), evenly distributed, without C. The models computed the last two when this page was built.", "",
    ]  # fmt: skip
    found = []
    for units, row in rows():
        error = measured(row)
        name = f"{row.name} {brief(row.a)} → {brief(row.output)}, k = {row.k}"
        numbers = (error.proved, error.found, error.typical)
        found.append((", ".join(dict.fromkeys(units)), name, *map(_ulps, numbers)))
    lines += [*table(("units", "instruction", "proved", "found", "typical"), found), ""]
    lines += [
        "An instruction of several blocks rounds after each, and each block of n products cuts n + 1 terms below F bits: "
        "the V100's four blocks of four lose more than the H100's one of 16. A chain of R instructions errs up to R times as much.",
        "",
        "## Where it hurts", "",
        "8-bit products into binary32 keep 13 fraction bits on Ada and in Hopper's `wgmma`: a result has the precision of "
        "binary16 and a little more, at binary32's range. Instead:", "",
        "- On Hopper, `mma` multiplies the same formats with 25 bits, at the price of its speed.",
        "- Keep chains short, and add their results outside the unit: [`tcu.matmul`][tcu.matmul] starts a chain from zero for "
        "each chunk of K where its plan says so, and adds in binary32.",
        "- For sums, [`tcu.sum`][tcu.sum]'s short chains add in binary64; [`tcu.fsum`][tcu.fsum] has no error but the last rounding.",
        "- Of numbers that differ much in size, let the large ones come last: each block of a chain cuts what is small beside C.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _ulps(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _sources(row: Instruction) -> list[str]:
    return [f"{each.kind}: {each.text}" for each in row.evidence]


def _row(row: Instruction, sources: Sequence[str]) -> tuple[str, ...]:
    inputs = brief(row.a) if row.a == row.b else f"{brief(row.a)}·{brief(row.b)}"
    name = f"{row.name} {inputs} → {brief(row.output)}"
    pinned = ", ".join(str(1 + sources.index(source)) for source in _sources(row))
    return name, str(row.k), *parameters(row)[:3], "; ".join(peculiarities(row)), pinned


def chart(study: str, title: str, names: Sequence[str], found: Sequence[Chapter]) -> str:
    """A figure of a study as it is stored, with the colours that its series have in the report."""
    figures = {
        (each.study.name, part.title): part
        for each in found
        for part in each.shown.parts
        if isinstance(part, Figure)
    }
    figure = figures[study, title]
    lines = [line for line in figure.lines if not names or line.name in names]
    assert {line.name for line in lines} >= set(names), "a series has another name now"
    return line_svg(replace(figure, lines=lines), looks(figures.values()))


def revealed_tree() -> str:
    """numpy.sum as it adds on the machine that builds the site."""
    found = tcu.reveal(np.sum, 24, dtype="float32", seed=0).plan
    assert found is not None
    return tree_svg(tree_of(found))


def picture(unit: str, expression: str, *options: str, folder: Path) -> str:
    """What ``tcu explain --svg`` writes."""
    path = folder / "picture.svg"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main_of_tcu(["explain", "--unit", unit, *options, expression, "--svg", str(path)])
    assert code == 0, expression
    return path.read_text(encoding="utf-8")


# The hook


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    found = chapters()
    pages = {
        "reference/commands.md": commands_markdown(),
        "reference/units.md": units_markdown(),
        "reference/mma-errors.md": mma_errors_markdown(),
        "explorer.html": explorer_page(),
        "report.html": report_page(found, f"tcu {tcu.__version__}, stored results"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, words in PICTURES.items():
            pages[f"pictures/{name}.svg"] = picture(*words, folder=Path(folder))
    pages |= {f"pictures/{name}.svg": chart(*what, found) for name, what in CHARTS.items()}
    pages["pictures/numpy-sum.svg"] = revealed_tree()
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def main() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    (DOCS / "report.md").write_text(report_markdown(chapters()), encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(benchmarks_markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
