"""Of which sources each file of results is, and the record of those that do not say it themselves.

    python benchmarks/sources.py

writes benchmarks/results/sources.json.  A file without digests names the commit that was measured, or else the commit
that stored it stands in for it: what was measured is no newer than that.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tcu.study.launches import sources_of
from tcu.study.sources import (
    GPU,
    INTEGERS,
    KERNELS_OF,
    PARTS,
    RECORD,
    TRANSFORMS,
    digest,
    digests_of_kernels,
    is_source,
    kernels_of,
    together,
)  # fmt: skip

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


_SEGMENTS = {
    "rows": kernels_of("rows", "columns"), "exactrows": kernels_of("exact_rows", "exact_columns"),
    "segments": kernels_of("segments", "offsets"), "exactsegments": kernels_of("exact_segments", "offsets"),
    "norms": kernels_of("sums"), "scans": kernels_of("scans"), "rowscans": kernels_of("scans"),
    "trianglescans": kernels_of("mma_scans", "scans"),
    "columnscans": kernels_of("column_scan"), "segmentscans": kernels_of("segment_scans", "offsets"),
}  # fmt: skip
MEASURED = {
    "gpu-sum": kernels_of("sums"),
    "gpu-atomic": kernels_of("variants"),
    "gpu-matmul": kernels_of("matmul", "matmul_mma", "matmul_tall", "tensor_copy"),
    "gpu-grouped": kernels_of("matmul", "matmul_mma", "matmul_tall", "tensor_copy", "offsets"),
    "gpu-index-sums": kernels_of("index_sums", "slot_sums", "exact_segments"),
    "gpu-fft": (*kernels_of("fft", "fft_pass", "fft_passes"), TRANSFORMS),
    "gpu-polynomials": kernels_of("polyval"),
    "gpu-integers": kernels_of("limbs", "ntt", "modular_powers"),
    "gpu-row-functions": kernels_of("exponentials", "norms", "row_gradients", "cross_entropy", "moments"),
    "gpu-distributed": kernels_of("sums", "merge"),
    "gpu-decoder": (GPU,),
    "gpu-machine": (GPU, "algorithms"),
    "gpu-libraries": ("model", "probes"),
    "cpu-integers": (INTEGERS,),
    "paper-002": kernels_of("segmented", "rows"),
    **{f"gpu-segments-{part}": parts for part, parts in _SEGMENTS.items()},
    "gpu-host-time": (GPU,),
    "gpu-units": (GPU,),
}
"""File of results, without what may follow it after a hyphen → what of tcu it measures; host time is that of all modules."""
OWN, THAT_STORED, SAME = (
    "named by the file",
    "that stored the file",
    "whose sources have the digests that the file holds",
)
"""How the commit of a record was found."""


def measured_parts(name: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    """What a file of results measures; of one that is not known everything on its side, a GPU's or the model's."""
    stem = name.removesuffix(".json")
    known = [each for each in MEASURED if stem == each or stem.startswith(f"{each}-")]
    if known:
        return MEASURED[max(known, key=len)]
    return (GPU,) if "gpu" in document["machine"] else ("model",)


def of_file(name: str, document: Mapping[str, Any], results: Path = RESULTS) -> dict[str, str] | None:
    """The digests that a file holds, with those that the record has of it; None where nothing tells."""
    path = results / RECORD
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    recorded = dict(known[name]["sources"]) if name in known else None
    own = document.get("sources")
    return together(own, recorded) if own else recorded


def at_commit(commit: str, root: Path = ROOT) -> dict[str, str]:
    """The digests of a commit's sources."""
    return folders_at(commit, root) | digests_of_kernels(_texts_at(commit, root))


def folders_at(commit: str, root: Path = ROOT) -> dict[str, str]:
    """Those that are of folders."""
    lines = _git(root, "ls-tree", "-r", f"{commit}:src/tcu").splitlines()
    files = {name: about.split()[2] for about, _, name in (line.partition("\t") for line in lines)}
    return {
        part: digest({name: blob for name, blob in files.items() if is_source(name, part)}) for part in PARTS
    }


def _texts_at(commit: str, root: Path) -> dict[str, str]:
    """Of the sources of kernels, by their paths in tcu."""
    asked = ["git", "-C", str(root), "archive", "--format=tar", f"{commit}:src/tcu"]
    data = subprocess.run(asked, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {one.name: archive.extractfile(one) for one in archive if is_source(one.name, GPU)}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def newest_commit(part: str, root: Path = ROOT) -> str:
    """The date of the newest commit to a part."""
    folders: Iterable[str] = PARTS.get(part, ())
    if part.startswith(KERNELS_OF):
        texts = _texts_at("HEAD", root)
        folders = {name.partition(" ")[0] for name in sources_of(part.removeprefix(KERNELS_OF), texts)}
    return _git(root, "log", "-1", "--format=%cs", "--", *(f"src/tcu/{folder}" for folder in folders))


def files(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Path in the folder of results → document."""
    paths = [path for path in sorted(results.rglob("*.json")) if path.name != RECORD]
    return {
        path.relative_to(results).as_posix(): json.loads(path.read_text(encoding="utf-8")) for path in paths
    }


def write() -> None:
    """The record, anew; commits that are not there any more leave what was known.

    A file that holds digests of folders alone gets those of kernels from a commit whose folders have the same.
    """
    path = RESULTS / RECORD
    found = {}
    for name, document in files().items():
        named = document.get("commit") or ""
        if own := document.get("sources"):
            if not any(part.startswith(KERNELS_OF) for part in own):
                commit = _commit_with(own[GPU], named.removesuffix("-dirty"))
                if commit is not None:
                    kernels = {
                        part: held for part, held in at_commit(commit).items() if part.startswith(KERNELS_OF)
                    }
                    found[name] = {"commit": commit, "how": SAME, "sources": {GPU: own[GPU], **kernels}}
            continue
        named = "" if named.endswith("-dirty") else named  # what ran is no commit's
        commit = named or _git(ROOT, "log", "-1", "--format=%h", "--abbrev=12", "--", str(RESULTS / name))
        found[name] = {"commit": commit, "how": OWN if named else THAT_STORED, "sources": at_commit(commit)}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _commit_with(held: str, likely: str) -> str | None:
    """A commit whose GPU sources have the digest that a file holds: the likely one, or the newest."""
    every = _git(ROOT, "log", "--format=%h", "--abbrev=12").split()
    return next((each for each in [likely, *every] if each and _folders_at(each)[GPU] == held), None)


@cache
def _folders_at(commit: str) -> dict[str, str]:
    return folders_at(commit)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    write()
