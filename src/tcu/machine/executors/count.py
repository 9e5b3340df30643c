"""Nobody computes: only the ledger is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.machine.executors.executor import Dtypes, Executor, is_integer
from tcu.machine.executors.unit import dtypes_of
from tcu.machine.shapes import ShapeArray, broadcast
from tcu.units import Instruction

__all__ = ["CountExecutor"]


class CountExecutor(Executor):
    """Products of shapes, so that the ledger of any n costs no more than the calls that it lists.

    ``instruction``: whose formats the programs are to reckon with; None: binary64.
    """

    name = "count"
    computes = False
    dtypes = Dtypes(None, np.dtype(np.float64), integer_bits=64, sum_bits=64)

    def __init__(self, instruction: Instruction | None = None) -> None:
        self.instruction = instruction
        if instruction is not None:
            self.dtypes = dtypes_of(instruction)

    def largest(self, z: Any) -> ShapeArray:
        return ShapeArray(z.shape[1])

    def multiply(self, a: Any, b: Any) -> ShapeArray:
        x, y = ShapeArray.of(a), ShapeArray.of(b)
        batch = broadcast(x.shape[:-2], y.shape[:-2])
        dtype = np.result_type(x.dtype, y.dtype) if is_integer(x) and is_integer(y) else np.float64
        return ShapeArray((*batch, x.shape[-2], y.shape[-1]), dtype)

    def array(self, values: Any) -> ShapeArray:
        return ShapeArray.of(values)
