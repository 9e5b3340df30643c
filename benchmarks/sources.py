"""Of which sources each file of results is, and the record of those that do not say it themselves.

    python benchmarks/sources.py

writes benchmarks/results/sources.json.  A file without digests names the commit that was measured, or else the commit
that stored it stands in for it: what was measured is no newer than that.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcu.study.sources import PARTS, RECORD, digest, is_source

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def measured_parts(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What a benchmark measures: the kernels where a GPU took part, else the CPU's model."""
    return ("GPU kernels",) if "gpu" in document["machine"] else ("model",)


def of_file(name: str, document: Mapping[str, Any], results: Path = RESULTS) -> dict[str, str] | None:
    """The digests that a file holds, or that the record has of it; None where nothing tells."""
    if document.get("sources"):
        return dict(document["sources"])
    record = results / RECORD
    known = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    return dict(known[name]["sources"]) if name in known else None


def at_commit(commit: str, root: Path = ROOT) -> dict[str, str]:
    """The digests of a commit's sources."""
    lines = _git(root, "ls-tree", "-r", f"{commit}:src/tcu").splitlines()
    files = {name: about.split()[2] for about, _, name in (line.partition("\t") for line in lines)}
    return {
        part: digest({name: blob for name, blob in files.items() if is_source(name, part)}) for part in PARTS
    }


def newest_commit(part: str, root: Path = ROOT) -> str:
    """The date of the newest commit to a part."""
    return _git(root, "log", "-1", "--format=%cs", "--", *(f"src/tcu/{folder}" for folder in PARTS[part]))


def files(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Path in the folder of results → document."""
    paths = [path for path in sorted(results.rglob("*.json")) if path.name != RECORD]
    return {
        path.relative_to(results).as_posix(): json.loads(path.read_text(encoding="utf-8")) for path in paths
    }


def write() -> None:
    """The record, anew; commits that are not there any more leave what was known."""
    path = RESULTS / RECORD
    found = {}
    for name, document in files().items():
        if not document.get("sources"):
            named = document.get("commit") or ""
            named = "" if named.endswith("-dirty") else named  # what ran is no commit's
            commit = named or _git(ROOT, "log", "-1", "--format=%h", "--abbrev=12", "--", str(RESULTS / name))
            how = "named by the file" if named else "that stored the file"
            found[name] = {"commit": commit, "how": how, "sources": at_commit(commit)}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    write()
