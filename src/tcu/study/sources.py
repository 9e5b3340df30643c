"""Of which sources figures are: digests of the parts of tcu that a run measures, then and now.

A digest is over the names and git's own hashes of a part's files, so that it can be told of any commit without its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import tcu
from tcu.study.study import Study

__all__ = ["PARTS", "RECORD", "changed", "digest", "digests", "is_source", "parts_of", "remark"]

PARTS: dict[str, tuple[str, ...]] = {
    "GPU kernels": ("gpu", "engines/cuda"),
    "model": ("engines/host", "formats", "model", "ops", "plan", "units"),
    "algorithms": ("algorithms", "machine"),
    "probes": ("probes",),
}
"""Part → its folders in tcu."""
_SUFFIXES = (".py", ".cu", ".cuh", ".json")
RECORD = "sources.json"
"""The file, beside results, that has the digests of those that do not hold their own."""


def is_source(name: str, part: str) -> bool:
    """Whether a file, by its path in tcu, belongs to a part."""
    return name.endswith(_SUFFIXES) and any(name.startswith(f"{folder}/") for folder in PARTS[part])


def digest(files: Mapping[str, str]) -> str:
    """Of path → git's hash."""
    text = "".join(f"{name} {files[name]}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(root: Path | None = None) -> dict[str, str]:
    """Of each part as it is now; of the tcu that runs unless ``root`` is given."""
    return dict(_digests(root or Path(tcu.__file__).parent))


@cache
def _digests(root: Path) -> dict[str, str]:
    files = {
        path.relative_to(root).as_posix(): path
        for path in root.rglob("*") if path.suffix in _SUFFIXES and "__pycache__" not in path.parts
    }  # fmt: skip
    return {
        part: digest(
            {name: _blob(path.read_bytes()) for name, path in files.items() if is_source(name, part)}
        )
        for part in PARTS
    }


def _blob(data: bytes) -> str:
    """The hash by which git knows a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def parts_of(study: Study) -> tuple[str, ...]:
    """What a study measures."""
    if study.sources:
        return study.sources
    papers = {one.split()[0] for one in study.covers}
    if "gpu" in study.needs:
        return ("GPU kernels",)
    if "004" in papers:
        return ("algorithms",)
    return ("model", "probes") if "003" in papers else ("model",)


def changed(
    measured: Mapping[str, str], parts: Iterable[str], now: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The parts that are not what they were."""
    present = digests() if now is None else now
    return tuple(part for part in parts if measured.get(part) != present[part])


def remark(measured: Mapping[str, str] | None, parts: Iterable[str]) -> str:
    """One sentence for a reader; empty where the sources are those that run."""
    if measured is None:
        return "Of which sources is not known."
    older = changed(measured, parts)
    return f"Of older sources: {' and '.join(older)} changed since." if older else ""
