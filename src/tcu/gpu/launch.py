"""Launch the kernel of an instruction on a batched, strided problem."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tcu.errors import ShapeError
from tcu.gpu.compiler import task_for
from tcu.gpu.device import Gpu, check
from tcu.gpu.functions import load
from tcu.gpu.imports import cuda_module
from tcu.gpu.kernels import Kernel, architecture
from tcu.gpu.structs import Struct, constants, struct

__all__ = ["KernelLaunch", "Matrix", "Problem", "Strided", "collapse", "joined", "launch"]

MAX_BATCH_DIMENSIONS = 8
"""Of a kernel's problem; a shape of more is put together, or refused."""
LIMITS = constants(MAX_BATCH_DIMENSIONS=MAX_BATCH_DIMENSIONS)
_MAX_BLOCKS = 1 << 20
"""Blocks go through further tiles in a loop."""

_loaded: dict[tuple[Kernel, tuple[int, int]], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Strided:
    """An operand in the GPU's memory; address 0 stands for zeros."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements; 0 for broadcast dimensions."""


@struct()
class Matrix(Struct):
    cuda = """
    const void* data;  // null: zeros
    i64 row_stride;    // strides in elements; a broadcast dimension has stride 0
    i64 column_stride;
    i64 batch_strides[MAX_BATCH_DIMENSIONS];
    """


@struct()
class Problem(Struct):
    cuda = """
    Matrix a, b, c;
    void* d;  // contiguous, batch × m × n
    i64 m, n, k;
    i64 tiles;  // of all members of the batch
    i64 batch_dimensions;
    i64 batch_extents[MAX_BATCH_DIMENSIONS];  // outermost first
    """


def launch(
    kernel: Kernel,
    gpu: Gpu,
    operands: Sequence[Strided],
    batch: tuple[int, ...],
    result: int,
    stream: int,
) -> None:
    """Put D = A·B + C on the stream; ``result`` is the address of a contiguous (batch, m, n)."""
    a, b, c = operands
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    extents, strides = collapse(batch, [operand.strides[:-2] for operand in operands])
    tiles = math.prod(batch) * -(-m // kernel.shape[0]) * -(-n // kernel.shape[1])
    matrices = [
        Matrix(x.address, *x.strides[-2:], (ctypes.c_int64 * MAX_BATCH_DIMENSIONS)(*own))
        for x, own in zip((a, b, c), strides, strict=True)
    ]
    problem = Problem(
        *matrices, result, m, n, k, tiles, len(extents), (ctypes.c_int64 * MAX_BATCH_DIMENSIONS)(*extents)
    )
    blocks = min(-(-tiles // kernel.tiles_per_block), _MAX_BLOCKS)
    KernelLaunch(_load(kernel, gpu), blocks, kernel.threads, problem)(stream)


class KernelLaunch:
    """A kernel with its grid and the structure that it takes, which may change between launches.

    cuda.core.launch takes no structures, hence the driver's own call.
    ``shared``: bytes of shared memory of a block whose size the kernel leaves open.  ``more``: how often
    the blocks come, numbered by blockIdx.y.  ``overlaps``: it may begin before the launch ahead of it has ended, as
    cuda/device/grid/programmatic_launch.cuh says.  ``cooperative``: it begins when there is room for all blocks, which wait for each other.
    """

    def __init__(
        self, function: Any, blocks: int, threads: int, problem: ctypes.Structure, shared: int = 0,
        more: int = 1, *, overlaps: bool = False, cooperative: bool = False,
    ) -> None:  # fmt: skip
        self._problem = problem  # what the pointers below point to
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(problem))
        self._head = (function, blocks, more, 1, threads, 1, 1, shared)
        self._address = ctypes.addressof(self._pointers)
        driver = cuda_module("cuda.bindings.driver")
        attributes = _attributes(driver, overlaps, cooperative)
        self._call = "cuLaunchKernelEx" if attributes else "cuLaunchKernel"
        self._launch = getattr(driver, self._call)
        self._config = _config(driver, attributes, *self._head[1:]) if attributes else None

    def __call__(self, stream: int) -> None:
        if self._config is None:
            (status,) = self._launch(*self._head, stream, self._address, 0)
        else:
            self._config.hStream = stream
            (status,) = self._launch(self._config, self._head[0], self._address, 0)
        if status:
            check(self._call, status)


def _attributes(driver: Any, overlaps: bool, cooperative: bool) -> list[Any]:
    """What the driver is told of a launch, as KernelLaunch says."""
    kinds, attributes = driver.CUlaunchAttributeID, []
    for asked, kind, field in (
        (overlaps, "PROGRAMMATIC_STREAM_SERIALIZATION", "programmaticStreamSerializationAllowed"),
        (cooperative, "COOPERATIVE", "cooperative"),
    ):
        if asked:
            attribute = driver.CUlaunchAttribute()
            attribute.id = getattr(kinds, f"CU_LAUNCH_ATTRIBUTE_{kind}")
            setattr(attribute.value, field, 1)
            attributes.append(attribute)
    return attributes


def _config(driver: Any, attributes: list[Any], *head: int) -> Any:
    config = driver.CUlaunchConfig()
    names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
    for name, value in zip(names, head, strict=True):
        setattr(config, name, value)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def joined(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same shape in as few dimensions as the strides of all operands allow.

    Dimensions of extent 1 go, and a dimension joins the one inside it where
    every operand steps through both evenly.
    """
    extents: list[int] = []
    steps: list[tuple[int, ...]] = []
    for extent, *own in zip(shape, *strides, strict=True):
        if extent == 1:
            continue
        if extents and all(outer == inner * extent for outer, inner in zip(steps[-1], own, strict=True)):
            extents[-1] *= extent
            steps[-1] = tuple(own)
        else:
            extents.append(extent)
            steps.append(tuple(own))
    return tuple(extents), [tuple(step[i] for step in steps) for i in range(len(strides))]


def collapse(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """:func:`joined`, for a kernel.  Raises ShapeError when more dimensions remain than it takes."""
    extents, steps = joined(shape, strides)
    if len(extents) > MAX_BATCH_DIMENSIONS:
        raise ShapeError(
            f"shape {shape} with these strides needs {len(extents)} dimensions, a kernel takes "
            f"{MAX_BATCH_DIMENSIONS}: reshape, or copy what is strided or broadcast"
        )
    return extents, steps


def _load(kernel: Kernel, gpu: Gpu) -> Any:
    with _lock:
        found = _loaded.get((kernel, gpu.compute_capability))
        if found is None:
            task = task_for(kernel, architecture(kernel, gpu.compute_capability))
            found = _loaded[(kernel, gpu.compute_capability)] = load(task, "multiply_accumulate")
        return found
