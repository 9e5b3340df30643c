"""CUDA sources that no kernel of tcu is measured without: built by nvcc on this machine, loaded by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcu.gpu.cache import cache_folder
from tcu.model.threads import core_count

SOURCES = Path(__file__).parent / "cuda"
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def folder_of_libraries() -> Path:
    """Beside the compiled kernels."""
    return cache_folder().parent / "libraries"


class BuildError(Exception):
    """nvcc is missing or refused; the message is its first error."""


@dataclass(frozen=True)
class Cccl:
    """Where CUB's headers are."""

    include: tuple[str, ...]
    """Options for nvcc; none for those that came with it."""
    version: str


def nvcc_version() -> str:
    found = re.search(r"V(\d+\.\d+\.\d+)", _run([NVCC, "--version"]))
    return found[1] if found else "unknown"


@cache
def find_cccl(folder: Path | None = None) -> Cccl:
    """The headers below the folder, or else the newest on this machine: nvcc's own, or those inside CuPy."""
    if folder is not None:
        return _read_version(_include_options(folder))
    candidates = [_read_version(())]
    cupy = importlib.util.find_spec("cupy")
    if cupy is not None and cupy.submodule_search_locations:
        inside = Path(cupy.submodule_search_locations[0]) / "_core" / "include" / "cupy" / "_cccl"
        if inside.is_dir():
            candidates.append(_read_version(_include_options(inside)))
    return max(candidates, key=lambda one: [int(part) for part in one.version.split(".")])


def _include_options(folder: Path) -> tuple[str, ...]:
    """One folder for all of CCCL as in the toolkit, or one for each library as in a checkout."""
    options = []
    for header in ("cub/version.cuh", "thrust/version.h", "cuda/std/version"):
        found = next(iter(sorted(folder.rglob(header))), None)
        if found is None:
            raise BuildError(f"{folder} holds no {header}: name a folder of CCCL 3")
        options.append(f"-I{str(found).removesuffix(header)}")
    return tuple(dict.fromkeys(options))


def _read_version(include: tuple[str, ...]) -> Cccl:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "version.cu"
        source.write_text("#include <cuda/std/version>\nfound CCCL_VERSION\n", encoding="utf-8")
        text = _run([NVCC, "-E", *include, str(source)])
    found = re.search(r"found\s+(\d+)", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    if found is None:
        raise BuildError(f"no CCCL of version 3 with {include or 'nvcc'}")
    number = int(found[1])
    return Cccl(include, f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}")


def build(source: str, arch: str, options: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library of cuda/SOURCE with these options; built once, then found again."""
    text = (SOURCES / source).read_bytes()
    command = [NVCC, "-O3", "-std=c++17", f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC", *options]
    # Without nvcc's own path: a library may be built on one machine and run on another.
    key = hashlib.sha256(repr((text, command[1:], nvcc_version())).encode()).hexdigest()[:16]
    library = folder_of_libraries() / f"{Path(source).stem}-{key}.so"
    if library.exists():
        with contextlib.suppress(OSError):  # one from a machine with other system libraries is built anew
            return ctypes.CDLL(str(library))
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        _run([*command, str(SOURCES / source), "-o", str(made)])
        made.replace(library)
    return ctypes.CDLL(str(library))


def build_all(
    jobs: dict[str, tuple[str, tuple[str, ...]]], arch: str
) -> tuple[dict[str, ctypes.CDLL], dict[str, str]]:
    """Libraries by name, built side by side, and in words why others could not be."""
    made: dict[str, ctypes.CDLL] = {}
    failed: dict[str, str] = {}
    with ThreadPoolExecutor(core_count()) as pool:
        futures = {
            name: pool.submit(build, source, arch, options) for name, (source, options) in jobs.items()
        }
        for name, future in futures.items():
            try:
                made[name] = future.result()
            except (BuildError, OSError) as error:
                failed[name] = str(error)
    return made, failed


def _run(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        raise BuildError(f"no {command[0]} on the path: the CUDA toolkit has it")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line]
        raise BuildError(lines[0][:300] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout
