"""Who carries out the products of a machine."""

from __future__ import annotations

from tcu.errors import unknown_name
from tcu.machine.executors.count import CountExecutor
from tcu.machine.executors.executor import Dtypes, Executor
from tcu.machine.executors.external import ExternalMemoryExecutor
from tcu.machine.executors.gpu import GpuExecutor
from tcu.machine.executors.ideal import IdealExecutor
from tcu.machine.executors.model import ModelExecutor
from tcu.machine.executors.systolic import SystolicArray, SystolicExecutor
from tcu.machine.executors.unit import InstructionExecutor

__all__ = [
    "CountExecutor",
    "Dtypes",
    "Executor",
    "ExternalMemoryExecutor",
    "GpuExecutor",
    "IdealExecutor",
    "InstructionExecutor",
    "ModelExecutor",
    "SystolicArray",
    "SystolicExecutor",
    "find_executor",
]

_BY_NAME: dict[str, type[Executor]] = {
    "ideal": IdealExecutor, "count": CountExecutor, "systolic": SystolicExecutor, "model": ModelExecutor, "gpu": GpuExecutor,
}  # fmt: skip


def find_executor(executor: str | Executor) -> Executor:
    """The executor of that name; an :class:`Executor` passes through.

    Raises UnknownNameError with the names that there are.
    """
    if isinstance(executor, Executor):
        return executor
    try:
        return _BY_NAME[executor]()
    except (KeyError, TypeError):
        raise unknown_name("executor", executor, _BY_NAME) from None
