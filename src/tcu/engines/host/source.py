"""What an operation adds up, as pieces of it are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcu.model.elements import Elements
from tcu.model.pairs import Pairs
from tcu.ops.operation import Operation

__all__ = ["source_of"]


def source_of(operation: Operation, arrays: Sequence[Any]) -> Elements | Pairs:
    """The elements of one array, the pairs of two, or of one with itself where squares are added up."""
    return Pairs(arrays[0], arrays[-1]) if operation.product else Elements.of(arrays[0])
