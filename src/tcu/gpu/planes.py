"""Products of complex numbers kept as two planes, in one pass over a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ShapeError
from tcu.gpu.arrays import MAX_BATCH_DIMENSIONS, DeviceArray, collapse, library_of
from tcu.gpu.device import Gpu, current, find_gpu
from tcu.gpu.launch import KernelChoice, bind
from tcu.gpu.structs import struct

__all__ = ["ComplexProduct", "complex_product", "macros_of"]

_THREADS = 256
_MAX_BLOCKS = 1 << 16
_REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


Planes = struct("Planes", f"""
    const REAL* data;
    i64 plane;  // from a real part to its imaginary one, in elements
    i64 strides[{MAX_BATCH_DIMENSIONS}];
""")  # fmt: skip


ComplexProduct = struct("ComplexProduct", f"""
    Planes x, y;
    REAL* out;  // contiguous, one plane behind the other
    i64 n;      // numbers
    i64 dimensions;
    i64 extents[{MAX_BATCH_DIMENSIONS}];  // outermost first
""")  # fmt: skip


def complex_product(x: Any, y: Any) -> Any:
    """x·y of planes (2, ...) on a GPU, each operation rounded by itself.

    Parameters
    ----------
    x, y:
        Arrays of one library on one GPU, both float32 or both float64; each
        plane of y broadcasts to one of x.

    Returns
    -------
    A contiguous array of x's shape, without waiting for the GPU.

    Raises
    ------
    DtypeError, ShapeError:
        Other dtypes; planes that do not fit each other.
    """
    library = library_of(x)
    if library is None or library_of(y) is not library:
        raise DtypeError("x and y: give arrays of one library, both on one GPU")
    gpu = find_gpu(library.ordinal("x", x))
    with current(gpu):
        stream = library.current_stream(gpu.ordinal)
        first, second = library.view("x", x, stream), library.view("y", y, stream)
        if first.dtype != second.dtype or first.dtype not in _REALS:
            raise DtypeError(
                f"x has dtype {first.dtype}, y {second.dtype}: give two of float32 or of float64"
            )
        shape = first.shape
        if shape[:1] != (2,) or second.shape[:1] != (2,) or not _fits(second.shape[1:], shape[1:]):
            raise ShapeError(f"x {shape}, y {second.shape}: give planes (2, ...), of which y broadcasts to x")
        result, address = library.empty(x, shape, first.dtype, gpu.ordinal)
        if math.prod(shape):
            _launch(first, second, gpu, address, stream)
        return library.finish(result, x, stream)


def macros_of(dtype: np.dtype[Any], n: int) -> Mapping[str, str]:
    """What planes.cu leaves open, for n numbers."""
    # The index takes a last step beyond n, which must not wrap.
    small = n + _THREADS * _MAX_BLOCKS < 1 << 32
    return {"REAL": _REALS[dtype], "INDEX": "u32" if small else "i64", "THREADS": str(_THREADS)}


def _launch(x: DeviceArray, y: DeviceArray, gpu: Gpu, address: int, stream: int) -> None:
    shape = x.shape
    extents, strides = collapse(shape[1:], [_steps(each, len(shape) - 1) for each in (x, y)])
    n = math.prod(shape[1:])
    planes = [Planes(each.address, each.strides[0], own) for each, own in zip((x, y), strides, strict=True)]
    problem = ComplexProduct(*planes, address, n, len(extents), extents)
    blocks = min(-(-n // _THREADS), _MAX_BLOCKS)
    macros = macros_of(x.dtype, n)
    bind(KernelChoice("planes", macros, blocks, _THREADS, problem, entry="complex_product"), gpu)(stream)


def _fits(plane: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(plane, whole) == whole
    except ValueError:
        return False


def _steps(array: DeviceArray, dimensions: int) -> tuple[int, ...]:
    """A stride for each dimension of a plane of the result; 0 for those that broadcast."""
    missing = (0,) * (dimensions + 1 - len(array.shape))
    own = zip(array.shape[1:], array.strides[1:], strict=True)
    return (*missing, *(0 if extent == 1 else step for extent, step in own))
