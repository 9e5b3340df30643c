"""Sizes as people write them: 1000000, 1e6, 2^20."""

from __future__ import annotations

import re

from tcu.errors import ParameterError
from tcu.machine.ledger import LARGEST

__all__ = ["is_whole", "whole"]

_WHOLE = re.compile(r"(\d+(?:_\d+)*)(?:\^(\d+)|e(\d+))?", re.IGNORECASE)


def is_whole(text: str) -> bool:
    """Whether :func:`whole` reads a text."""
    return _WHOLE.fullmatch(text.strip()) is not None


def whole(option: str, text: str) -> int:
    """A number such as "1000", "1_000", "1e3" or "2^10".  Raises ParameterError."""
    match = _WHOLE.fullmatch(text.strip())
    if match is None:
        raise ParameterError(f"{option} {text}: give a whole number, such as 1000000, 1e6 or 2^20")
    base, power, ten = match.groups()
    digits = base.replace("_", "").lstrip("0")
    if len(digits) <= 100 and len(power or ten or "") <= 4:  # beyond that, Python may take long, or refuse
        value = int(digits or 0)
        value = int(value ** int(power)) if power else int(value * 10 ** int(ten)) if ten else value
        if value <= LARGEST:
            return value
    raise ParameterError(f"{option} {text}: give at most 10^60")
