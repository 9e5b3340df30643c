"""The text of functions.pyi: signatures and docstrings of the functions that are made from the table.

Type checkers, editors and the documentation read it, as they run no code.

``python -m tcu.stubs`` writes them anew, for tcu itself, over ranks and of files; a test compares.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Any

from tcu.distributed import functions as over_ranks
from tcu.streams import functions as of_files
from tcu.surfaces import functions

__all__ = ["HEADS", "stub"]

_HEAD = '''"""Written by ``python -m tcu.stubs``."""

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
HEADS: dict[Any, str] = {
    functions: _HEAD.format(os="", tcu=f"{_PROGRESS}from tcu.ops.operation import Operation\n") + _MAKERS,
    over_ranks: _HEAD.format(os="", tcu=""),
    of_files: _HEAD.format(os="import os\n", tcu=_PROGRESS)
    .replace(", Sequence", "")
    .replace(", SupportsIndex", ""),
}
"""What stands above the functions of each module that has a stub."""


def stub(module: Any) -> str:
    """The names, one line for each parameter, and the docstrings."""
    names = "".join(f'    "{name}",\n' for name in module.__all__)
    head = HEADS[module].replace("FUNCTIONS", f"__all__ = [\n{names}]\n\nFUNCTIONS")
    return (head + "".join(map(_function, module.FUNCTIONS.values()))).rstrip() + "\n"


def _function(function: Any) -> str:
    signature, parameters, starred = inspect.signature(function), [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        parameters.append(f"{each.name}: {each.annotation}{default}")
    text = "".join(f"    {each},\n" for each in parameters)
    documentation = textwrap.indent(f'"""{function.__doc__}"""', "    ", lambda line: bool(line.strip()))
    return f"def {function.__name__}(\n{text}) -> {signature.return_annotation}:\n{documentation}\n\n"


def _shown(default: object) -> str:
    """As the formatter writes it."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


if __name__ == "__main__":
    for module in HEADS:
        Path(module.__file__).with_suffix(".pyi").write_text(stub(module), encoding="utf-8")
