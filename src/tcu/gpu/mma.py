"""D = A·B + C on a real GPU, with exactly the instruction asked for."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError
from tcu.formats import Format, get_format
from tcu.formats.array import numpy_array
from tcu.gpu.arrays import MAX_BATCH_DIMENSIONS, DeviceArray, Library, collapse, library_of
from tcu.gpu.device import Gpu, call, current, find_gpu
from tcu.gpu.kernels import Kernel, find_kernel
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.structs import struct
from tcu.units import Instruction
from tcu.units.shapes import product_shape

__all__ = ["allocated", "broadcast", "host_array", "multiply_accumulate"]

_LABELS = ("a", "b", "c")
_DEFAULT_STREAM = 0
_MAX_BLOCKS = 1 << 20
"""Blocks go through further tiles in a loop."""


@dataclass(frozen=True)
class Strided:
    """An operand in the GPU's memory; address 0 stands for zeros."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements; 0 for broadcast dimensions."""


Matrix = struct("Matrix", f"""
    const void* data;  // null: zeros
    i64 row_stride;    // strides in elements; a broadcast dimension has stride 0
    i64 column_stride;
    i64 batch_strides[{MAX_BATCH_DIMENSIONS}];
""")  # fmt: skip


Problem = struct("Problem", f"""
    Matrix a, b, c;
    void* d;  // contiguous, batch × m × n
    i64 m, n, k;
    i64 tiles;  // of all members of the batch
    i64 batch_dimensions;
    i64 batch_extents[{MAX_BATCH_DIMENSIONS}];  // outermost first
""")  # fmt: skip


def multiply_accumulate(a: Any, b: Any, c: Any, instruction: Instruction, device: int | None = None) -> Any:
    """D = A·B + C as the GPU's own instruction computes it.

    The same shapes, batches, padding and cuts of K as :func:`tcu.mma`, so for
    a unit of the GPU's kind the bits are those of the model.  Of
    ``instruction``, the name, formats and k choose what runs; its arithmetic
    is the GPU's, whatever the row says.

    Parameters
    ----------
    a, b, c:
        Arrays (..., M, K), (..., K, N) and (..., M, N), all of NumPy or all on
        one GPU: PyTorch, CuPy, or anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.  Of the formats' dtypes; floating formats
        also as unsigned integers of the same width that hold the codes.
        ``c=None`` stands for zeros.
    instruction:
        A row of the catalogue, or one like it with another k.
    device:
        The GPU's number; None: where the arrays are, or 0 for NumPy arrays.

    Returns
    -------
    An array (..., M, N) of the same library and of c's dtype.  On the GPU it
    is computed on the library's current stream, without waiting for it.

    Raises
    ------
    UnsupportedInstructionError:
        The GPU does not have the instruction; the message says which it has.
    ExtraMissingError, NoGpuError, DriverError, CompileError:
        The way to the GPU is not there.
    DtypeError, ShapeError, ParameterError:
        Arrays that do not fit the instruction or each other.
    """
    given = [(label, x) for label, x in zip(_LABELS, (a, b, c), strict=True) if x is not None]
    kinds = {label: library_of(x) for label, x in given}
    if len(set(kinds.values())) > 1:
        where = ", ".join(f"{label} of {lib.name if lib else 'NumPy'}" for label, lib in kinds.items())
        raise ParameterError(f"{where}: pass arrays of one library, all on one GPU or all NumPy")
    library = kinds["a"]
    if library is None:
        return _on_host(a, b, c, instruction, device)
    return _on_device(a, b, c, instruction, device, library)


def _on_device(a: Any, b: Any, c: Any, instruction: Instruction, device: int | None, library: Library) -> Any:
    given = [(label, x) for label, x in zip(_LABELS, (a, b, c), strict=True) if x is not None]
    ordinals = {label: library.ordinal(label, x) for label, x in given}
    if len(set(ordinals.values()) | ({device} - {None})) > 1:
        where = ", ".join(f"{label} on GPU {number}" for label, number in ordinals.items())
        raise ParameterError(f"{where}, device={device}: move all to one GPU")
    gpu = find_gpu(ordinals["a"])
    kernel = find_kernel(instruction, gpu.compute_capability, gpu.name)
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        views = [
            None if x is None else library.view(label, x, stream)
            for label, x in zip(_LABELS, (a, b, c), strict=True)
        ]
        dtype = _check_dtypes([None if view is None else view.dtype for view in views], instruction)
        shape = _shape_of(views)
        like = a if c is None else c
        result, address = library.empty(like, shape, dtype, gpu.ordinal)
        operands = [broadcast(view, shape) for view in views]
        _run(kernel, gpu, operands, shape, address, stream)
        return library.finish(result, like, stream)


