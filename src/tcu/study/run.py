"""Run a study point by point; an interrupted one goes on where it stopped.

While a study runs, every point that is done is a line of NAME.points.jsonl in
the folder of results, after a first line that says what is being measured.  At
the end all of it becomes NAME.json at once, and the lines go.  So whatever
ends the process, kill -9 included, costs the point in work and no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tcu.errors import DataFileError
from tcu.study.provenance import provenance
from tcu.study.sources import changed, parts_of
from tcu.study.study import Point, Rows, Study
from tcu.version import __version__

__all__ = ["Progress", "Result", "finished", "load", "run_study"]

Progress = Callable[[int, int], None]
"""Told (points done, points in all), first with those that an earlier run has done."""


@dataclass(frozen=True)
class Result:
    """The rows of a study and where they come from."""

    study: str
    identity: str
    """Of the version of tcu and the points: results with the same one may stand for each other."""
    quick: bool
    seed: int | None
    command: str
    date: str
    machine: dict[str, Any]
    versions: dict[str, str]
    seconds: float
    """For all points together; 0 where they are not known."""
    rows: Rows
    commit: str | None = None
    """Of the sources that ran, where it was known."""
    sources: dict[str, str] | None = None
    """Their digests, part by part (:mod:`tcu.study.sources`)."""


def run_study(
    study: Study,
    folder: Path,
    *,
    quick: bool,
    command: str,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Result:
    """The result, of this run or of an earlier one with the same points, version and sources of tcu.

    A result in full also answers for a quick one.  ``fresh`` measures
    everything again.  Raises DataFileError where ``folder`` cannot be written.
    """
    assert study.measure is not None
    told = progress or (lambda done, total: None)
    if not fresh and (known := finished(study, folder, quick)) is not None:
        total = len(study.points(known.quick))
        told(total, total)
        return known
    points = study.points(quick)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        head = {
            "identity": _identity(study, points),
            "quick": quick,
            "seed": study.seed,
            **provenance(command),
        }
        with _Journal(folder / f"{study.name}.points.jsonl", head, fresh) as journal:
            told(len(journal.done), len(points))
            for point in points:
                if _key(point) not in journal.done:
                    start = time.perf_counter()
                    rows = study.measure(point)
                    journal.add(point, rows, time.perf_counter() - start)
                    told(len(journal.done), len(points))
        done = [journal.done[_key(point)] for point in points]
        result = Result(
            study.name, **journal.head,
            seconds=round(sum(each["seconds"] for each in done), 3),
            rows=[row for each in done for row in each["rows"]],
        )  # fmt: skip
        save(result, folder)
        journal.path.unlink(missing_ok=True)
    except OSError as error:
        raise DataFileError(
            f"cannot write results to {folder}: {error.strerror or error}: choose another --results folder"
        ) from None
    return result


def save(result: Result, folder: Path) -> Path:
    """NAME.json, whole or not at all."""
    path = folder / f"{result.study}.json"
    part = path.with_suffix(".part")
    part.write_text(_text(asdict(result)), encoding="utf-8")
    os.replace(part, path)
    return path


def _text(document: dict[str, Any]) -> str:
    """JSON with a line for every row, which is shorter than one for every number and can be compared."""
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in document.pop("rows"))
    head = json.dumps(document, indent=1, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "rows": [\n{rows}\n ]\n}}\n'


def finished(study: Study, folder: Path, quick: bool) -> Result | None:
    """The stored result that answers for this run, if there is one: of the same points, and of the sources that run."""
    path = folder / f"{study.name}.json"
    if not path.is_file():
        return None
    known = load(path)
    if known.quick and not quick:
        return None
    if known.identity != _identity(study, study.points(known.quick)):
        return None
    return known if known.sources is not None and not changed(known.sources, parts_of(study)) else None


def load(path: Path) -> Result:
    """A result that :func:`run_study` wrote; raises DataFileError for any other file."""
    try:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataFileError(
            f"{path} is no result of a study ({type(error).__name__}): remove it, or choose another --results folder"
        ) from None


class _Journal:
    """The points that are done, on disk as soon as they are."""

    def __init__(self, path: Path, head: dict[str, Any], fresh: bool) -> None:
        self.path, self.head = path, head
        self.done: dict[str, dict[str, Any]] = {}
        lines = [] if fresh else self._lines()
        if lines and all(lines[0].get(key) == head[key] for key in ("identity", "sources")):
            self.head = lines[0]
            self.done = {_key(line["point"]): line for line in lines[1:]}
        # Written anew: a last line that was cut off is gone then, and one of other points, too.
        part = path.with_suffix(".part")
        part.write_text("".join(_line(each) for each in (self.head, *self.done.values())), encoding="utf-8")
        os.replace(part, path)
        self._file = path.open("a", encoding="utf-8")

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        if self.path.is_file():
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:  # what was being written when the process ended
                    break
        return [line for line in found if isinstance(line, dict)]

    def __enter__(self) -> _Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, point: Point, rows: Rows, seconds: float) -> None:
        line = {"point": point, "seconds": seconds, "rows": rows}
        self._file.write(_line(line))
        self._file.flush()
        self.done[_key(point)] = line


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False) + "\n"


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)


def _identity(study: Study, points: list[Point]) -> str:
    text = json.dumps([__version__, study.name, study.seed, points], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
