"""The names, docstrings and signatures of functions that are made from the table of operations."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tcu.ops.layout import WHOLE, Along
from tcu.ops.operation import Operation
from tcu.ops.options import OPTIONS

__all__ = [
    "REQUIRED",
    "Keyword",
    "Parameters",
    "Surface",
    "beside_options",
    "dressed",
    "function_over",
    "keywords_of",
    "with_axes",
]

Function = Callable[..., Any]
Parameters = list[tuple[str, Any, str]]
"""Names, defaults and annotations."""
REQUIRED = inspect.Parameter.empty
"""The default of what has none."""


class Keyword(NamedTuple):
    """What functions of a surface take behind the options."""

    name: str
    default: Any
    annotation: str
    text: str


class Surface(NamedTuple):
    """What the functions of a surface have in common."""

    module: str
    run: Callable[..., Any]
    """Of an operation, its arrays and their layout, and by name whatever else a call gave."""
    law: Callable[[Operation], str]
    """What becomes of an operation there: the docstring's first paragraphs."""
    operands: str
    axes: Callable[[Operation], str] | None
    """None: functions take whole arrays alone."""
    keywords: Callable[[Operation], list[Keyword]]
    result: Callable[[Operation], str]
    errors: str


def function_over(operation: Operation, surface: Surface) -> Function:
    """The function of an operation on another surface, with the same arguments up to the options.

    Those of tcu itself bind ``out`` and the like at once instead: handed on by name they take 0.1 µs a call.
    """
    two = len(operation.operands) == 2

    def of_two(x: Any, y: Any, axis: Any = None, *, keepdims: bool = False, **given: Any) -> Any:
        layout = WHOLE if axis is None and not keepdims else Along(axis, keepdims)
        return surface.run(operation, (x, y), layout, **given)

    def of_one(x: Any, axis: Any = None, *, keepdims: bool = False, **given: Any) -> Any:
        layout = WHOLE if axis is None and not keepdims else Along(axis, keepdims)
        return surface.run(operation, (x,), layout, **given)

    def scanned(x: Any, axis: Any = None, **given: Any) -> Any:
        return surface.run(operation, (x,), Along(axis), **given)

    function = of_two if two else scanned if operation.kind == "scan" else of_one
    along, keywords = Along in operation.layouts and surface.axes is not None, surface.keywords(operation)
    texts = [(", ".join(operation.operands), surface.operands)]
    if along and surface.axes is not None:
        texts.append(("axis" if operation.kind == "scan" else "axis, keepdims", surface.axes(operation)))
    texts.append((", ".join(operation.options), f"As in :func:`tcu.{operation}`."))
    texts += [(each.name, each.text) for each in keywords]
    described = "".join(f"{name}:\n{textwrap.indent(text, '    ')}\n" for name, text in texts)
    errors = textwrap.indent(surface.errors.format(name=operation), "    ")
    documentation = (
        f":func:`tcu.{operation}` {surface.law(operation)}\n\nParameters\n----------\n{described}\n"
        f"Returns\n-------\n{surface.result(operation)}\n\nRaises\n------\nTcuError:\n{errors}\n"
    )
    tail = [each[:3] for each in keywords]
    return with_axes(function, operation, surface.module, documentation, tail, along)


def with_axes(
    function: Any, operation: Operation, module: str, documentation: str, tail: Parameters, along: bool
) -> Function:
    """The function dressed for whole arrays, and for axes if ``along``."""
    parameters: Parameters = [(name, REQUIRED, "Any") for name in operation.operands]
    if along:
        axes = "SupportsIndex | Sequence[SupportsIndex] | None"
        parameters.append(("axis", -1, "SupportsIndex") if operation.kind == "map" else ("axis", None, axes))
    keywords: Parameters = [("keepdims", False, "bool")] if along and operation.kind == "reduce" else []
    return dressed(
        function,
        operation.name,
        module,
        documentation,
        parameters,
        [*keywords, *keywords_of(operation), *tail],
    )


def keywords_of(operation: Operation) -> Parameters:
    """An operation's options."""
    return [(name, OPTIONS[name].default, OPTIONS[name].annotation) for name in operation.options]


def beside_options(operation: Operation, names: Iterable[str]) -> list[str]:
    """What a function with axes takes beside the operation's options; ``names``: behind what all have."""
    return ["axis", *(["keepdims"] if operation.kind == "reduce" else []), *names]


def dressed(
    function: Any,
    name: str,
    module: str,
    documentation: str,
    positional: Parameters,
    keywords: Parameters,
    result: str = "Any",
) -> Function:
    """The function with its name, its docstring, and the signature that it stands for."""
    made = [
        inspect.Parameter(each, kind, default=default, annotation=annotation)
        for kind, group in (
            (inspect.Parameter.POSITIONAL_OR_KEYWORD, positional), (inspect.Parameter.KEYWORD_ONLY, keywords),
        )
        for each, default, annotation in group
    ]  # fmt: skip
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = documentation or None
    function.__signature__ = inspect.Signature(made, return_annotation=result)
    return function  # type: ignore[no-any-return]
