"""The options of operations, each written down once: its default, PyTorch's type, and what is checked at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.plan import DEFAULT_VARIANT

__all__ = ["OF_A_PLANNED_SUM", "OF_A_PRODUCT", "OF_A_SCAN", "OPTIONS", "Option", "defaults"]


@dataclass(frozen=True)
class Option:
    """One option, of whatever operations have it."""

    name: str
    default: Any
    annotation: str
    """As a signature shows it."""
    schema: str
    """As the schema of a PyTorch operator has it."""
    check: Callable[[str, Any], Any] | None = None
    """What must be right whoever executes the operation; else the plan looks at it."""


def _truth(name: str, given: Any) -> bool:
    if not isinstance(given, bool | np.bool_ | int):
        raise ParameterError(f"{name}={given!r}: give True or False")
    return bool(given)


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("unit", None, "str | Unit | None", "str? unit=None"),
        Option("variant", DEFAULT_VARIANT, "str", f"str variant='{DEFAULT_VARIANT}'"),
        Option("chain", None, "int | None", "int? chain=None"),
        Option("block", None, "int | None", "int? block=None"),
        Option("accumulator", None, "str | None", "str? accumulator=None"),
        Option("fraction", None, "float | None", "float? fraction=None"),
        Option("exclusive", False, "bool", "bool exclusive=False", _truth),
        Option("reverse", False, "bool", "bool reverse=False", _truth),
        Option("dtype", None, "npt.DTypeLike | Any", "ScalarType? dtype=None"),
    )
}

OF_A_PLANNED_SUM = ("unit", "variant", "chain", "block", "accumulator", "fraction", "dtype")
OF_A_PRODUCT = ("block", "dtype")
OF_A_SCAN = ("exclusive", "reverse", "dtype")


def defaults(names: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of options that a call leaves out."""
    return tuple(OPTIONS[name].default for name in names)
