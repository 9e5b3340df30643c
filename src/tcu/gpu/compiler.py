"""CUDA C++ to machine code with NVRTC; the architecture is a value, no GPU is needed.

Uses the bindings of NVRTC rather than ``cuda.core.Program``: the latter asks
the driver for its version before it returns PTX, so it does not work on a
machine without one, and it reads included files by itself, where here what is
hashed for the cache is exactly what is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tcu.gpu.errors import CompileError, ExtraMissingError
from tcu.gpu.imports import cuda_module
from tcu.gpu.kernels import Kernel
from tcu.gpu.structs import generated

__all__ = ["Binary", "CompileTask", "compile_cuda", "compiler_version", "read_sources", "task_for", "task_of"]

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class CompileTask:
    """Everything that the compiled kernel depends on, besides the compiler."""

    files: tuple[tuple[str, str], ...]
    """(name, text) of the source and of every file that it includes; the source comes first."""
    options: tuple[str, ...]
    architecture: str


@dataclass(frozen=True)
class Binary:
    cubin: bytes
    ptx: str
    log: str


def read_sources(name: str, folder: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """A kernel's source and the files that it includes, directly or through others.

    A kernel has the name of its file in ``tcu/gpu/cuda/kernels``; what it includes is named by its path in
    ``tcu/gpu/cuda``, such as "device/load/array.cuh"; what
    begins with "generated/" is written by :mod:`tcu.gpu.structs`.  ``folder`` replaces the package's folder by a mapping
    from name to text.
    """
    found: dict[str, str] = {}
    pending = [name]
    while pending:
        current = pending.pop(0)
        if current in found:
            continue
        if current.startswith("generated/"):
            text = generated(current)
        elif folder is None:
            path = current if "/" in current else f"kernels/{current}"
            text = resources.files("tcu.gpu").joinpath("cuda", *path.split("/")).read_text(encoding="utf-8")
        else:
            text = folder[current]
        found[current] = text
        pending += _INCLUDE.findall(text)
    return tuple(found.items())


def task_of(source: str, macros: Mapping[str, object], architecture: str) -> CompileTask:
    """The task that compiles a source with these macros for an architecture such as "sm_90"."""
    options = tuple(f"--define-macro={name}={value}" for name, value in macros.items())
    return CompileTask(read_sources(source), ("--std=c++17", *options), architecture)


def task_for(kernel: Kernel, architecture: str) -> CompileTask:
    """The task that compiles the kernel of an instruction."""
    return task_of(kernel.source, kernel.macros, architecture)


@cache
def compiler_version() -> tuple[int, int]:
    """(major, minor) of the NVRTC that is installed."""
    nvrtc = cuda_module("cuda.bindings.nvrtc")
    try:
        result, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # the bindings are there, the library is not
        raise ExtraMissingError(f'NVRTC cannot be loaded: pip install "tcu[cuda13]" ({error})') from error
    _check(nvrtc, result, "nvrtcVersion")
    return int(major), int(minor)


def compile_cuda(task: CompileTask) -> Binary:
    """Compile with NVRTC; raises CompileError, with the compiler's log."""
    compiler_version()
    nvrtc = cuda_module("cuda.bindings.nvrtc")
    (name, text), *headers = task.files
    result, program = nvrtc.nvrtcCreateProgram(
        text.encode(),
        name.encode(),
        len(headers),
        [body.encode() for _, body in headers],
        [header.encode() for header, _ in headers],
    )
    _check(nvrtc, result, "nvrtcCreateProgram")
    try:
        options = [option.encode() for option in (f"--gpu-architecture={task.architecture}", *task.options)]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        if int(result) != 0:
            raise CompileError(_failure(nvrtc, task, name, log))
        cubin = _read(nvrtc, program, "CUBIN")
        ptx = _read(nvrtc, program, "PTX").rstrip(b"\0").decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Binary(cubin, ptx, log)


def _failure(nvrtc: Any, task: CompileTask, name: str, log: str) -> str:
    version = "{}.{}".format(*compiler_version())
    result, known = nvrtc.nvrtcGetSupportedArchs()
    number = task.architecture.removeprefix("sm_").rstrip("af")
    if int(result) == 0 and number.isdigit() and int(number) not in list(known):
        have = ", ".join(f"sm_{one}" for one in known)
        return (
            f"NVRTC {version} does not compile for {task.architecture}, only for {have}: "
            f"install the nvidia-cuda-nvrtc that belongs to your GPU's CUDA version"
        )
    options = " ".join(task.options)
    return (
        f"{name} does not compile for {task.architecture} with NVRTC {version}: "
        f"please report it with this log\noptions: {options}\n{log or '(the log is empty)'}"
    )


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    result, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, result, f"nvrtcGet{what}Size")
    data = bytearray(size)  # not bytes: filling b" " would change every b" " of the process
    (result,) = getattr(nvrtc, f"nvrtcGet{what}")(program, data)
    _check(nvrtc, result, f"nvrtcGet{what}")
    return bytes(data)


def _check(nvrtc: Any, result: Any, call: str) -> None:
    if int(result) == 0:
        return
    _, text = nvrtc.nvrtcGetErrorString(result)
    said = text.decode() if isinstance(text, bytes) else str(text)
    raise CompileError(
        f"{call} failed: {said}; reinstall NVRTC with pip install --force-reinstall nvidia-cuda-nvrtc"
    )
