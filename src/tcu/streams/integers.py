"""Which operations add up the integers of files as integers, and the call that says how."""

from __future__ import annotations

from typing import Any

from tcu.engines.host.integers import check_options
from tcu.ops.layout import Whole
from tcu.ops.operation import Call, Operation

__all__ = ["are_integers", "call_of"]


def are_integers(operation: Operation, numbers: Any) -> bool:
    """Whether the operation adds up numbers of that dtype, integers or truth values, in one sum."""
    return operation.of_integers and operation.kind != "scan" and numbers.dtype.kind in "iub"


def call_of(operation: Operation, numbers: Any, options: tuple[Any, ...]) -> Call:
    """The call on all of them; raises for a unit or a variant that is not there."""
    call = Call(operation, (numbers,), Whole(), options)
    check_options(call)
    return call
