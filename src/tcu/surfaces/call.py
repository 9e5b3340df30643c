"""Whose arrays a call has, asked once; and who executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.engines import execute
from tcu.formats.array import is_dask
from tcu.formats.tensor import is_tensor
from tcu.ops.operation import Call

__all__ = ["run"]


_PLAIN, _TENSOR, _DASK = range(3)
"""Kinds of arrays; where they meet, the later one decides who is asked."""
_kinds: dict[type, int] = {}
"""Of types that were met: to look takes longer than all else up to a launch."""


def run(call: Call) -> Any:
    """The result, in the library of the arrays; with ``return_info``, (result, how it came about)."""
    kind = _PLAIN
    for x in call.arrays:
        found = _kinds.get(type(x))
        if found is None:
            found = _kinds[type(x)] = _DASK if is_dask(x) else _TENSOR if is_tensor(x) else _PLAIN
        kind = max(kind, found)
    return _RUNNERS[kind](call)


def _run_plain(call: Call) -> Any:
    result, info = execute(call)
    return (result, info) if call.return_info else result


def _run_tensors(call: Call) -> Any:
    from tcu.surfaces.torch.run import run  # registers operators, which imports PyTorch

    _RUNNERS[_TENSOR] = run
    return run(call)


def _run_dask(call: Call) -> Any:
    from tcu.surfaces.dask import run  # loads Dask's arrays, which were met

    _RUNNERS[_DASK] = run
    return run(call)


_RUNNERS: list[Callable[[Call], Any]] = [_run_plain, _run_tensors, _run_dask]
