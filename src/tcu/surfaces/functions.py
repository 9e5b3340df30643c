"""The functions of the public face, one for each operation and one for its segments, made from the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tcu.ops import OPERATIONS
from tcu.ops.layout import WHOLE, Along, Ragged
from tcu.ops.operation import Operation
from tcu.ops.options import OPTIONS
from tcu.surfaces.call import run

__all__ = ["function_of", "segments_of"]

Function = Callable[..., Any]
_DETAILS = {"return_info": "bool", "progress": "Progress | None"}


def function_of(operation: Operation) -> Function:
    """The function of an operation on whole arrays and along axes, as ``tcu.sum`` is that of the sum."""
    two, along = len(operation.operands) == 2, Along in operation.layouts

    def of_two(
        x: Any, y: Any, *, out: Any = None, return_info: bool = False, progress: Any = None, **options: Any
    ) -> Any:
        return run(operation, (x, y), WHOLE, operation.values(options), out, return_info, progress)

    def of_all(
        x: Any, *, out: Any = None, return_info: bool = False, progress: Any = None, **options: Any
    ) -> Any:
        return run(operation, (x,), WHOLE, operation.values(options), out, return_info, progress)

    def reduced(
        x: Any, axis: Any = None, *, keepdims: bool = False, out: Any = None, return_info: bool = False,
        progress: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        layout = WHOLE if axis is None and not keepdims else Along(axis, keepdims)
        return run(operation, (x,), layout, operation.values(options), out, return_info, progress)

    def scanned(
        x: Any, axis: Any = None, *, out: Any = None, return_info: bool = False, progress: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        return run(operation, (x,), Along(axis), operation.values(options), out, return_info, progress)

    function = of_two if two else scanned if operation.kind == "scan" else reduced if along else of_all
    parameters = [(name, inspect.Parameter.empty, "Any") for name in operation.operands]
    keywords = [] if operation.kind == "scan" or not along else [("keepdims", False, "bool")]
    positional = [("axis", None, "SupportsIndex | Sequence[SupportsIndex] | None")] if along else []
    tail = [("out", None, "Any"), *((name, _NOTHING[name], _DETAILS[name]) for name in operation.details)]
    return _dressed(
        function, operation, operation.name, operation.documentation, parameters + positional, keywords, tail
    )


def segments_of(operation: Operation) -> Function:
    """The function of an operation on ragged segments, as ``tcu.segment_sum`` is that of the sum."""

    def function(x: Any, offsets: Any, *, out: Any = None, check: bool = True, **options: Any) -> Any:
        return run(operation, (x,), Ragged(offsets, check), operation.values(options), out)

    parameters = [(name, inspect.Parameter.empty, "Any") for name in ("x", "offsets")]
    tail = [("out", None, "Any"), ("check", True, "bool")]
    name = f"segment_{operation.name}"
    return _dressed(function, operation, name, operation.segments, parameters, [], tail)


_NOTHING: dict[str, Any] = {"return_info": False, "progress": None}
Parameters = list[tuple[str, Any, str]]


def _dressed(
    function: Any, operation: Operation, name: str, documentation: str, positional: Parameters,
    keywords: Parameters, tail: Parameters,
) -> Function:  # fmt: skip
    """The function with its name, its docstring, and the signature that it stands for."""
    options = [(each, OPTIONS[each].default, OPTIONS[each].annotation) for each in operation.options]
    made = [
        inspect.Parameter(each, kind, default=default, annotation=annotation)
        for kind, group in (
            (inspect.Parameter.POSITIONAL_OR_KEYWORD, positional),
            (inspect.Parameter.KEYWORD_ONLY, [*keywords, *options, *tail]),
        )
        for each, default, annotation in group
    ]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "tcu"
    function.__doc__ = documentation or None
    function.__signature__ = inspect.Signature(made, return_annotation="Any")
    return function  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Function] = {}
for _operation in OPERATIONS.values():
    FUNCTIONS[_operation.name] = function_of(_operation)
    if Ragged in _operation.layouts:
        FUNCTIONS[f"segment_{_operation.name}"] = segments_of(_operation)
globals().update(FUNCTIONS)
__all__ += list(FUNCTIONS)
