"""Whole arrays of .npy files, of any format that NumPy saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError
from tcu.formats.format import get_format

__all__ = ["array_in"]


def array_in(place: Path) -> npt.NDArray[Any]:
    """The array of a file, mapped into memory: what is not read costs nothing; raises DataFileError."""
    try:
        found = np.load(place, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataFileError(f"cannot read {place} as .npy: {error}") from None
    if not isinstance(found, np.ndarray):
        raise DataFileError(f"{place} holds several arrays: save one with numpy.save")
    if found.dtype.kind == "V" and found.dtype.itemsize == 2:  # as which NumPy saves bfloat16
        found = found.view(get_format("bfloat16").dtype)
    return found
