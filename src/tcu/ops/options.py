"""The options of operations, each written down once: its default, PyTorch's type, and what is checked at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.plan import DEFAULT_VARIANT

__all__ = [
    "OF_AN_EXACT_SCAN", "OF_AN_EXACT_VARIANCE", "OF_A_NORM", "OF_A_PLANNED_SUM", "OF_EXPONENTIALS", "OF_A_PRODUCT", "OF_A_SCAN", "OF_A_VARIANCE", "OPTIONS", "Option",
    "defaults",
]  # fmt: skip


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


def _real(name: str, given: Any) -> float:
    if isinstance(given, bool | np.bool_) or not isinstance(given, Real) or not math.isfinite(given):
        raise ParameterError(f"{name}={given!r}: give a finite number, such as 1")
    return float(given)


def _eps(name: str, given: Any) -> float | None:
    if given is None:
        return None
    number = _real(name, given)
    if number < 0:
        raise ParameterError(f"{name}={given!r}: give a number from 0 up, such as 1e-6")
    return number


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("unit", None, "str | Unit | None", "str? unit=None"),
        Option("variant", DEFAULT_VARIANT, "str", f"str variant='{DEFAULT_VARIANT}'"),
        Option("chain", None, "int | None", "int? chain=None"),
        Option("block", None, "int | None", "int? block=None"),
        Option("accumulator", None, "str | None", "str? accumulator=None"),
        Option("fraction", None, "float | None", "float? fraction=None"),
        Option("correction", 0.0, "float", "float correction=0", _real),
        Option("eps", None, "float | None", "float? eps=None", _eps),
        Option("exclusive", False, "bool", "bool exclusive=False", _truth),
        Option("reverse", False, "bool", "bool reverse=False", _truth),
        Option("dtype", None, "npt.DTypeLike | Any", "ScalarType? dtype=None"),
    )
}

OF_A_PLANNED_SUM = ("unit", "variant", "chain", "block", "accumulator", "fraction", "dtype")
OF_A_PRODUCT = ("block", "dtype")
OF_A_VARIANCE = ("correction", "block", "dtype")
OF_AN_EXACT_VARIANCE = ("correction", "dtype")
OF_A_SCAN = ("exclusive", "reverse", "unit", "variant", "chain", "accumulator", "dtype")
OF_AN_EXACT_SCAN = ("exclusive", "reverse", "dtype")
OF_EXPONENTIALS = ("dtype",)
OF_A_NORM = ("eps", "dtype")


def defaults(names: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of options that a call leaves out."""
    return tuple(OPTIONS[name].default for name in names)
