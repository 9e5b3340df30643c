"""Compiled kernels, loaded into the driver."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tcu.gpu.cache import key_of, load_or_compile
from tcu.gpu.compiler import CompileTask, compile_cuda, compiler_version, task_of
from tcu.gpu.device import Gpu, attribute_of, call, check_driver
from tcu.gpu.imports import cuda_module

__all__ = ["allow_shared", "find_function", "load", "prefer_shared", "shared_memory_of"]

_found: dict[tuple[str, str, tuple[tuple[str, str], ...], str], Any] = {}
_lock = threading.Lock()


def find_function(source: str, entry: str, macros: Mapping[str, str], gpu: Gpu) -> Any:
    """The function ``entry`` of a source with these macros, loaded once."""
    major, minor = gpu.compute_capability
    key = (source, entry, tuple(sorted(macros.items())), f"sm_{major}{minor}")
    with _lock:
        found = _found.get(key)
        if found is None:
            found = _found[key] = load(task_of(source, macros, key[3]), entry)
        return found


def load(task: CompileTask, entry: str) -> Any:
    """The function ``entry`` of a source, compiled or from the cache, as the driver launches it.

    A library belongs to no context, so one serves all GPUs of a kind, as long as the process lives.
    """
    check_driver(call("cuDriverGetVersion"), compiler_version())
    cubin = load_or_compile(key_of(task, compiler_version()), lambda: compile_cuda(task).cubin)
    library = call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0)
    kernel = call("cuLibraryGetKernel", library, entry.encode())
    return cuda_module("cuda.bindings.driver").CUfunction(int(kernel))


def allow_shared(function: Any, size: int, ordinal: int) -> None:
    """Let a block of a kernel have ``size`` bytes of shared memory, more than the 48 KiB of every kernel."""
    _set(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", size, ordinal)


def prefer_shared(function: Any, ordinal: int) -> None:
    """Let all of L1 that can be shared memory be that where a kernel runs.

    Kernels that are to run beside each other ask for the same: a multiprocessor
    changes it only when nothing runs there (CUDA C++ Programming Guide, "Shared Memory").
    """
    _set(function, "PREFERRED_SHARED_MEMORY_CARVEOUT", 100, ordinal)


def _set(function: Any, attribute: str, value: int, ordinal: int) -> None:
    driver = cuda_module("cuda.bindings.driver")
    which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
    call("cuKernelSetAttribute", which, value, driver.CUkernel(int(function)), call("cuDeviceGet", ordinal))


def shared_memory_of(gpu: Gpu) -> int:
    """Bytes that a block may have, if it asks for them."""
    return attribute_of(gpu.ordinal, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
