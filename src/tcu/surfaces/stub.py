"""The text of functions.pyi: signatures and docstrings of :mod:`tcu.surfaces.functions`.

Type checkers, editors and the documentation read it, as they run no code.

``python -m tcu.surfaces.stub`` writes it anew; a test compares the two.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

from tcu.surfaces.functions import FUNCTIONS

__all__ = ["stub"]

_HEAD = '''"""Written by ``python -m tcu.surfaces.stub``."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from tcu.model.execute import Progress
from tcu.ops.operation import Operation
from tcu.units import Unit

FUNCTIONS: dict[str, Callable[..., Any]]

def function_of(operation: Operation) -> Callable[..., Any]: ...
def segments_of(operation: Operation) -> Callable[..., Any]: ...
'''


def stub() -> str:
    """One line for each parameter, and the docstring."""
    return (_HEAD + "".join(_function(name) for name in FUNCTIONS)).rstrip() + "\n"


def _function(name: str) -> str:
    parameters, starred = [], False
    for each in inspect.signature(FUNCTIONS[name]).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if each.default is each.empty else f" = {_shown(each.default)}"
        parameters.append(f"{each.name}: {each.annotation}{default}")
    text = "".join(f"    {each},\n" for each in parameters)
    documentation = textwrap.indent(
        f'"""{FUNCTIONS[name].__doc__}"""', "    ", lambda line: bool(line.strip())
    )
    return f"def {name}(\n{text}) -> Any:\n{documentation}\n\n"


def _shown(default: object) -> str:
    """As the formatter writes it."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


if __name__ == "__main__":
    Path(__file__).with_name("functions.pyi").write_text(stub(), encoding="utf-8")