def _on_host(a: Any, b: Any, c: Any, instruction: Instruction, device: int | None) -> npt.NDArray[Any]:
    arrays = [
        None if x is None else host_array(label, x) for label, x in zip(_LABELS, (a, b, c), strict=True)
    ]
    dtype = _check_dtypes([None if x is None else x.dtype for x in arrays], instruction)
    shape = _shape_of(arrays)
    gpu = find_gpu(device or 0)
    kernel = find_kernel(instruction, gpu.compute_capability, gpu.name)
    result = np.empty(shape, dtype)
    with current(gpu), contextlib.ExitStack() as stack:
        operands = []
        for array in arrays:
            view = None
            if array is not None:
                address = stack.enter_context(allocated(array.nbytes))
                if array.nbytes:
                    call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
                strides = tuple(step // array.itemsize for step in array.strides)
                view = DeviceArray(address, array.shape, strides, array.dtype, gpu.ordinal, array)
            operands.append(broadcast(view, shape))
        address = stack.enter_context(allocated(result.nbytes))
        _run(kernel, gpu, operands, shape, address, _DEFAULT_STREAM)
        if result.nbytes:
            call("cuMemcpyDtoH", result.ctypes.data, address, result.nbytes)
    return result


def host_array(label: str, value: Any) -> npt.NDArray[Any]:
    array = numpy_array(value, label)
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


@contextlib.contextmanager
def allocated(size: int) -> Iterator[int]:
    address = int(call("cuMemAlloc", max(size, 1)))
    try:
        yield address
    finally:
        call("cuMemFree", address)


def _run(
    kernel: Kernel, gpu: Gpu, operands: Sequence[Strided], shape: tuple[int, ...], result: int, stream: int
) -> None:
    """Put D = A·B + C on the stream; ``result`` is the address of a contiguous array of that shape."""
    batch = shape[:-2]
    if not math.prod(shape):
        return
    a, b, c = operands
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    extents, strides = collapse(batch, [operand.strides[:-2] for operand in operands])
    tiles = math.prod(batch) * -(-m // kernel.shape[0]) * -(-n // kernel.shape[1])
    matrices = [Matrix(x.address, *x.strides[-2:], own) for x, own in zip((a, b, c), strides, strict=True)]
    problem = Problem(*matrices, result, m, n, k, tiles, len(extents), extents)
    blocks = min(-(-tiles // kernel.tiles_per_block), _MAX_BLOCKS)
    choice = KernelChoice(
        kernel.name, kernel.macros, blocks, kernel.threads, problem, entry="multiply_accumulate", specific=kernel.specific
    )  # fmt: skip
    bind(choice, gpu)(stream)


def _fits(dtype: np.dtype[Any], fmt: Format) -> bool:
    return dtype == fmt.dtype or (fmt.is_float and dtype == fmt.code_dtype)


def _check_dtypes(dtypes: list[np.dtype[Any] | None], instruction: Instruction) -> np.dtype[Any]:
    """The result's dtype; DtypeError where an operand does not have its format's."""
    formats = [get_format(name) for name in (instruction.a, instruction.b, instruction.output)]
    for label, dtype, fmt in zip(_LABELS, dtypes, formats, strict=True):
        if dtype is not None and not _fits(dtype, fmt):
            codes = f", or {fmt.code_dtype} that holds its codes" if fmt.is_float else ""
            raise DtypeError(f"{label} has dtype {dtype}: {instruction.signature} takes {fmt.dtype}{codes}")
    return formats[2].dtype if dtypes[2] is None else dtypes[2]


def _shape_of(operands: Sequence[Any]) -> tuple[int, ...]:
    a, b, c = (None if x is None else x.shape for x in operands)
    assert a is not None
    assert b is not None
    return product_shape(a, b, c)


def broadcast(view: DeviceArray | None, shape: tuple[int, ...]) -> Strided:
    """The operand with a stride for every batch dimension of the result; None becomes zeros."""
    if view is None:
        return Strided(0, shape, (0,) * len(shape))
    missing = len(shape) - len(view.shape)
    own = ((1,) * missing + view.shape[:-2], (0,) * missing + view.strides[:-2])
    batch = tuple(0 if extent == 1 else stride for extent, stride in zip(*own, strict=True))
    return Strided(view.address, view.shape, (*batch, *view.strides[-2:]))
