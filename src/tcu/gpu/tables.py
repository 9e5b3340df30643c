"""Constants in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tcu.gpu.device import Gpu, call, current
from tcu.gpu.imports import cuda_module
from tcu.gpu.workspace import any_time

__all__ = ["DeviceTable"]


class DeviceTable:
    """An array that was copied there; its memory is given back when nobody has the table any more.

    Both at any time, also while a stream is being captured: on a stream of its own that waits for no other.
    """

    def __init__(self, values: npt.NDArray[Any], gpu: Gpu) -> None:
        values = np.ascontiguousarray(values)
        with any_time():
            self.address = int(call("cuMemAlloc", max(values.nbytes, 1)))
            flag = cuda_module("cuda.bindings.driver").CUstream_flags.CU_STREAM_NON_BLOCKING
            stream = call("cuStreamCreate", flag)
            call("cuMemcpyHtoDAsync", self.address, values.ctypes.data, values.nbytes, stream)
            call("cuStreamSynchronize", stream)
            call("cuStreamDestroy", stream)
        # Not at exit, when the driver may be gone.  The driver waits for launches that still read it.
        finalize(self, _free, call, current, any_time, gpu, self.address).atexit = False


def _free(
    call: Callable[..., Any],
    current: Callable[[Gpu], Any],
    any_time: Callable[[], Any],
    gpu: Gpu,
    address: int,
) -> None:
    with current(gpu), any_time():
        call("cuMemFree", address)
