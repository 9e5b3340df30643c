"""Whose arrays a call has, asked once; and who executes it.

A call on a GPU of a kind that was made before takes a shortcut: its launch is kept, and most of the host's time
would go into finding it.  Functions ask first whether it is the last one of its place in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.engines import engine_of
from tcu.formats.array import is_dask
from tcu.formats.tensor import is_tensor
from tcu.model.execute import check_progress
from tcu.ops.layout import Layout
from tcu.ops.operation import Call, Operation

__all__ = ["known", "losses_of_tensors", "put_tensor", "run", "run_dask", "tensors"]

Shortcut = Callable[[Operation, tuple[Any, ...], Layout, tuple[Any, ...]], Any]


def _no_shortcut(*_: Any) -> None:
    return None


known: list[Callable[..., Any]] = [_no_shortcut]
"""Asked by functions, with what they are told, for the result of a call like the last one there, or None.  Lists, this and
the next one, as torch.compile reads them while they are set."""
_shortcut: list[Shortcut] = [_no_shortcut]
"""Asked next, for the result of a call like any before, or None."""
put_tensor: list[Callable[..., Any]] = [_no_shortcut]
"""Puts a tensor into ``out``; there once a call with tensors was made."""


_PLAIN, _TENSOR, _DASK = range(3)
"""Kinds of arrays; where they meet, the later one decides who is asked."""
_kinds: dict[type, int] = {}
"""Of types that were met: to look takes longer than all else up to a launch."""


def run(
    operation: Operation, arrays: tuple[Any, ...], layout: Layout, options: tuple[Any, ...], out: Any = None,
    return_info: bool = False, progress: Any = None,
) -> Any:  # fmt: skip
    """The result, in the library of the arrays; with ``return_info``, (result, how it came about)."""
    if out is None and not return_info and progress is None:
        result = _shortcut[0](operation, arrays, layout, options)
        if result is not None:
            return result
    check_progress(progress)
    kind = _PLAIN
    for x in arrays:
        found = _kinds.get(type(x))
        if found is None:
            found = _kinds[type(x)] = _TENSOR if is_tensor(x) else _DASK if is_dask(x) else _PLAIN
        if found > kind:  # max takes as long as all the rest here
            kind = found
    return _RUNNERS[kind](Call(operation, arrays, layout, options, out, return_info, progress))


def _run_plain(call: Call) -> Any:
    result, info = engine_of(call.arrays).execute(call)
    return (result, info) if call.return_info else result


def tensors() -> Any:
    """What serves tensors, which were met."""
    from tcu.surfaces.torch import run as module  # registers operators, which imports PyTorch

    _RUNNERS[_TENSOR], _shortcut[0], known[0] = module.run, module.shortcut, module.known
    put_tensor[0] = module.put_result
    losses_of_tensors[0] = module.cross_entropy
    return module


def _run_tensors(call: Call) -> Any:
    return tensors().run(call)


def run_dask(call: Call, where: Any = None) -> Any:
    """The lazy result of a call with Dask arrays, of the elements where a mask is true."""
    from tcu.surfaces import dask  # loads Dask's arrays, which were met

    _RUNNERS[_DASK] = dask.run
    return dask.run(call) if where is None else dask.run_where(call, where)


def _first_losses(*given: Any) -> Any:
    return tensors().cross_entropy(*given)


losses_of_tensors: list[Callable[..., Any]] = [_first_losses]
"""The losses of rows of tensors."""
_RUNNERS: list[Callable[[Call], Any]] = [_run_plain, _run_tensors, run_dask]
