"""Whose arrays a call has, and who executes it."""

from __future__ import annotations

from typing import Any

from tcu.engines import host
from tcu.formats.array import is_dask, lives_on_gpu
from tcu.formats.tensor import is_tensor
from tcu.ops.operation import Call

__all__ = ["run"]


def run(call: Call) -> Any:
    """The result, in the library of the arrays; with ``return_info``, (result, how it came about)."""
    if any(map(is_dask, call.arrays)):
        import tcu.surfaces.dask as dask  # loads Dask's arrays, which were met

        return dask.run(call)
    if any(map(is_tensor, call.arrays)):
        import tcu.surfaces.torch.run as tensors  # registers operators, which imports PyTorch

        return tensors.run(call)
    if any(map(lives_on_gpu, call.arrays)):
        from tcu.engines import cuda  # half of tcu's import time, for those who have a GPU

        return _given_back(call, *cuda.execute(call))
    return _given_back(call, *host.execute(call))


def _given_back(call: Call, result: Any, info: Any) -> Any:
    return (result, info) if call.return_info else result
