"""Which operation is served on which layout through which surface: the table of the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from tcu.ops import OPERATIONS, Operation
from tcu.ops.layout import LABELS, Along, Layout, Ragged, Whole

__all__ = ["BY_INDEX", "Surface", "is_served", "table", "table_by_index"]

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


_IN_MEMORY: tuple[Surface, ...] = ("NumPy", "PyTorch", "GPU", "Dask", "ranks")


def _by_index(rows: str, *also: Surface) -> dict[Surface, str]:
    """What is served of rows along an axis, and elsewhere of numbers alone."""
    return {each: rows + (" of tensors" if each == "GPU" else "") for each in _IN_MEMORY} | dict.fromkeys(
        also, "numbers"
    )


BY_INDEX: dict[str, dict[Surface, str]] = {
    "index_sum": _by_index("any axis", "files"),
    "index_mean": _by_index("any axis", "files"),
    "bincount": _by_index("numbers", "files"),
    "histogram": _by_index("numbers", "files"),
    "reduce_by_key": _by_index("any axis", "files"),
    "embedding_gradient": _by_index("rows"),
}
"""By function of sums by index and by surface, what is served there."""


def table() -> str:
    """In Markdown: a row for each operation, a column for each surface."""

    def cell(operation: Operation, surface: Surface) -> str:
        layouts: tuple[type[Layout], ...] = (Whole, Along, Ragged)
        return ", ".join(LABELS[layout] for layout in layouts if is_served(operation, layout, surface))

    return _table(
        "operation",
        ((each.name, [cell(each, surface) for surface in get_args(Surface)]) for each in OPERATIONS.values()),
    )


def table_by_index() -> str:
    """The same of sums by index."""
    return _table(
        "function",
        ((name, [row.get(surface, "") for surface in get_args(Surface)]) for name, row in BY_INDEX.items()),
    )


def _table(what: str, rows: Iterable[tuple[str, list[str]]]) -> str:
    surfaces = get_args(Surface)
    lines = [f"| {what} | {' | '.join(surfaces)} |", "| --- " * (len(surfaces) + 1) + "|"]
    lines += [f"| `{name}` | {' | '.join(cell or '–' for cell in cells)} |" for name, cells in rows]
    return "\n".join(lines)
