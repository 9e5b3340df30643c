"""Classes that rows are to be predicted to have, of either library."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import is_tensor

__all__ = ["check_classes", "check_target", "classes_of"]


def check_target(x: Any, target: Any, axis: int) -> None:
    """Raises ShapeError or DtypeError."""
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    if tuple(target.shape) != rows:
        raise ShapeError(f"target has shape {tuple(target.shape)}: give one class for each row, {rows}")
    if "int" not in str(target.dtype):
        raise DtypeError(f"target has dtype {target.dtype}: give whole numbers, the classes' places")


def classes_of(target: Any, ignore_index: int) -> Any:
    """The targets in 64 bits with a sign, of all widths alike: in 8 bits -100 is another number."""
    classes = target.long() if is_tensor(target) else target.astype(np.int64)
    if not str(target.dtype).endswith("uint64"):
        return classes
    # From 2^63 on they are negative now, and none of them a class or what is ignored.
    classes[classes < 0] = -2 if ignore_index == -1 else -1
    return classes


def check_classes(target: Any, count: int, ignore_index: int) -> None:
    """Raises ParameterError for a target that counts and is no class."""
    if not bool((((target >= 0) & (target < count)) | (target == ignore_index)).all()):
        raise ParameterError(
            f"a target is none of the {count} classes, from 0, and not ignore_index={ignore_index}"
        )
