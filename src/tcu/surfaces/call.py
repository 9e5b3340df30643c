"""Whose arrays a call has, and who executes it."""

from __future__ import annotations

from typing import Any

from tcu.engines import execute
from tcu.formats.array import is_dask
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
    result, info = execute(call)
    return (result, info) if call.return_info else result
