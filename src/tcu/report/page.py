"""The report: one page that needs nothing else, drawn by Plotly.js in the reader's browser."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tcu.report.chapters import Chapter, Part, parts_of
from tcu.report.explorer import catalogue, script_file
from tcu.report.html_page import Markup, data, page, script, tag
from tcu.report.plots import plot, plotly_script
from tcu.report.series import Look, looks
from tcu.report.tree_svg import tree_svg
from tcu.study import ABSENT, Figure, Outcome, Result, Table, Tree, Verdict, named
from tcu.study.provenance import machine_name
from tcu.study.sources import parts_of as parts_of_study
from tcu.study.sources import remark
from tcu.version import __version__

__all__ = ["HEAD", "MARKS", "OUTCOMES", "explorer_page", "origin_of", "report_page"]

OUTCOMES: dict[Outcome, str] = {"reproduced": "good", "differs": "differs", "not measured": "dim"}
"""Outcome → the class that colours it."""
MARKS: dict[Outcome, str] = {"reproduced": "✓", "differs": "≠", "not measured": "–"}
_LONG = 10
"""Rows above which a table is folded."""


def report_page(chapters: Sequence[Chapter], about: str) -> str:
    """The whole report; ``about``: when, where and how it was made.  Raises ExtraMissingError."""
    plotly = plotly_script()
    figures: dict[str, Any] = {}
    parts = parts_of([chapter for chapter in chapters if chapter.result is not None])
    known = looks(part for each in chapters for part in each.shown.parts if isinstance(part, Figure))
    sections = [section for part in parts for section in _part_sections(part, figures, known)]
    main = tag("main", _summary(chapters, parts), *_explorer(tag("h2", "MMA explorer")), *sections)
    body = [
        tag("div", _contents(parts), main, class_="columns"),
        data(figures, "figures"),
        data(catalogue(), "catalogue"),
        script(plotly), *(script(script_file(name)) for name in ("unit.js", "explorer.js", "report.js")),
    ]  # fmt: skip
    return page("What tensor cores compute, and how fast", about, *body, style=script_file("report.css"))


def explorer_page() -> str:
    """The MMA explorer alone."""
    return page(
        "MMA explorer", f"tcu {__version__}: what one matrix instruction computes, in exact integers",
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
    at = f" at commit {result.commit}" if result.commit else ""
    kind = "Measured" if chapter.origin == "measured" else "Stored"
    older = remark(result.sources, parts_of_study(chapter.study))
    return " ".join(filter(None, (f"{kind}: {how}{result.date}{at}, {where} ({versions}{seed}).", older)))


# Contents and verdicts


def _contents(parts: Sequence[Part]) -> Markup:
    groups = [
        tag("p", tag("a", "Verdicts", href="#verdicts")),
        tag("p", tag("a", "MMA explorer", href="#explorer")),
    ]
    for part in parts:
        links = (tag("a", each.study.title, href=f"#{each.study.name}") for each in part.chapters)
        groups.append(tag("div", tag("strong", part.name, title=part.about), *links))
    return tag("nav", tag("details", tag("summary", "Contents"), *groups))


def _summary(chapters: Sequence[Chapter], parts: Sequence[Part]) -> Markup:
    verdicts = [(chapter, verdict) for chapter in chapters for verdict in chapter.shown.verdicts]
    lead = (
        "Every figure, table, theorem and finding below was measured again by a study that one command reruns; each "
        "statement stands beside what came of it here. A mark is a verdict, and leads to its study: ✓ reproduced, "
        "≠ differs, – cannot be measured here."
    )
    every = [tag("tr", tag("td", _link(chapter)), *_cells(verdict)) for chapter, verdict in verdicts]
    return tag(
        "section", tag("h2", "Verdicts"), tag("p", lead), _tiles([verdict for _, verdict in verdicts]),
        *_not_run(chapters), tag("div", *(_card(part) for part in parts), class_="cards"),
        _folded(f"All {len(verdicts)} statements and their verdicts", _table(("study", *HEAD), every, "prose")),
        _folded("What the papers describe and no study has",
                _table(("where", "what"), [tag("tr", tag("td", named(where)), tag("td", what)) for where, what in ABSENT])),
        _folded("Where the figures of each study are from",
                _table(("study", *OUTCOMES, "from"), [_counted(each) for each in chapters if each.result is not None])),
        id="verdicts",
    )  # fmt: skip


def _tiles(verdicts: Sequence[Verdict]) -> Markup:
    """How many statements of the papers, and of our own, came out how."""
    papers = Counter(verdict.outcome for verdict in verdicts if verdict.items)
    own = Counter(verdict.outcome for verdict in verdicts if not verdict.items)
    told: dict[Outcome, str] = {
        "reproduced": "statements of the papers reproduced",
        "differs": "come out differently here, each with the reason",
        "not measured": "cannot be measured here",
    }
    tiles = [
        _tile(str(papers[outcome]), words, OUTCOMES[outcome])
        for outcome, words in told.items()
        if papers[outcome]
    ]
    if own:
        tiles.append(_tile(f"{own['reproduced']} of {own.total()}", "statements of our own hold", "name"))
    return tag("div", *tiles, class_="tiles")


def _tile(number: str, words: str, kind: str) -> Markup:
    return tag("div", tag("b", number, class_=kind), tag("span", words), class_="tile")


def _not_run(chapters: Sequence[Chapter]) -> list[Markup]:
    """One line of the studies without a result; unfolded, why and the command of each."""
    absent = [chapter for chapter in chapters if chapter.result is None]
    if not absent:
        return []
    what = absent[0].study.title if len(absent) == 1 else f"{len(absent)} studies"
    command = absent[0].command if len(absent) == 1 else "tcu report -o report.html"
    runs = " runs it." if len(absent) == 1 else " runs them where there is what they need."
    line = tag("summary", f"Not run: {what}. ", tag("code", command), runs)
    rows = [
        tag("tr", tag("td", named(each.study.title)), tag("td", named(each.study.question)), tag("td", each.why),
            tag("td", tag("code", each.command)))
        for each in absent
    ]  # fmt: skip
    return [
        tag("details", line, _table(("study", "question", "why not", "command"), rows, "prose"), id="not-run")
    ]


def _card(part: Part) -> Markup:
    measured: list[Markup] = []
    rest: list[Markup] = []
    for name, verdicts in part.items.items():
        item = tag(
            "span",
            tag("span", named(name)),
            *(_mark(chapter, verdict) for chapter, verdict in verdicts),
            class_="item",
        )
        (measured if any(each.outcome != "not measured" for _, each in verdicts) else rest).append(item)
    fold = _folded(f"cannot be measured here: {len(rest)}", tag("div", *rest, class_="items"))
    return tag(
        "div",
        tag("h3", part.name),
        tag("p", part.about, class_="dim"),
        tag("div", *measured, class_="items"),
        *([fold] if rest else []),
        class_="card",
    )


def _mark(chapter: Chapter, verdict: Verdict) -> Markup:
    words = named(f"{verdict.word}: {verdict.statement}")
    return tag(
        "a", MARKS[verdict.outcome], href=f"#{chapter.study.name}", title=words, aria_label=words,
        class_=f"mark {OUTCOMES[verdict.outcome]}",
    )  # fmt: skip


def _counted(chapter: Chapter) -> Markup:
    count = Counter(verdict.outcome for verdict in chapter.shown.verdicts)
    cells = [
        tag("td", str(count[name] or "–"), class_=OUTCOMES[name] if count[name] else "dim")
        for name in OUTCOMES
    ]
    result = chapter.result
    where = "" if result is None else f"{machine_name(result.machine)}, {result.date}"
    style = "dim" if chapter.origin == "stored" else ""
    return tag("tr", tag("td", _link(chapter)), *cells, tag("td", where, class_=style))


def _link(chapter: Chapter) -> Markup:
    return tag("a", chapter.study.title, href=f"#{chapter.study.name}")


HEAD = ("where", "what is stated, and what must hold of which rows", "what we measured", "verdict")
"""The header of every table of verdicts, also in docs/report.md."""


def _cells(verdict: Verdict) -> Iterator[Markup]:
    yield tag("td", named(verdict.place), class_="dim")
    basis = [tag("span", verdict.basis, class_="dim why")] if verdict.basis else []
    yield tag("td", named(verdict.statement), *basis, class_="stated")
    yield tag("td", named(verdict.measured), class_="measured")
    why = [tag("span", named(verdict.why), class_="dim why")] if verdict.why else []
    yield tag("td", tag("strong", verdict.word, class_=f"pill {OUTCOMES[verdict.outcome]}"), *why)


def _table(header: Sequence[str], rows: Sequence[Markup], kind: str = "") -> Markup:
    head = tag("tr", *(tag("th", text, scope="col") for text in header))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    copy = tag("button", "copy", class_="copy", type="button", title="copy the table as tab-separated text")
    return tag("div", copy, tag("div", table, class_=f"table {kind}".strip()), class_="copied")


def _folded(summary: str, *content: Markup) -> Markup:
    return tag("details", tag("summary", summary), *content)


# One study


def _part_sections(part: Part, figures: dict[str, Any], known: Mapping[str, Look]) -> Iterator[Markup]:
    yield tag("div", tag("h2", part.name), tag("p", part.about), class_="part")
    for chapter in part.chapters:
        yield _section(chapter, figures, known)


def _section(chapter: Chapter, figures: dict[str, Any], known: Mapping[str, Look]) -> Markup:
    study, result = chapter.study, chapter.result
    link = [] if result is None else [" ", _json_link(result)]
    shown = [
        _shown(part, f"{study.name}-{number}", figures, known)
        for number, part in enumerate(chapter.shown.parts)
    ]
    verdicts = [tag("tr", *_cells(verdict)) for verdict in chapter.shown.verdicts]
    count = Counter(verdict.outcome for verdict in chapter.shown.verdicts)
    marks = [
        tag("span", f"{MARKS[outcome]} {count[outcome]}", class_=f"count {OUTCOMES[outcome]}")
        for outcome in OUTCOMES if count[outcome]
    ]  # fmt: skip
    return tag(
        "section",
        tag(
            "details",
            tag("summary", tag("h3", study.title, class_="study"), *marks),
            tag("p", named(study.question)), tag("p", origin_of(chapter), *link, class_="origin dim"),
            tag("p", tag("code", chapter.command), " ", tag("button", "copy", class_="copy-text", type="button"),
                class_="command"),
            *([_table(HEAD, verdicts, "prose")] if verdicts else []), tag("div", *shown, class_="figures"),
            class_="chapter", open="open",
        ),
        id=study.name,
    )  # fmt: skip


def _json_link(result: Result) -> Markup:
    """The result itself, inside the page."""
    text = json.dumps(asdict(result), allow_nan=False).encode()
    address = "data:application/json;base64," + base64.b64encode(text).decode()
    return tag("a", f"{result.study}.json", href=address, download=f"{result.study}.json")


def _shown(
    part: Figure | Table | Tree, identity: str, figures: dict[str, Any], known: Mapping[str, Look]
) -> Markup:
    note = [tag("figcaption", named(part.note), class_="dim")] if part.note else []
    if isinstance(part, Figure):
        figures[identity] = plot(part, known)
        legend = tag("div", class_="legend", id=f"{identity}-legend")
        return tag(
            "figure", tag("h4", named(part.title)), tag("div", class_="plot", id=identity), legend, *note
        )
    if isinstance(part, Tree):
        return tag("figure", tag("h4", part.title), Markup(tree_svg(part.step)), *note, class_="wide")
    rows = [tag("tr", *(tag("td", cell) for cell in row)) for row in part.rows]
    table = _table(part.header, rows)
    if len(rows) > _LONG and not part.open:
        return tag("figure", _folded(f"{part.title} ({len(rows)} rows)", table, *note))
    return tag("figure", tag("h4", part.title), table, *note, class_="wide" if len(part.header) > 4 else "")


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
            tag("div", tag("div", tag("div", id="explorer-form", class_="explorer"), tag("p", hint, class_="dim")),
                tag("div", id="explorer-answer", class_="explorer"), class_="bench"),
            id="explorer",
        ),
    )  # fmt: skip
