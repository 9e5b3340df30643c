"""Products of a tall matrix and a small one on a GPU: the tensor call of the (m, ℓ)-TCU machine."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import get_format
from tcu.gpu.arrays import DeviceArray, collapse, library_of
from tcu.gpu.device import Gpu, call, current, find_gpu
from tcu.gpu.errors import UnsupportedInstructionError
from tcu.gpu.kernels import Kernel, find_kernel
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.mma import Matrix, Problem, Strided, allocated, broadcast, host_array
from tcu.gpu.structs import struct
from tcu.units import Instruction
from tcu.units.shapes import product_shape

__all__ = ["MAX_SIDE", "Tall", "macros_of", "stored_dtypes", "tall_product"]

MAX_SIDE = 256
"""Rows and columns of the right operand: what the registers of a few warps hold."""
_THREADS = 128
_REGISTERS = 64
"""32-bit registers of B per thread; twice as many where one tile of columns needs them."""
_MAX_WIDTH = 8
_DEFAULT_STREAM = 0
_WARPS = 16384
"""Warps that keep a large GPU busy: 132 multiprocessors × 64, and some more to even out the end."""

_NARROW: dict[tuple[str, str], tuple[str, str]] = {
    ("binary16", "float16"): ("u16", "as_stored"),
    ("binary16", "float32"): ("float", "to_binary16"),
    ("bfloat16", "bfloat16"): ("u16", "as_stored"),
    ("bfloat16", "float32"): ("float", "to_bfloat16"),
    ("tf32", "float32"): ("float", "to_tf32"),
    ("binary64", "float64"): ("u64", "as_stored"),
    **{(byte, byte.replace("u", "uint").replace("s", "int")): ("u8", "as_stored") for byte in ("u8", "s8")},
    **{(byte, f"int{bits}"): ({32: "int", 64: "i64"}[bits], "to_byte") for byte in ("u8", "s8") for bits in (32, 64)},
}  # fmt: skip
"""(format, dtype in memory): the type that the kernel loads, and how it makes an input of it."""


Tall = struct("Tall", """
    load::Problem problem;  // tiles: strips of all members, times groups of columns
    i64 strip;              // rows of a strip, a multiple of TILE_M
""")  # fmt: skip


def stored_dtypes(instruction: Instruction) -> tuple[str, ...]:
    """The dtypes from which the kernel makes inputs of the instruction as it loads them."""
    return tuple(dtype for fmt, dtype in _NARROW if fmt == instruction.a)


def tall_product(a: Any, b: Any, instruction: Instruction, *, device: int | None = None) -> Any:
    """A·B as a chain of the GPU's instructions from zero, with B in registers.

    The bits are those of :func:`tcu.mma` on the operands rounded to the
    instruction's formats, to nearest, ties to even.

    Parameters
    ----------
    a, b:
        (..., n, k) and (..., k, c) with k, c ≤ 256, both of one of
        :func:`stored_dtypes`; both NumPy arrays, or both on one GPU.
        Batches broadcast.
    instruction:
        A mma row of the catalogue with equal input formats.
    device:
        The GPU's number; None: where the arrays are, or 0.

    Returns
    -------
    (..., n, c) of the output format's dtype and of a's library, without
    waiting for the GPU.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Operands that do not fit the instruction or the kernel.
    UnsupportedInstructionError:
        The GPU has no such instruction.
    """
    library, other = library_of(a), library_of(b)
    if library is not other:
        raise ParameterError("a and b: pass arrays of one library, all on one GPU or all NumPy")
    if library is None:
        return _on_host(host_array("a", a), host_array("b", b), instruction, device or 0)
    gpu = find_gpu(library.ordinal("a", a))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        x, y = (library.view(label, value, stream) for label, value in (("a", a), ("b", b)))
        shape, dtype = _result_of(x, y, instruction)
        result, address = library.empty(a, shape, dtype, gpu.ordinal)
        _launch(x, y, instruction, gpu, shape, address, stream)
        return library.finish(result, a, stream)


def _on_host(
    a: npt.NDArray[Any], b: npt.NDArray[Any], instruction: Instruction, device: int
) -> npt.NDArray[Any]:
    shape, dtype = _result_of(a, b, instruction)
    gpu = find_gpu(device)
    result = np.empty(shape, dtype)
    if not result.size:
        return result
    with current(gpu), contextlib.ExitStack() as stack:
        views = []
        for array in (a, b):
            address = stack.enter_context(allocated(array.nbytes))
            call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
            strides = tuple(step // array.itemsize for step in array.strides)
            views.append(DeviceArray(address, array.shape, strides, array.dtype, gpu.ordinal, array))
        address = stack.enter_context(allocated(result.nbytes))
        _launch(views[0], views[1], instruction, gpu, shape, address, _DEFAULT_STREAM)
        call("cuMemcpyDtoH", result.ctypes.data, address, result.nbytes)
    return result


def _result_of(a: Any, b: Any, instruction: Instruction) -> tuple[tuple[int, ...], np.dtype[Any]]:
    known = stored_dtypes(instruction)
    if a.dtype != b.dtype or a.dtype.name not in known:
        raise DtypeError(
            f"a has dtype {a.dtype}, b {b.dtype}: {instruction.signature} takes both of "
            f"{' or '.join(known) or 'no dtype here'}"
        )
    if instruction.a != instruction.b:
        raise DtypeError(f"{instruction.signature} mixes formats: tcu.mma computes it")
    shape = product_shape(a.shape, b.shape, None)
    if max(b.shape[-2:]) > MAX_SIDE or min(b.shape[-2:]) < 1:
        raise ShapeError(f"b has shape {b.shape}: the right operand has 1 to {MAX_SIDE} rows and columns")
    return shape, get_format(instruction.output).dtype


@lru_cache(maxsize=256)
def kernel_of(instruction: Instruction, gpu: Gpu) -> Kernel:
    """The GPU's kernel for the instruction; binary64 takes the largest k, for a fused chain has no blocks."""
    if instruction.name != "mma":
        raise UnsupportedInstructionError(f"{instruction.signature}: tall products run on mma instructions")
    if instruction.a == "binary64":
        rows = [k for k in gpu.kernels if (k.name, k.a, k.output) == ("mma", "binary64", "binary64")]
        if rows:
            return max(rows, key=lambda kernel: kernel.k)
    return find_kernel(instruction, gpu.compute_capability, gpu.name)


