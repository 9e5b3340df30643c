"""Of which sources figures are: digests of the parts of tcu that a run measures, then and now.

A part is some folders or files, or the kernels that one module launches.  A digest of files is over their names and git's own
hashes of them, so that it can be told of any commit without them; one of kernels is over what :mod:`tcu.study.launches`
finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import tcu
from tcu.study.launches import launching
from tcu.study.study import Study

__all__ = [
    "GPU", "INTEGERS", "KERNELS_OF", "PARTS", "PEERS", "RECORD", "TRANSFORMS", "changed", "digest", "digests", "digests_of_kernels", "is_source", "kernels_of",
    "parts_of", "remark", "together",
]  # fmt: skip

GPU, PEERS, INTEGERS, TRANSFORMS = "GPU kernels", "peers on a GPU", "integers", "Fourier transforms"

PARTS: dict[str, tuple[str, ...]] = {
    GPU: ("gpu", "engines/cuda"),
    PEERS: ("study/gpu",),
    "model": ("engines/host", "formats", "model", "ops", "plan", "units"),
    "algorithms": ("algorithms", "machine"),
    "probes": ("probes",),
    INTEGERS: ("integers",),
    TRANSFORMS: (
        "engines/host/fft.py", "model/fft.py", "model/fft_kernels.py", "ops/fft.py", "plan/butterflies.py", "plan/fft.py", "plan/roots.py",
    ),
}  # fmt: skip
"""Part → its folders and files in tcu.  A file that is named belongs to that part alone: no sum or product runs a transform's."""
_NAMED = {file for paths in PARTS.values() for file in paths if "." in file}
_NUMBERS = "plan/version.py"
"""Of no part: its numbers change with the plans that they count."""
KERNELS_OF = "kernels of "
"""The part that a module of tcu.gpu launches, by its name."""
_SUFFIXES = (".py", ".cu", ".cuh", ".json")
RECORD = "sources.json"
"""The file, beside results, that has the digests of those that do not hold their own."""


def kernels_of(*modules: str) -> tuple[str, ...]:
    """The parts of these modules of tcu.gpu."""
    return tuple(f"{KERNELS_OF}{module}" for module in modules)


def is_source(name: str, part: str) -> bool:
    """Whether a file, by its path in tcu, belongs to a part."""
    if name in _NAMED:
        return name in PARTS[part]
    return (
        name.endswith(_SUFFIXES)
        and name != _NUMBERS
        and any(name.startswith(f"{folder}/") for folder in PARTS[part])
    )


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
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*") if path.suffix in _SUFFIXES and "__pycache__" not in path.parts
    }  # fmt: skip
    texts = {name: data.decode() for name, data in files.items() if is_source(name, GPU)}
    return {
        part: digest({name: _blob(data) for name, data in files.items() if is_source(name, part)})
        for part in PARTS
    } | digests_of_kernels(texts)


def digests_of_kernels(texts: Mapping[str, str]) -> dict[str, str]:
    """Of every module that launches kernels: from the texts of GPU sources, by their paths in tcu."""
    return {
        f"{KERNELS_OF}{module}": digest({name: _blob(text.encode()) for name, text in sources.items()})
        for module, sources in launching(texts).items()
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
        return (GPU,)
    if "004" in papers:
        return ("algorithms",)
    return ("model", "probes") if "003" in papers else ("model",)


def changed(
    measured: Mapping[str, str], parts: Iterable[str], now: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The parts that are not what they were; of kernels without a digest of their own nothing less than all must be."""
    present = digests() if now is None else now
    whole = GPU in measured and measured[GPU] == present[GPU]
    return tuple(
        part for part in parts
        if (measured[part] != present.get(part) if part in measured else not (part.startswith(KERNELS_OF) and whole))
    )  # fmt: skip


def together(own: Mapping[str, str], recorded: Mapping[str, str] | None) -> dict[str, str]:
    """The digests that a file holds, with those of kernels that the record has for the same GPU sources."""
    return {**recorded, **own} if recorded and recorded.get(GPU) == own.get(GPU) else dict(own)


def remark(measured: Mapping[str, str] | None, parts: Iterable[str]) -> str:
    """One sentence for a reader; empty where the sources are those that run."""
    if measured is None:
        return "Of which sources is not known."
    older = changed(measured, parts)
    modules = ", ".join(part.removeprefix(KERNELS_OF) for part in older if part.startswith(KERNELS_OF))
    words = [part for part in older if not part.startswith(KERNELS_OF)]
    words += [f"{KERNELS_OF}{modules}"] if modules else []
    return f"Of older sources: {' and '.join(words)} changed since." if words else ""
