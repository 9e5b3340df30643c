"""Who executes a call: the arrays' home decides."""

from __future__ import annotations

from typing import Any

from tcu.engines import host
from tcu.formats.array import lives_on_gpu
from tcu.ops.operation import Call

__all__ = ["execute", "load_cuda"]


def execute(call: Call) -> tuple[Any, Any]:
    """(the result, how it came about or None) of a call with plain arrays, in the host's memory or in a GPU's."""
    if any(map(lives_on_gpu, call.arrays)):
        result: tuple[Any, Any] = load_cuda().execute(call)
        return result
    return host.execute(call)


def load_cuda() -> Any:
    """:mod:`tcu.engines.cuda`, which takes half as long to import as the rest of tcu: imported when first needed."""
    from tcu.engines import cuda

    return cuda
