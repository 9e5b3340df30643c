"""What a caller asks of a reduction, whoever executes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsIndex

import numpy.typing as npt

from tcu.plan import DEFAULT_VARIANT
from tcu.units import Unit

__all__ = ["Axes", "OF_TWO", "OPTIONS", "Operation", "Request"]

Axes = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, several, or all."""

Operation = Literal["sum", "mean", "dot", "norm", "fsum", "fmean", "fdot", "fnorm"]

_OF_A_SUM = ("unit", "variant", "chain", "block", "accumulator", "fraction", "dtype")

OPTIONS: dict[Operation, tuple[str, ...]] = {
    "sum": _OF_A_SUM, "mean": _OF_A_SUM, "dot": ("block", "dtype"), "norm": ("block", "dtype"),
    "fsum": ("dtype",), "fmean": ("dtype",), "fdot": ("dtype",), "fnorm": ("dtype",),
}  # fmt: skip
"""The options of each operation, in the order in which they travel; ``dtype`` is the last."""
OF_TWO: tuple[Operation, ...] = ("dot", "fdot")
"""The operations that take x and y."""


@dataclass(frozen=True)
class Request:
    """An operation with its options, as :func:`tcu.sum` explains them."""

    operation: Operation
    unit: str | Unit | None = None
    variant: str = DEFAULT_VARIANT
    chain: int | None = None
    block: int | None = None
    accumulator: str | None = None
    fraction: float | None = None
    dtype: npt.DTypeLike | Any = None
    _types: tuple[type, ...] = field(init=False, repr=False)
    """Of the numbers: 64.0 and True equal whole numbers that are right, and are refused."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_types", (type(self.chain), type(self.block), type(self.fraction)))

    @staticmethod
    def of(operation: Operation, options: tuple[Any, ...]) -> Request:
        """With the options of that operation, in the order of OPTIONS."""
        return Request(operation, **dict(zip(OPTIONS[operation], options, strict=True)))
