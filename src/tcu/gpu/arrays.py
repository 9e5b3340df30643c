"""Arrays of any library in the GPU's memory: address, shape, strides, and results of the same kind.

PyTorch and CuPy are asked directly: PyTorch offers neither DLPack nor the
CUDA array interface for every one of its 8- and 16-bit formats.  Any other
library is read through ``__dlpack__`` or ``__cuda_array_interface__``.
Nothing is copied; a library is never imported, only met.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tcu.errors import DtypeError, ParameterError, TcuError
from tcu.formats import get_format
from tcu.gpu.device import call
from tcu.gpu.imports import cuda_module

__all__ = ["DeviceArray", "Library", "dtype_of", "library_of", "ordinal_of"]

_LEGACY_STREAM = 1
"""CU_STREAM_LEGACY: the default stream, as the driver and DLPack both name it."""
_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged of dlpack.h."""


@dataclass(frozen=True)
class DeviceArray:
    """Where an array lies in a GPU's memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: np.dtype[Any]
    ordinal: int
    """The number of its GPU."""
    owner: Any
    """What keeps the memory alive."""


class Library(Protocol):
    """What the executor asks of an array library."""

    name: str

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        """The array as it lies in memory, ready for use on the stream; ``label`` names it in errors."""

    def current_stream(self, ordinal: int) -> int:
        """The caller's current stream on that GPU, which is the current one."""

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> tuple[Any, int]:
        """A new contiguous array on the GPU of ``like``, and its address."""

    def ordinal(self, label: str, array: Any) -> int:
        """The number of the array's GPU."""

    def finish(self, array: Any, like: Any) -> Any:
        """What the caller gets for an array that :meth:`empty` made, after the launch."""


class _Torch:
    name = "PyTorch"

    def ordinal(self, label: str, array: Any) -> int:
        if array.device.type != "cuda":
            raise ParameterError(
                f"{label} is a PyTorch tensor on {array.device}: move it with {label}.cuda(), or pass NumPy arrays"
            )
        return int(array.device.index)

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        torch = sys.modules["torch"]
        if array.layout != torch.strided:
            raise DtypeError(f"{label} is a {array.layout} tensor: make it dense, with {label}.to_dense()")
        plain = array.detach().resolve_conj().resolve_neg()
        return DeviceArray(
            plain.data_ptr(),
            tuple(plain.shape),
            tuple(plain.stride()),
            _named_dtype(label, str(plain.dtype).removeprefix("torch.")),
            self.ordinal(label, plain),
            plain,
        )

    def current_stream(self, ordinal: int) -> int:
        return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> tuple[Any, int]:
        torch = sys.modules["torch"]
        array = torch.empty(shape, dtype=getattr(torch, dtype.name), device=like.device)
        return array, array.data_ptr()

    def finish(self, array: Any, like: Any) -> Any:
        return array


class _CuPy:
    name = "CuPy"

    def ordinal(self, label: str, array: Any) -> int:
        return int(array.device.id)

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        strides = _in_elements(label, array.strides, array.dtype.itemsize)
        return DeviceArray(
            array.data.ptr, array.shape, strides, array.dtype, self.ordinal(label, array), array
        )

    def current_stream(self, ordinal: int) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> tuple[Any, int]:
        array = sys.modules["cupy"].empty(shape, dtype)  # on the current GPU
        return array, array.data.ptr

    def finish(self, array: Any, like: Any) -> Any:
        return array


class _Other:
    """Any library, through the protocols; on the default stream."""

    name = "DLPack"

    def ordinal(self, label: str, array: Any) -> int:
        if hasattr(array, "__dlpack_device__"):
            return int(array.__dlpack_device__()[1])
        address = array.__cuda_array_interface__["data"][0]
        if not address:  # an empty array lies nowhere
            return 0
        attribute = cuda_module(
            "cuda.bindings.driver"
        ).CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(call("cuPointerGetAttribute", attribute, address))

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        views = cuda_module("cuda.core.utils").StridedMemoryView
        try:
            seen = views.from_any_interface(array, stream_ptr=stream)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, TcuError):
                raise
            raise DtypeError(
                f"{label}, a {type(array).__module__}.{type(array).__qualname__}, does not give its memory away: "
                f"{error}; pass it as integers of the same width, or as a NumPy array"
            ) from error
        shape = tuple(seen.shape)
        strides = _contiguous(shape) if seen.strides is None else tuple(seen.strides)
        if seen.dtype is None:
            raise DtypeError(f"{label} has no dtype that NumPy knows: pass it as integers of the same width")
        return DeviceArray(seen.ptr, shape, strides, seen.dtype, self.ordinal(label, array), seen)

    def current_stream(self, ordinal: int) -> int:
        return _LEGACY_STREAM

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> tuple[Any, int]:
        device = cuda_module("cuda.core").Device(ordinal)
        device.set_current()  # the primary context, which is current already: cuda.core wants to know
        size = max(1, int(np.prod(shape, dtype=np.int64))) * dtype.itemsize
        buffer = device.allocate(size, stream=device.default_stream)
        views = cuda_module("cuda.core.utils").StridedMemoryView
        return views.from_buffer(buffer, shape, dtype=dtype), int(buffer.handle)

    def finish(self, array: Any, like: Any) -> Any:
        # The view that cuda.core offers carries no stream, so the result must be complete.
        call("cuStreamSynchronize", _LEGACY_STREAM)
        namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else _root_module(like)
        return namespace.from_dlpack(array) if hasattr(namespace, "from_dlpack") else array


device_libraries: tuple[Library, ...] = (_Torch(), _CuPy(), _Other())
_TORCH, _CUPY, _OTHER = device_libraries


def library_of(array: Any) -> Library | None:
    """The library of an array in a GPU's memory; None for anything that NumPy reads."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(array, torch.Tensor):
        return _TORCH
    if cupy is not None and isinstance(array, cupy.ndarray):
        return _CUPY
    if isinstance(array, np.ndarray):
        return None
    if hasattr(array, "__cuda_array_interface__"):
        return _OTHER
    if hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) in _DLPACK_CUDA:
        return _OTHER
    return None


def ordinal_of(array: Any) -> int:
    """The number of the array's GPU; 0 for an array on the host."""
    library = library_of(array)
    return 0 if library is None else library.ordinal("a", array)


def dtype_of(array: Any) -> np.dtype[Any]:
    """The NumPy dtype of an array of any library."""
    library = library_of(array)
    return np.asarray(array).dtype if library is None else library.view("array", array, _LEGACY_STREAM).dtype


def _root_module(array: Any) -> Any:
    return sys.modules.get(type(array).__module__.partition(".")[0])


def _named_dtype(label: str, name: str) -> np.dtype[Any]:
    try:
        return get_format(name).dtype
    except TcuError:
        pass
    try:
        return np.dtype(name)
    except TypeError:
        raise DtypeError(
            f"{label} has dtype {name}, which no tensor-core format has: convert it first"
        ) from None


def _in_elements(label: str, strides: tuple[int, ...], size: int) -> tuple[int, ...]:
    if any(stride % size for stride in strides):
        raise ParameterError(
            f"{label} has strides {strides} that are no multiples of {size} bytes: copy it first"
        )
    return tuple(stride // size for stride in strides)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
