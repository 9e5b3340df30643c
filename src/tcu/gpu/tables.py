"""Constants in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tcu.gpu.device import Gpu, call, current

__all__ = ["DeviceTable"]


class DeviceTable:
    """An array that was copied there; its memory is given back when nobody has the table any more."""

    def __init__(self, values: npt.NDArray[Any], gpu: Gpu) -> None:
        values = np.ascontiguousarray(values)
        self.address = int(call("cuMemAlloc", max(values.nbytes, 1)))
        call("cuMemcpyHtoD", self.address, values.ctypes.data, values.nbytes)
        # Not at exit, when the driver may be gone.  The driver waits for launches that still read it.
        finalize(self, _free, call, current, gpu, self.address).atexit = False


def _free(call: Callable[..., Any], current: Callable[[Gpu], Any], gpu: Gpu, address: int) -> None:
    with current(gpu):
        call("cuMemFree", address)
