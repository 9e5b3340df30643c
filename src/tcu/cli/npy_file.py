"""Whole arrays of .npy files, of any format that NumPy saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DataFileError, ParameterError
from tcu.formats.format import get_format
from tcu.plan import MatmulPlan, Plan

__all__ = ["array_in", "arrays_for"]


def arrays_for(plan: Plan | MatmulPlan, places: Sequence[Path]) -> list[npt.NDArray[Any]]:
    """The arrays of the files that a plan is to take; raises DataFileError, and ParameterError for more than two."""
    if len(places) > 2:
        raise ParameterError(f"{len(places)} arrays: give A.npy, and B.npy where the plan is of products")
    inputs = plan.inputs if isinstance(plan, MatmulPlan) else (plan.input, plan.input)
    return [array_in(place, name) for place, name in zip(places, inputs, strict=False)]


def array_in(place: Path, expected: str) -> npt.NDArray[Any]:
    """The array of a file, mapped into memory: what is not read costs nothing; raises DataFileError.

    Bytes without a name, as which NumPy saves bfloat16 and numbers of 8 bits,
    are bfloat16 by twos, and of the format ``expected`` one by one.
    """
    try:
        found = np.load(place, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):  # whose words advise to load it all the same, unsafely
        raise DataFileError(
            f"cannot read {place} as .npy: it holds no array of numbers that numpy.save wrote"
        ) from None
    except OSError as error:
        raise DataFileError(f"cannot read {place} as .npy: {error}") from None
    if not isinstance(found, np.ndarray):
        raise DataFileError(f"{place} holds several arrays: save one with numpy.save")
    if found.dtype.kind == "V" and found.dtype.names is None and found.dtype.itemsize <= 2:
        fmt = get_format("bfloat16" if found.dtype.itemsize == 2 else expected)
        if fmt.is_float and fmt.dtype.itemsize == found.dtype.itemsize:
            found = found.view(fmt.dtype)
    return found