@lru_cache(maxsize=1024)
def macros_of(
    kernel: Kernel, dtype: str, inner: int, columns: int, *, adjacent: bool = True
) -> Mapping[str, str]:
    """What tall.cu leaves open, for operands of that dtype and a right one of inner × columns."""
    stored, narrow = _NARROW[kernel.a, dtype]
    macros = kernel.macros
    depth = -(-inner // kernel.k)
    size = get_format(kernel.a).dtype.itemsize
    per_tile = depth * -(-kernel.k * kernel.shape[1] * size // 128)
    width = 1
    while 2 * width * per_tile <= _REGISTERS and width * kernel.shape[1] < columns and width < _MAX_WIDTH:
        width *= 2
    own = {
        "INNER": inner, "WIDTH": width, "STORED": stored, "NARROW": narrow,
        "ADJACENT": int(adjacent), "THREADS": _THREADS,
    }  # fmt: skip
    return {**macros, **{name: str(value) for name, value in own.items()}}


def _launch(
    a: DeviceArray, b: DeviceArray, instruction: Instruction, gpu: Gpu,
    shape: tuple[int, ...], address: int, stream: int,
) -> None:  # fmt: skip
    if not math.prod(shape):
        return
    kernel = kernel_of(instruction, gpu)
    x, y = broadcast(a, shape), broadcast(b, shape)
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    macros = macros_of(kernel, a.dtype.name, inner, columns, adjacent=_adjacent(x, a.dtype, kernel))
    group = int(macros["WIDTH"]) * kernel.shape[1]
    batch = shape[:-2]
    extents, strides = collapse(batch, [x.strides[:-2], y.strides[:-2]])
    members, groups = math.prod(batch), -(-columns // group)
    tile = kernel.shape[0]
    # A strip is as long as leaves enough warps: each of them loads B anew.
    strip = max(tile, rows * members * groups // _WARPS // tile * tile)
    tasks = members * groups * -(-rows // strip)
    matrices = [
        Matrix(own.address, *own.strides[-2:], steps) for own, steps in zip((x, y), strides, strict=True)
    ]
    problem = Tall(
        Problem(*matrices, Matrix(), address, rows, columns, inner, tasks, len(extents), extents), strip
    )
    blocks = min(-(-tasks // (_THREADS // 32)), 1 << 20)
    bind(KernelChoice("tall", macros, blocks, _THREADS, problem, entry="tall_product"), gpu)(stream)


def _adjacent(x: Strided, dtype: np.dtype[Any], kernel: Kernel) -> bool:
    """Whether the k of each row lie side by side, so that a word's worth of them is one load."""
    size = get_format(kernel.a).dtype.itemsize
    together = max(1, 4 // size)
    rows = () if x.shape[-2] == 1 else x.strides[-2:-1]
    aligned = all(step % together == 0 for step in (*x.strides[:-2], *rows))
    return x.strides[-1] == 1 and aligned and x.address % (together * dtype.itemsize) == 0
