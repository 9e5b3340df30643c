"""The functions of the public face, made from the table: of each operation, of its segments, of a variance's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.ops import OPERATIONS
from tcu.ops.layout import WHOLE, Along, Ragged, one_axis
from tcu.ops.operation import Operation
from tcu.surfaces.bounds import bound_of_moments
from tcu.surfaces.call import known, run
from tcu.surfaces.signatures import REQUIRED, Parameters, beside_options, dressed, keywords_of, with_axes
from tcu.surfaces.where import run_where

Function = Callable[..., Any]
_OUT: Parameters = [("out", None, "Any")]
_DIM: Parameters = [("dim", None, "SupportsIndex | Sequence[SupportsIndex] | None")]
_KEEPDIM: Parameters = [("keepdim", False, "bool")]
"""PyTorch's names of ``axis`` and ``keepdims``."""
_WHERE: Parameters = [("where", None, "npt.ArrayLike | Any | None")]
_DETAILS: dict[str, tuple[str, Any, str]] = {
    "return_info": ("return_info", False, "bool"),
    "progress": ("progress", None, "Progress | None"),
}


def function_of(operation: Operation) -> Function:
    """The function of an operation on whole arrays and along axes, as ``tcu.sum`` is that of the sum."""
    two, defaults = len(operation.operands) == 2, operation.defaults
    names = _DIM if operation.kind != "reduce" else [*_DIM, *_KEEPDIM, *_WHERE]
    tail = [*names, *_OUT, *(_DETAILS[name] for name in operation.details)]
    beside = beside_options(operation, (name for name, *_ in tail))

    def of_two(
        x: Any, y: Any, axis: Any = None, *, keepdims: bool = False, dim: Any = None, keepdim: bool = False,
        where: Any = None, out: Any = None, return_info: bool = False, progress: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        if dim is not None or keepdim:
            axis, keepdims = one_axis(axis, dim, "reduce"), keepdims or keepdim
        given = operation.values(options, beside) if options else defaults
        plain = out is None and not return_info and progress is None and where is None
        if plain and (result := known[0](operation, x, y, axis, keepdims, given)) is not None:
            return result
        layout = WHOLE if axis is None and not keepdims else Along(axis, keepdims)
        if where is not None:
            return run_where(operation, (x, y), layout, where, given, out, return_info, progress)
        return run(operation, (x, y), layout, given, out, return_info, progress)

    def reduced(
        x: Any, axis: Any = None, *, keepdims: bool = False, dim: Any = None, keepdim: bool = False,
        where: Any = None, out: Any = None, return_info: bool = False, progress: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        if dim is not None or keepdim:
            axis, keepdims = one_axis(axis, dim, "reduce"), keepdims or keepdim
        given = operation.values(options, beside) if options else defaults
        plain = out is None and not return_info and progress is None and where is None
        if plain and (result := known[0](operation, x, x, axis, keepdims, given)) is not None:
            return result
        layout = WHOLE if axis is None and not keepdims else Along(axis, keepdims)
        if where is not None:
            return run_where(operation, (x,), layout, where, given, out, return_info, progress)
        return run(operation, (x,), layout, given, out, return_info, progress)

    def scanned(
        x: Any, axis: Any = None, *, dim: Any = None, out: Any = None, return_info: bool = False,
        progress: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        if dim is not None:
            axis = one_axis(axis, dim, "scan")
        given = operation.values(options, beside) if options else defaults
        plain = out is None and not return_info and progress is None
        if plain and (result := known[0](operation, x, x, axis, False, given)) is not None:
            return result
        return run(operation, (x,), Along(axis), given, out, return_info, progress)

    def mapped(x: Any, axis: Any = -1, *, dim: Any = None, out: Any = None, **options: Any) -> Any:
        if dim is not None:
            axis = one_axis(None if axis == -1 else axis, dim, "map")
        given = operation.values(options, beside) if options else defaults
        if out is None and (result := known[0](operation, x, x, axis, False, given)) is not None:
            return result
        return run(operation, (x,), Along(axis), given, out)

    by_kind = {"map": mapped, "scan": scanned, "reduce": reduced}
    function = of_two if two else by_kind[operation.kind]
    return with_axes(function, operation, "tcu", operation.documentation, tail, along=True)


def segments_of(operation: Operation) -> Function:
    """The function of an operation on ragged segments, as ``tcu.segment_sum`` is that of the sum."""
    tail: Parameters = [*_OUT, ("check", True, "bool")]
    beside, called = [name for name, *_ in tail], f"segment_{operation.name}"

    def of_two(x: Any, y: Any, offsets: Any, *, out: Any = None, check: bool = True, **options: Any) -> Any:
        return run(operation, (x, y), Ragged(offsets, check), operation.values(options, beside, called), out)

    def of_one(x: Any, offsets: Any, *, out: Any = None, check: bool = True, **options: Any) -> Any:
        given = operation.values(options, beside, called)
        if out is None and (result := known[0](operation, x, offsets, None, None, given, check)) is not None:
            return result
        return run(operation, (x,), Ragged(offsets, check), given, out)

    function = of_two if len(operation.operands) == 2 else of_one
    parameters = [(name, REQUIRED, "Any") for name in (*operation.operands, "offsets")]
    return dressed(function, called, "tcu", operation.segments, parameters, [*keywords_of(operation), *tail])


FUNCTIONS: dict[str, Function] = {}
for _operation in OPERATIONS.values():
    FUNCTIONS[_operation.name] = function_of(_operation)
    if Ragged in _operation.layouts:
        FUNCTIONS[f"segment_{_operation.name}"] = segments_of(_operation)
    if _operation.moments and not _operation.exact:
        FUNCTIONS[f"{_operation.name}_error_bound"] = bound_of_moments(_operation)
globals().update(FUNCTIONS)
__all__ = [name for name in FUNCTIONS if name not in ("layer_norm", "rms_norm")]
"""What tcu itself shows: those two with weights besides (:mod:`tcu.surfaces.row_norms`).  Functions of a program's own are
made by ``function_of`` and ``segments_of``."""
