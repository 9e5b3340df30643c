"""The options of a call by name: of a sum, with its operation, as what a GPU needs for it is kept under; of a scan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from tcu.errors import ParameterError, unknown_name
from tcu.ops.operation import Operation
from tcu.plan import DEFAULT_SCAN, DEFAULT_VARIANT, SCAN_VARIANTS
from tcu.units import Unit

__all__ = ["Request", "ScanRequest"]


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


class ScanRequest(NamedTuple):
    """The options of a scan in the order in which they travel, as :func:`tcu.cumsum` explains them."""

    exclusive: bool
    reverse: bool
    unit: str | Unit | None
    variant: str
    chain: int | None
    accumulator: str | None
    dtype: Any

    @property
    def way(self) -> dict[str, Any]:
        """What chooses the plan."""
        return {
            "unit": self.unit, "variant": self.variant, "chain": self.chain, "accumulator": self.accumulator,
        }  # fmt: skip

    def check_in_parts(self, what: str) -> None:
        """Raises for what no scan in parts has: the plans with MMAs are those of one array."""
        if not isinstance(self.variant, str) or self.variant not in SCAN_VARIANTS:
            raise unknown_name("variant", self.variant, SCAN_VARIANTS)
        given = [f"{name}={value!r}" for name, value in self.way.items() if value not in (None, DEFAULT_SCAN)]
        if given:
            raise ParameterError(
                f"{', '.join(given)}: running sums of {what} are by binary64 additions alone; leave it out, or give "
                "tcu.cumsum one array in memory"
            )
