"""Classes that rows are to be predicted to have, of either library."""

from __future__ import annotations

from typing import Any

from tcu.errors import DtypeError, ParameterError, ShapeError

__all__ = ["check_classes", "check_target"]


def check_target(x: Any, target: Any, axis: int) -> None:
    """Raises ShapeError or DtypeError."""
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    if tuple(target.shape) != rows:
        raise ShapeError(f"target has shape {tuple(target.shape)}: give one class for each row, {rows}")
    if "int" not in str(target.dtype):
        raise DtypeError(f"target has dtype {target.dtype}: give whole numbers, the classes' places")


def check_classes(target: Any, count: int, ignore_index: int) -> None:
    """Raises ParameterError for a target that counts and is no class."""
    if not bool((((target >= 0) & (target < count)) | (target == ignore_index)).all()):
        raise ParameterError(
            f"a target is none of the {count} classes, from 0, and not ignore_index={ignore_index}"
        )
