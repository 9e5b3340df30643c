"""From a call to its result, for arrays in the host's memory."""

from __future__ import annotations

from typing import Any

from tcu.engines.host import exact, integers, own, planned, row_functions, scans
from tcu.formats.array import holds_integers
from tcu.ops.operation import Call

__all__ = ["execute"]

_ENGINES = {
    "planned": planned.reduce,
    "exact": exact.reduce,
    "exponentials": row_functions.of_rows,
    "norms": row_functions.of_rows,
    "own": own.reduce,
}


def execute(call: Call) -> tuple[Any, Any]:
    """(the result, how it came about or None); ``out`` has it where one was given.

    The arrays are what NumPy reads.  Raises what the operation's function raises.
    """
    call.operation.check_layout(call.layout)
    if call.operation.of_integers and holds_integers(call.arrays[0]):
        return integers.execute(call)
    if call.operation.kind == "scan":
        return scans.scan(call)
    return _ENGINES[call.operation.arithmetic](call)
