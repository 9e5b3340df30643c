"""The (m, ℓ)-TCU machine: who computes, and what it costs."""

from tcu.machine.executors import (
    Dtypes,
    Executor,
    ExternalMemoryExecutor,
    GpuExecutor,
    ModelExecutor,
    SystolicExecutor,
)
from tcu.machine.ledger import Entry, Ledger, tensor_cost
from tcu.machine.machine import Machine
from tcu.machine.processor import Processor
from tcu.machine.shapes import ShapeArray

__all__ = [
    "Machine", "Processor", "Ledger", "Entry", "Executor", "Dtypes", "ModelExecutor", "GpuExecutor", "SystolicExecutor",
    "ExternalMemoryExecutor", "ShapeArray", "tensor_cost",
]  # fmt: skip
