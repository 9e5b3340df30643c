"""Compiled kernels, loaded into the driver."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from tcu.gpu.cache import key_of, load_or_compile
from tcu.gpu.compiler import CompileTask, compile_cuda, compiler_version, task_of
from tcu.gpu.device import Gpu, call, check_driver
from tcu.gpu.imports import cuda_module

__all__ = ["allow_large_clusters", "allow_shared", "find_function", "load", "prefer_shared"]


_allowed: dict[tuple[int, int], int] = {}
"""Bytes of shared memory that a kernel's blocks may have on a GPU."""
_lock = threading.Lock()


def find_function(
    source: str, entry: str, macros: Mapping[str, object], gpu: Gpu, *, specific: bool = False
) -> Any:
    """The function ``entry`` of a source with these macros, loaded once."""
    architecture = "sm_{}{}".format(*gpu.compute_capability) + "a" * specific
    return _found(source, entry, tuple(macros.items()), architecture)


@cache
def _found(source: str, entry: str, macros: tuple[tuple[str, object], ...], architecture: str) -> Any:
    return load(task_of(source, dict(macros), architecture), entry)


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
    """Let a block of a kernel have ``size`` bytes of shared memory, more than the 48 KiB of every kernel.

    Another launch of the same kernel may want more, or have wanted more before.
    """
    with _lock:
        if size > _allowed.get((int(function), ordinal), 0):
            _set(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", size, ordinal)
            _allowed[int(function), ordinal] = size


def allow_large_clusters(function: Any, ordinal: int) -> None:
    """Let a cluster of a kernel have more blocks than every GPU with clusters has."""
    _set(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1, ordinal)


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
