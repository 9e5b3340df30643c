"""What an operation adds up, as pieces of it are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from tcu.model.elements import Elements
from tcu.model.pairs import Pairs
from tcu.ops.operation import Operation

__all__ = ["operands_of", "source_of"]


def source_of(operation: Operation, arrays: Sequence[Any]) -> Elements | Pairs:
    """The elements of one array, the pairs of two, or of one with itself where squares are added up."""
    return Pairs(arrays[0], arrays[-1]) if operation.product else Elements.of(arrays[0])


def operands_of(source: Elements | Pairs) -> tuple[npt.NDArray[Any], ...]:
    """The arrays of it: both of pairs, or one that is multiplied by itself."""
    if isinstance(source, Elements):
        return (source.array,)
    return (source.x.array,) if source.y is source.x else (source.x.array, source.y.array)
