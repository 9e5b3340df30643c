"""Offsets of ragged segments in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.array import lives_on_gpu
from tcu.gpu.arrays import DeviceArray, Library, library_of
from tcu.gpu.device import call, read
from tcu.gpu.offsets import offsets_launch
from tcu.ops.offsets import check_offsets_form, checked_offsets

__all__ = ["device_offsets", "look"]


def device_offsets(
    library: Library,
    like: Any,
    offsets: Any,
    n: int,
    ordinal: int,
    stream: int,
    check: bool,
    what: str = "elements",
) -> DeviceArray:
    """The offsets of segments of n elements as contiguous int64 on the GPU of ``like``.

    Offsets in the host's memory are checked and copied there; those on the
    GPU are checked if ``check``, for which this waits for them.
    """
    if not lives_on_gpu(offsets):
        # Pinned memory is read when the stream comes to it, and may hold something else by then; a copy is not pinned.
        line = checked_offsets(offsets, n, what).copy()
        _refuse_capture(stream, "are in the host's memory: copy them to the GPU before, and pass check=False")
        place, address = library.empty(like, line.shape, line.dtype, ordinal)
        call("cuMemcpyHtoDAsync", address, line.ctypes.data, line.nbytes, stream)  # staged when this returns
        return DeviceArray(address, line.shape, (1,), line.dtype, ordinal, place)
    home = library_of(offsets)
    if home is not library:
        assert home is not None
        raise ParameterError(f"x is of {library.name}, offsets of {home.name}: pass arrays of one library")
    if home.ordinal("offsets", offsets) != ordinal:
        raise ParameterError(
            f"x is on GPU {ordinal}, offsets on GPU {home.ordinal('offsets', offsets)}: move both to one GPU"
        )
    view = library.view("offsets", offsets, stream)
    check_offsets_form(view.dtype.name, view.shape)
    count = view.shape[0]
    stride, wide = view.strides[0] if count > 1 else 1, bool(view.dtype == np.int64)
    if not wide or stride != 1:
        place, address = library.empty(like, (count,), np.dtype(np.int64), ordinal)
        offsets_launch(count, stride, wide, n, ordinal).copy(view.address, address, stream)
        view = DeviceArray(address, (count,), (1,), np.dtype(np.int64), ordinal, place)
    if check:
        look(view, n, stream, what)()
    return view


def look(edges: DeviceArray, n: int, stream: int, what: str = "elements") -> Callable[[], None]:
    """The GPU looks at offsets of n elements; what is returned waits for its answer, and raises what is wrong."""
    _refuse_capture(stream, "cannot be looked at: check them before, and pass check=False")
    count = edges.shape[0]
    answer = offsets_launch(count, 1, True, n, edges.ordinal).ask(edges.address, 0, stream)

    def confirm() -> None:
        if not answer.is_right():
            checked_offsets(np.frombuffer(read(edges.address, 8 * count), np.int64), n, what)

    return confirm


def _refuse_capture(stream: int, why: str) -> None:
    if int(call("cuStreamIsCapturing", stream)):
        raise ParameterError(f"while a graph is captured, offsets {why}")
