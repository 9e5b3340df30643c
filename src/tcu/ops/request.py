"""An operation with its options, as what a GPU needs for it is kept under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tcu.ops.operation import Operation
from tcu.plan import DEFAULT_VARIANT
from tcu.units import Unit

__all__ = ["Request"]


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
    correction: float = 0.0
    dtype: npt.DTypeLike | Any = None
    _types: tuple[type, ...] = field(init=False, repr=False)
    """Of the numbers: 64.0 and True equal whole numbers that are right, and are refused."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_types", (type(self.chain), type(self.block), type(self.fraction)))

    @staticmethod
    def of(operation: Operation, options: tuple[Any, ...]) -> Request:
        """With the options of that operation, in the order in which they travel."""
        return Request(operation, **dict(zip(operation.options, options, strict=True)))
