"""The functions of files, one for each operation, made from the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcu.ops import OPERATIONS
from tcu.streams.surface import function_of

__all__: list[str] = []

FUNCTIONS: dict[str, Callable[..., Any]] = {name: function_of(each) for name, each in OPERATIONS.items()}
globals().update(FUNCTIONS)
__all__ += list(FUNCTIONS)
