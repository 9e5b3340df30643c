"""The floors of the common exponent that a search tries, and in which order."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.units.arithmetic import AlignedSum
from tcu.units.catalogue import CATALOGUE

__all__ = ["floors"]

_SLACK = 30
"""Places below the smallest product of normal numbers to which a floor may lie and still be met, or nearly."""


def floors(a: Format, b: Format, output: Format, scale: Format | None = None) -> list[int | None]:
    """Those of the catalogue's units, the newest first; none; then every one that products of the formats reach."""
    known = [
        row.arithmetic.exponent_floor
        for unit in reversed(CATALOGUE.values())
        for row in unit.instructions
        if isinstance(row.arithmetic, AlignedSum) and row.output == output.name
    ]
    lowest = a.emin + b.emin - _SLACK + (0 if scale is None else 2 * scale.emin)
    return list(dict.fromkeys([*known, None, *range(0, max(lowest, -300), -1)]))
