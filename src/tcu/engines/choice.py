"""Who executes a call: the arrays' home decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcu.engines import host
from tcu.formats.array import lives_on_gpu
from tcu.ops.operation import Call

__all__ = ["engine_of", "execute", "load_cuda"]


def engine_of(arrays: Sequence[Any]) -> Any:
    """:mod:`tcu.engines.host` or :mod:`tcu.engines.cuda`, for plain arrays in the host's memory or in a GPU's."""
    return load_cuda() if any(map(lives_on_gpu, arrays)) else host


def execute(call: Call) -> tuple[Any, Any]:
    """(the result, how it came about or None) of a call with plain arrays."""
    result: tuple[Any, Any] = engine_of(call.arrays).execute(call)
    return result


def load_cuda() -> Any:
    """:mod:`tcu.engines.cuda`, which takes half as long to import as the rest of tcu: imported when first needed."""
    from tcu.engines import cuda

    return cuda
