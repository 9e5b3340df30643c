"""The report: one page that needs nothing else, drawn by Plotly.js in the reader's browser."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import tcu
from tcu.report.chapters import Chapter
from tcu.report.explorer import catalogue, script_file
from tcu.report.html_page import Markup, data, page, script, tag
from tcu.report.plots import plot, plotly_script
from tcu.study import PAPERS, Figure, Outcome, Result, Table, Verdict
from tcu.study.provenance import machine_name

__all__ = ["OUTCOMES", "explorer_page", "origin_of", "report_page"]

OUTCOMES: dict[Outcome, str] = {"reproduced": "good", "differs": "differs", "not measured": "dim"}
"""Outcome → the class that colours it."""
_OWN = "of our own"


def report_page(chapters: Sequence[Chapter], about: str) -> str:
    """The whole report; ``about``: when, where and how it was made.  Raises ExtraMissingError."""
    plotly = plotly_script()
    figures: dict[str, Any] = {}
    sections = [_section(chapter, figures) for chapter in chapters]
    parts = [
        _contents(chapters), _summary(chapters), *_explorer(tag("h2", "MMA explorer")), *sections,
        data(figures, "figures"),
        data(catalogue(), "catalogue"),
        script(plotly), *(script(script_file(name)) for name in ("unit.js", "explorer.js", "report.js")),
    ]  # fmt: skip
    return page("What tensor cores compute, and how fast", about, *parts, style=script_file("report.css"))


def explorer_page() -> str:
    """The MMA explorer alone."""
    return page(
        "MMA explorer", f"tcu {tcu.__version__}: what one matrix instruction computes, in exact integers",
        *_explorer(), data(catalogue(), "catalogue"),
        *(script(script_file(name)) for name in ("unit.js", "explorer.js")), style=script_file("report.css"),
    )  # fmt: skip


def origin_of(chapter: Chapter) -> str:
    """Where a chapter's figures come from, in one sentence."""
    result = chapter.result
    if result is None:
        return f"Missing: {chapter.why}."
    where = machine_name(result.machine)
    how = "quick, " if result.quick else ""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    seed = f", seed {result.seed}" if result.seed is not None else ""
    kind = "Measured" if chapter.origin == "measured" else "Stored"
    return f"{kind}: {how}{result.date}, {where} ({versions}{seed})."


# Contents and verdicts


def _contents(chapters: Sequence[Chapter]) -> Markup:
    groups: dict[str, list[Chapter]] = {}
    for chapter in chapters:
        paper = chapter.study.covers[0].split()[0] if chapter.study.covers else _OWN
        groups.setdefault(paper, []).append(chapter)
    parts = [tag("a", "MMA explorer", href="#explorer"), tag("a", "verdicts", href="#verdicts")]
    for paper in sorted(groups):
        name = tag("strong", f"paper {paper}" if paper in PAPERS else paper)
        links = (tag("a", each.study.title, href=f"#{each.study.name}") for each in groups[paper])
        parts.append(tag("span", name, Markup(": "), Markup(", ".join(links))))
    return tag("nav", *(tag("p", part) for part in parts))


def _summary(chapters: Sequence[Chapter]) -> Markup:
    verdicts = [(chapter, verdict) for chapter in chapters for verdict in chapter.shown.verdicts]
    count = Counter(verdict.outcome for _, verdict in verdicts)
    told = ", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES)
    every = [tag("tr", tag("td", _link(chapter)), *_cells(verdict)) for chapter, verdict in verdicts]
    return tag(
        "section", tag("h2", "Verdicts"),
        tag("p", f"{len(verdicts)} statements of the papers and of our own: {told}."),
        _table(("study", "covers", *OUTCOMES, "from"), [_counted(chapter) for chapter in chapters]),
        tag("details", tag("summary", "Every statement and its verdict"), _table(("study", *_HEAD), every, "prose")),
        id="verdicts",
    )  # fmt: skip


