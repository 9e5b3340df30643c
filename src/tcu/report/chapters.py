"""What stands in a report: every study with its result, measured now, stored before, or missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from tcu.study import PAPERS, Result, Shown, Study, Verdict, named, run_study, stored_result, what_is_missing

__all__ = ["Chapter", "Origin", "Part", "collect", "command_of", "parts_of"]

Origin = Literal["measured", "stored", "missing"]
Progress = Callable[[Study, int, int], None]


@dataclass(frozen=True)
class Chapter:
    """One study of a report."""

    study: Study
    result: Result | None
    origin: Origin
    why: str = ""
    """Why it was not measured here."""

    @cached_property
    def shown(self) -> Shown:
        """Its figures, tables and verdicts; nothing where there is no result."""
        return Shown([], []) if self.result is None else self.study.show(self.result.rows)

    @property
    def command(self) -> str:
        """What reproduces it."""
        return self.study.command or command_of(
            self.study, quick=self.result is not None and self.result.quick
        )


@dataclass(frozen=True)
class Part:
    """A paper with the studies that measure it again; or our own studies."""

    number: str
    """Of the paper; empty: our own."""
    name: str
    about: str
    chapters: list[Chapter] = field(default_factory=list)
    items: dict[str, list[tuple[Chapter, Verdict]]] = field(default_factory=dict)
    """Figure, table, theorem, equation or section → the verdicts on it, of whatever study."""


def parts_of(chapters: Sequence[Chapter]) -> list[Part]:
    """The papers by number, then what is our own; those without a chapter are left out."""
    parts = {
        number: Part(number, named(f"paper {number}"), f"{authors}: {title}")
        for number, (authors, title) in PAPERS.items()
    }
    parts[""] = Part("", "Of our own", "What nobody stated before")
    for chapter in chapters:
        covers = chapter.study.covers
        parts[covers[0].split()[0] if covers else ""].chapters.append(chapter)
        for verdict in chapter.shown.verdicts:
            for item in verdict.items:
                number, _, place = item.partition(" ")
                parts[number].items.setdefault(place, []).append((chapter, verdict))
            if not verdict.items:
                parts[""].items.setdefault(chapter.study.title, []).append((chapter, verdict))
    for number, part in parts.items():
        if number:
            ordered = sorted(part.items.items(), key=lambda item: _rank(item[0]))
            part.items.clear()
            part.items.update(ordered)
    return [part for part in parts.values() if part.chapters]


_KINDS = ("figure", "table", "theorem", "eq.", "section")


def _rank(place: str) -> tuple[int, list[float]]:
    """Figures first, by number; what is named otherwise comes last, as it came."""
    kind = place.split()[0].lower()
    numbers = [float(number) for number in re.findall(r"\d+", place)]
    return (_KINDS.index(kind), numbers) if kind in _KINDS else (len(_KINDS), [])


def command_of(study: Study, *, quick: bool) -> str:
    """The command line that measures one study alone."""
    return f"tcu report --study {study.name}{' --quick' if quick else ''} -o report.html"


def collect(
    studies: Sequence[Study],
    results: Path,
    *,
    quick: bool,
    stored: Path | None,
    measure: bool = True,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Chapter]:
    """A chapter for each study: what this machine can measure is measured, results kept in ``results``.

    stored: the folder of results of other machines; measure: False draws stored
    results alone.  Raises DataFileError for results that cannot be read or written.
    """
    chapters = []
    for study in studies:
        why = what_is_missing(study) if measure else "no stored result"
        if not why:
            told = None if progress is None else _about(study, progress)
            command = command_of(study, quick=quick)
            result = run_study(study, results, quick=quick, command=command, fresh=fresh, progress=told)
            chapters.append(Chapter(study, result, "measured"))
            continue
        known = stored_result(study, stored)
        chapters.append(Chapter(study, known, "missing" if known is None else "stored", why))
    return chapters


def _about(study: Study, progress: Progress) -> Callable[[int, int], None]:
    return lambda done, total: progress(study, done, total)
