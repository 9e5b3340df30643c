"""The text of functions.pyi: signatures and docstrings of the functions that are made from the table.

Type checkers, editors and the documentation read it, as they run no code.

``python -m tcu.surfaces.stub`` writes them anew, for tcu itself and over ranks; a test compares.
"""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import tcu

__all__ = ["HEADS", "stub"]

_HEAD = '''"""Written by ``python -m tcu.surfaces.stub``."""

{os}from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

{tcu}from tcu.units import Unit

FUNCTIONS: dict[str, Callable[..., Any]]

'''
_PROGRESS = "from tcu.model.execute import Progress\n"
_MAKERS = """def function_of(operation: Operation) -> Callable[..., Any]: ...
def segments_of(operation: Operation) -> Callable[..., Any]: ...
"""
HEADS = {
    "surfaces/functions.pyi": _HEAD.format(os="", tcu=f"{_PROGRESS}from tcu.ops.operation import Operation\n")
    + _MAKERS,
    "distributed/functions.pyi": _HEAD.format(os="", tcu=""),
    "streams/functions.pyi": _HEAD.format(os="import os\n", tcu=_PROGRESS)
    .replace(", Sequence", "")
    .replace(", SupportsIndex", ""),
}
"""By file in the package, what stands above the functions of the module beside it."""


def stub(file: str) -> str:
    """The names, one line for each parameter, and the docstrings."""
    module = import_module(f"tcu.{file.removesuffix('.pyi').replace('/', '.')}")
    names = "".join(f'    "{name}",\n' for name in module.__all__)
    head = HEADS[file].replace("FUNCTIONS", f"__all__ = [\n{names}]\n\nFUNCTIONS")
    return (head + "".join(map(_function, module.FUNCTIONS.values()))).rstrip() + "\n"


def _function(function: Any) -> str:
    parameters, starred = [], False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        parameters.append(f"{each.name}: {each.annotation}{default}")
    text = "".join(f"    {each},\n" for each in parameters)
    documentation = textwrap.indent(f'"""{function.__doc__}"""', "    ", lambda line: bool(line.strip()))
    return f"def {function.__name__}(\n{text}) -> Any:\n{documentation}\n\n"


def _shown(default: object) -> str:
    """As the formatter writes it."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


if __name__ == "__main__":
    for file in HEADS:
        (Path(tcu.__file__).parent / file).write_text(stub(file), encoding="utf-8")