def _counted(chapter: Chapter) -> Markup:
    count = Counter(verdict.outcome for verdict in chapter.shown.verdicts)
    cells = [
        tag("td", str(count[name] or "–"), class_=OUTCOMES[name] if count[name] else "dim")
        for name in OUTCOMES
    ]
    covers = ", ".join(chapter.study.covers) or _OWN
    result = chapter.result
    where = "missing" if result is None else f"{machine_name(result.machine)}, {result.date}"
    style = {"measured": "", "stored": "dim", "missing": "differs"}[chapter.origin]
    return tag("tr", tag("td", _link(chapter)), tag("td", covers), *cells, tag("td", where, class_=style))


def _link(chapter: Chapter) -> Markup:
    return tag("a", chapter.study.title, href=f"#{chapter.study.name}")


_HEAD = ("where", "what is stated", "what we measured", "verdict")


def _cells(verdict: Verdict) -> Iterator[Markup]:
    yield tag("td", verdict.place, class_="dim")
    yield tag("td", verdict.statement)
    yield tag("td", verdict.measured)
    why = [tag("span", f" {verdict.why}", class_="dim why")] if verdict.why else []
    yield tag("td", tag("strong", verdict.word, class_=OUTCOMES[verdict.outcome]), *why)


def _table(header: Sequence[str], rows: Sequence[Markup], kind: str = "") -> Markup:
    head = tag("tr", *(tag("th", text, scope="col") for text in header))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    copy = tag("button", "copy", class_="copy", type="button", title="copy the table as tab-separated text")
    return tag("div", copy, tag("div", table, class_=f"table {kind}".strip()), class_="copied")


# One study


def _section(chapter: Chapter, figures: dict[str, Any]) -> Markup:
    study = chapter.study
    about = [tag("p", study.question)]
    if study.covers:
        about.append(
            tag(
                "p", "Covers ", tag("span", ", ".join(f"paper {name}" for name in study.covers)), class_="dim"
            )
        )
    origin: list[str] = [origin_of(chapter)]
    if chapter.result is not None:
        origin += [" ", _json_link(chapter.result)]
    parts = [
        _part(part, f"{study.name}-{number}", figures) for number, part in enumerate(chapter.shown.parts)
    ]
    verdicts = [tag("tr", *_cells(verdict)) for verdict in chapter.shown.verdicts]
    return tag(
        "section", tag("h2", study.title), *about,
        tag("p", *origin, class_="dim" if chapter.result is not None else "differs"),
        tag("p", tag("code", chapter.command), " ", tag("button", "copy", class_="copy-text", type="button")),
        *([_table(_HEAD, verdicts, "prose")] if verdicts else []),
        *parts, id=study.name,
    )  # fmt: skip


def _json_link(result: Result) -> Markup:
    """The result itself, inside the page."""
    text = json.dumps(asdict(result), allow_nan=False).encode()
    address = "data:application/json;base64," + base64.b64encode(text).decode()
    return tag("a", f"{result.study}.json", href=address, download=f"{result.study}.json")


def _part(part: Figure | Table, identity: str, figures: dict[str, Any]) -> Markup:
    note = [tag("figcaption", part.note, class_="dim")] if part.note else []
    if isinstance(part, Figure):
        figures[identity] = plot(part)
        return tag("figure", tag("h3", part.title), tag("div", class_="plot", id=identity), *note)
    rows = [tag("tr", *(tag("td", cell) for cell in row)) for row in part.rows]
    return tag("figure", tag("h3", part.title), _table(part.header, rows), *note)


# The explorer


def _explorer(*heading: Markup) -> tuple[Markup, ...]:
    intro = (
        "Choose a unit and operands. Products are exact; all terms are aligned to the largest exponent, what lies "
        "below the last kept bit is cut, the sum is rounded once. Computed in this page, in integers."
    )
    hint = "Numbers: 1.5, 2^-24, 3*2^-25, 1e-3, 0x1.8p-3, inf, nan. Arrows step to the neighbouring number."
    return (
        tag(
            "section", *heading, tag("p", intro),
            tag("div", id="explorer-form", class_="explorer"), tag("p", hint, class_="dim"),
            tag("div", id="explorer-answer", class_="explorer"), id="explorer",
        ),
    )  # fmt: skip
