"""Which operation is served on which layout through which surface: the table of the documentation."""

from __future__ import annotations

from typing import Literal, get_args

from tcu.ops import OPERATIONS, Operation
from tcu.ops.layout import LABELS, Along, Layout, Ragged, Whole

__all__ = ["Surface", "is_served", "table"]

Surface = Literal["NumPy", "PyTorch", "GPU", "Dask", "ranks", "files", "command line"]


def is_served(operation: Operation, layout: type[Layout], surface: Surface) -> bool:
    """Whether a call gives a result; else it is refused in words."""
    if layout not in operation.layouts:
        return False
    if not operation.in_parts and surface not in ("NumPy", "PyTorch", "GPU", "ranks"):
        return False
    if surface == "ranks" and not operation.over_ranks:
        return False
    if surface == "GPU":
        return layout in operation.on_gpu
    if surface in ("Dask", "ranks"):  # segments may begin in one chunk or shard and end in another
        return layout is not Ragged
    if surface == "files":  # all numbers, as one line
        return layout is (Along if operation.kind == "scan" else Whole)
    if surface == "command line":  # whose files count as one array
        return layout is not Ragged and len(operation.operands) == 1
    return True


def table() -> str:
    """In Markdown: a row for each operation, a column for each surface."""
    surfaces = get_args(Surface)
    lines = [f"| operation | {' | '.join(surfaces)} |", "| --- " * (len(surfaces) + 1) + "|"]
    for operation in OPERATIONS.values():
        cells = []
        for surface in surfaces:
            found = [
                LABELS[layout] for layout in (Whole, Along, Ragged) if is_served(operation, layout, surface)
            ]
            cells.append(", ".join(found) or "–")
        lines.append(f"| `{operation.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)
