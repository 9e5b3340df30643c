"""Arrays of any library in the GPU's memory: address, shape, strides, and results of the same kind.

PyTorch and CuPy are asked directly: PyTorch offers neither DLPack nor the
CUDA array interface for every one of its 8- and 16-bit formats.  Any other
library is read through ``__dlpack__`` or ``__cuda_array_interface__``.
Nothing is copied; a library is never imported, only met.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from tcu.errors import DtypeError, ParameterError, ShapeError, TcuError
from tcu.formats import get_format
from tcu.formats.tensor import check_memory
from tcu.gpu.device import call
from tcu.gpu.imports import cuda_module
from tcu.gpu.structs import constants

__all__ = [
    "MAX_BATCH_DIMENSIONS", "DeviceArray", "Library", "collapse", "dtype_of", "joined", "lasts", "library_of", "ordinal_of", "torch_dtype",
]  # fmt: skip

MAX_BATCH_DIMENSIONS = 8
"""That a kernel takes."""
LIMITS = constants(MAX_BATCH_DIMENSIONS=MAX_BATCH_DIMENSIONS)

_NO_STREAM = -1
"""Of DLPack: the consumer looks after the order itself."""
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

    def plain(self, array: Any) -> tuple[int, int, np.dtype[Any]] | None:
        """(address, number of elements, dtype) of a contiguous array, quickly; None for any other."""

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        """A copy whose memory has the dimensions in that order, without gaps."""

    def assign(self, out: Any, array: Any, order: tuple[int, ...]) -> None:
        """Copy an array, with its dimensions in that order, into ``out``."""

    def finish(self, array: Any, like: Any, stream: int) -> Any:
        """What the caller gets for an array that :meth:`empty` made, after the launch on the stream."""


class _Torch:
    name = "PyTorch"

    def ordinal(self, label: str, array: Any) -> int:
        if array.device.type != "cuda":
            raise ParameterError(
                f"{label} is a PyTorch tensor on {array.device}: move it with {label}.cuda(), or pass NumPy arrays"
            )
        return int(array.device.index)

    def plain(self, array: Any) -> tuple[int, int, np.dtype[Any]] | None:
        strided = sys.modules["torch"].strided
        if array.layout is not strided or not array.is_contiguous() or array.is_neg():
            return None
        dtype, address = _torch_dtypes.get(array.dtype), array.data_ptr()
        return None if dtype is None or not address else (address, array.numel(), dtype)

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        torch = sys.modules["torch"]
        if array.layout != torch.strided:
            raise DtypeError(f"{label} is a {array.layout} tensor: make it dense, with {label}.to_dense()")
        plain = array.detach().resolve_conj().resolve_neg()
        check_memory(plain, label)
        return DeviceArray(
            plain.data_ptr(),
            tuple(plain.shape),
            tuple(plain.stride()),
            _torch_dtype(label, plain.dtype),
            self.ordinal(label, plain),
            plain,
        )

    def current_stream(self, ordinal: int) -> int:
        torch = sys.modules["torch"]
        quickly = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # makes no Stream object
        return int(quickly(ordinal) if quickly else torch.cuda.current_stream(ordinal).cuda_stream)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int) -> tuple[Any, int]:
        array = sys.modules["torch"].empty(shape, dtype=torch_dtype(dtype), device=like.device)
        return array, array.data_ptr()

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.detach().permute(order).clone(memory_format=sys.modules["torch"].contiguous_format)

    def assign(self, out: Any, array: Any, order: tuple[int, ...]) -> None:
        out.detach().copy_(array.permute(order))

    def finish(self, array: Any, like: Any, stream: int) -> Any:
        return array


class _CuPy:
    name = "CuPy"

    def ordinal(self, label: str, array: Any) -> int:
        return int(array.device.id)

    def plain(self, array: Any) -> tuple[int, int, np.dtype[Any]] | None:
        return (array.data.ptr, array.size, array.dtype) if array.flags.c_contiguous else None

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

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.transpose(order).copy(order="C")

    def assign(self, out: Any, array: Any, order: tuple[int, ...]) -> None:
        out[...] = array.transpose(order)

    def finish(self, array: Any, like: Any, stream: int) -> Any:
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

    def plain(self, array: Any) -> tuple[int, int, np.dtype[Any]] | None:
        return None

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

    def ordered(self, array: Any, order: tuple[int, ...]) -> Any:
        raise ParameterError(
            f"sums of a {type(array).__module__}.{type(array).__qualname__} along these axes need its memory in "
            f"another order: transpose it to {order} and copy it first"
        )

    def assign(self, out: Any, array: Any, order: tuple[int, ...]) -> None:
        raise ParameterError(
            f"running sums of a {type(out).__module__}.{type(out).__qualname__} along this axis come in another "
            f"order: give an array that has the axis last"
        )

    def finish(self, array: Any, like: Any, stream: int) -> Any:
        namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else _root_module(like)
        if hasattr(namespace, "from_dlpack"):
            return namespace.from_dlpack(_InOrder(array, stream))
        cuda = sys.modules.get("numba.cuda")
        if cuda is not None and isinstance(like, cuda.devicearray.DeviceNDArrayBase):
            return cuda.as_cuda_array(_Interface(array))
        return array


class _InOrder:
    """A view that tells its consumer's stream to wait for the stream on which it is computed."""

    def __init__(self, view: Any, stream: int) -> None:
        self._view, self._stream = view, stream

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._view.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if stream != _NO_STREAM:
            flag = cuda_module("cuda.bindings.driver").CUevent_flags.CU_EVENT_DISABLE_TIMING
            event = call("cuEventCreate", flag)
            call("cuEventRecord", event, self._stream)
            call("cuStreamWaitEvent", stream or _LEGACY_STREAM, event, 0)
            call("cuEventDestroy", event)
        return self._view.__dlpack__(stream=_NO_STREAM, **options)


class _Interface:
    """A view of cuda.core, as Numba reads it; both work on the default stream."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self.__cuda_array_interface__ = {
            "shape": tuple(view.shape), "typestr": view.dtype.str, "data": (int(view.ptr), False),
            "version": 3, "strides": None, "stream": _LEGACY_STREAM,
        }  # fmt: skip


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


def lasts(stream: int, ordinal: int) -> bool:
    """Whether a stream is one of PyTorch's own, which it never destroys."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    current = torch.cuda.current_stream(ordinal)
    # Of a stream from elsewhere, PyTorch's own number is the handle.
    return bool(current.cuda_stream == stream != current.stream_id)


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


@cache
def torch_dtype(dtype: np.dtype[Any]) -> Any:
    """PyTorch's dtype of that name."""
    return getattr(sys.modules["torch"], dtype.name)


_torch_dtypes: dict[Any, np.dtype[Any]] = {}


def _torch_dtype(label: str, dtype: Any) -> np.dtype[Any]:
    found = _torch_dtypes.get(dtype)
    if found is None:
        found = _torch_dtypes[dtype] = _named_dtype(label, str(dtype).removeprefix("torch."))
    return found


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
