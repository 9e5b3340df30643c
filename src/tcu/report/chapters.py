"""What stands in a report: every study with its result, measured now, stored before, or missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from tcu.study import Result, Shown, Study, run_study, stored_result, what_is_missing

__all__ = ["Chapter", "Origin", "collect", "command_of"]

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
