"""``tcu report``: the studies, measured here or drawn from stored results, as one page."""

from __future__ import annotations

import contextlib
import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tcu.cli import options
from tcu.cli.output import console, error_console, print_json, write_page
from tcu.errors import DataFileError, ParameterError
from tcu.report.chapters import Chapter, collect
from tcu.report.page import origin_of, report_page
from tcu.report.plots import plotly_script
from tcu.study import Study, chosen, stored_folder, what_is_missing
from tcu.study.provenance import machine, machine_name
from tcu.unfinished import check_place
from tcu.version import __version__

__all__ = ["report_command"]


def report_command(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.html", help="The page to write.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points and smaller arrays: a minute or two in all.")
    ] = False,
    study: Annotated[
        list[str] | None,
        typer.Option("--study", metavar="NAME", help="Only this study; may be given several times."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the studies, and measure nothing.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="FOLDER",
            help="Where results are kept, point by point; else FILE.results beside the page. With --stored: where they are "
            "drawn from; else benchmarks/results of the clone.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is kept already.")] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Measure nothing; draw the stored results alone.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """The papers' figures, tables and statements, measured again on this machine.

    Writes one page that needs nothing else: interactive figures, verdicts on
    what the papers state, an explorer of single MMAs. A run that is interrupted
    goes on where it stopped. What needs a GPU, and was not measured here, comes
    from stored results and says so.

    Example: [bold]tcu report --quick -o report.html[/bold]
    """
    studies = chosen(study or [])
    if listed:
        _list(studies, as_json)
        return
    if output is None:
        raise ParameterError("nowhere to write the report: give -o report.html, or --list to see the studies")
    check_place(output)
    plotly_script()  # missing packages are told before the work, not after it
    if stored and fresh:
        raise ParameterError("--fresh measures again and --stored measures nothing: leave one of them out")
    known = _stored_results(results) if stored else stored_folder()
    kept = known if stored and known is not None else results or output.with_suffix(".results")
    with _progress([] if stored else studies, quick) as told:
        chapters = collect(
            studies, kept, quick=quick, stored=known, measure=not stored, fresh=fresh, progress=told
        )
    if all(chapter.result is None for chapter in chapters):
        raise DataFileError(_nothing_to_draw(chapters, known))
    write_page(output, report_page(chapters, _about(quick, stored)))
    if as_json:
        print_json(
            {"page": str(output), "results": str(kept), "studies": [_document(each) for each in chapters]}
        )
    else:
        console().print(_table(chapters))
        console().print(f"written to {output}; results are kept in {kept}", soft_wrap=True)


def _stored_results(results: Path | None) -> Path:
    """The folder of stored results: the one that is named, or that of the clone."""
    folder = results or stored_folder()
    if folder is None:
        raise DataFileError(
            "--stored: this installation of tcu has no stored results: give --results FOLDER, such as "
            "benchmarks/results of a clone"
        )
    if not folder.is_dir():
        raise DataFileError(f"--results {folder}: there is no such folder: name the one that has the results")
    return folder


def _nothing_to_draw(chapters: Sequence[Chapter], stored: Path | None) -> str:
    names = ", ".join(chapter.study.name for chapter in chapters)
    where = (
        "this installation of tcu has no stored results"
        if stored is None
        else f"{stored} has no result of them"
    )
    why = "; ".join(dict.fromkeys(chapter.why for chapter in chapters))
    return (
        f"nothing to draw of {names} ({why}), and {where}: choose other studies (--list shows them), or give "
        "--stored --results FOLDER with results"
    )


def _about(quick: bool, stored: bool) -> str:
    what = "stored results" if stored else "a quick run" if quick else "a run in full"
    return f"tcu {__version__}, {what} on {machine_name(machine())}, {datetime.date.today().isoformat()}"


# The list


def _list(studies: Sequence[Study], as_json: bool) -> None:
    if as_json:
        print_json([
            {"name": each.name, "title": each.title, "covers": list(each.covers), "question": each.question,
             "seconds": {"quick": each.seconds[0], "full": each.seconds[1]}, "needs": list(each.needs),
             "missing": what_is_missing(each)}
            for each in studies
        ])  # fmt: skip
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("study", "covers", "question", "needs", "quick", "in full"):
        table.add_column(name, no_wrap=name in ("study", "quick"))
    for each in studies:
        covers = ", ".join(each.covers) or "tcu's own"
        times = ["–", "–"] if each.measure is None else [f"{seconds:.0f} s" for seconds in each.seconds]
        table.add_row(
            Text(each.name, style="bold cyan"), covers, each.question, ", ".join(each.needs) or "–", *times
        )
    console().print(table)


# The outcome


def _document(chapter: Chapter) -> dict[str, Any]:
    return {
        "study": chapter.study.name, "origin": chapter.origin, "why": chapter.why, "about": origin_of(chapter),
        "command": chapter.command, "verdicts": [vars(verdict) | {"rows": len(verdict.rows)} for verdict in chapter.shown.verdicts],
    }  # fmt: skip


def _table(chapters: Sequence[Chapter]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("study", "figures", "reproduced", "differs", "not measured", "from"):
        table.add_column(name)
    for chapter in chapters:
        count = Counter(verdict.outcome for verdict in chapter.shown.verdicts)
        outcomes = [str(count[name] or "–") for name in ("reproduced", "differs", "not measured")]
        where = (
            "missing"
            if chapter.result is None
            else f"{machine_name(chapter.result.machine)}, {chapter.result.date}"
        )
        style = {"measured": "", "stored": "dim", "missing": "yellow"}[chapter.origin]
        table.add_row(
            Text(chapter.study.name, style="bold cyan"),
            str(len(chapter.shown.parts)),
            *outcomes,
            Text(where, style),
        )
    return table


@contextlib.contextmanager
def _progress(studies: Sequence[Study], quick: bool) -> Iterator[Callable[[Study, int, int], None]]:
    """A bar for all studies together, on a terminal: by the seconds that each is expected to take."""
    expected = {each.name: each.seconds[0 if quick else 1] for each in studies if not what_is_missing(each)}
    bar = Progress(
        TextColumn("{task.percentage:>3.0f} %"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
        console=error_console(), transient=True, disable=not error_console().is_terminal,
    )  # fmt: skip
    done: dict[str, float] = {}
    with bar:
        task = bar.add_task("", total=sum(expected.values()) or 1)

        def told(study: Study, points: int, total: int) -> None:
            done[study.name] = expected[study.name] * points / max(total, 1)
            bar.update(task, completed=sum(done.values()), description=f"{study.title}: {points} of {total}")

        yield told
