"""The text of functions.pyi, which tells type checkers and editors the signatures of :mod:`tcu.surfaces.functions`.

``python -m tcu.surfaces.stub`` writes it anew; a test compares the two.
"""

from __future__ import annotations

import inspect
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
    """One line for each parameter."""
    return _HEAD + "".join(_function(name) for name in FUNCTIONS)


def _function(name: str) -> str:
    parameters, starred = [], False
    for each in inspect.signature(FUNCTIONS[name]).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        default = "" if each.default is each.empty else " = ..."
        parameters.append(f"{each.name}: {each.annotation}{default}")
    text = "".join(f"    {each},\n" for each in parameters)
    return f"def {name}(\n{text}) -> Any: ...\n"


if __name__ == "__main__":
    Path(__file__).with_name("functions.pyi").write_text(stub(), encoding="utf-8")
