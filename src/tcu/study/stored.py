"""Results that were measured before, often on another machine: benchmarks/results of the clone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import tcu
from tcu.errors import DataFileError
from tcu.study.run import Result, load
from tcu.study.sources import RECORD, together
from tcu.study.study import Study

__all__ = ["stored_folder", "stored_result"]


def stored_folder() -> Path | None:
    """Where tcu runs from a clone, its benchmarks/results; else there is none."""
    folder = Path(tcu.__file__).resolve().parents[2] / "benchmarks" / "results"
    return folder if folder.is_dir() else None


def stored_result(study: Study, folder: Path | None) -> Result | None:
    """What is stored of a study: its own result, or that of the benchmark that measures it.

    ``folder``: laid out as benchmarks/results, or the one in which a report keeps its results.

    Raises DataFileError for a file that is no such result.
    """
    if folder is None:
        return None
    for own in (folder / "studies" / f"{study.name}.json", folder / f"{study.name}.json"):
        if own.is_file():
            return _with_sources(load(own), folder, own.relative_to(folder).as_posix())
    if study.stored is None or not (folder / study.stored.file).is_file():
        return None
    path = folder / study.stored.file
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        result = Result(
            study.name, "", False, study.seed, document["command"], document["date"], document["machine"],
            document["versions"], 0.0, study.stored.rows(document), document.get("commit"), document.get("sources"),
        )  # fmt: skip
        return _with_sources(result, folder, study.stored.file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFileError(
            f"{path} is no result of {study.command} ({type(error).__name__}): measure it anew, or remove it"
        ) from None


def _with_sources(result: Result, folder: Path, name: str) -> Result:
    """With the digests that benchmarks/sources.py recorded of the file."""
    record = folder / RECORD
    known = json.loads(record.read_text(encoding="utf-8")).get(name) if record.is_file() else None
    if known is None:
        return result
    recorded = known["sources"]
    return replace(result, sources=recorded if result.sources is None else together(result.sources, recorded))
