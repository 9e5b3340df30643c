"""Who carries out the products of a machine."""

from __future__ import annotations

from tcu.errors import unknown_name
from tcu.machine.executors.count import CountExecutor
from tcu.machine.executors.executor import Dtypes, Executor
from tcu.machine.executors.ideal import IdealExecutor
from tcu.machine.executors.systolic import SystolicArray, SystolicExecutor

__all__ = [
    "CountExecutor",
    "Dtypes",
    "Executor",
    "IdealExecutor",
    "SystolicArray",
    "SystolicExecutor",
    "find_executor",
]

_BY_NAME: dict[str, type[Executor]] = {
    kind.name: kind for kind in (IdealExecutor, CountExecutor, SystolicExecutor)
}


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
