"""Ragged segments of a line of numbers, named by offsets as in compressed sparse rows.

Segment i holds the elements from ``offsets[i]`` up to ``offsets[i + 1]``, so
that m segments have m + 1 offsets, from 0 to the number of elements; equal
neighbours make an empty segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import check_in_memory, is_masked, lives_on_gpu
from tcu.formats.tensor import check_data, check_dense, check_memory, is_tensor

__all__ = ["OFFSET_DTYPES", "check_offsets_form", "checked_offsets", "line_of_offsets"]

OFFSET_DTYPES = ("int32", "int64")


def checked_offsets(offsets: Any, n: int, what: str = "elements") -> npt.NDArray[np.int64]:
    """:func:`line_of_offsets`, of segments of ``n`` elements.

    Raises ParameterError, too, for offsets that do not start at 0, do not
    end at ``n`` or decrease, naming the first of these.
    """
    line = line_of_offsets(offsets)
    if line[0] != 0:
        raise ParameterError(f"offsets start at {line[0]}: the first segment starts at 0")
    falling = np.flatnonzero(line[1:] < line[:-1])
    if falling.size:
        i = int(falling[0])
        raise ParameterError(
            f"offsets decrease from {line[i]} to {line[i + 1]} at index {i + 1}: sort them; "
            "equal neighbours make an empty segment"
        )
    if line[-1] != n:
        raise ParameterError(f"offsets end at {line[-1]}, and x has {n} {what}: the last offset is {n}")
    return line


def line_of_offsets(offsets: Any) -> npt.NDArray[np.int64]:
    """Offsets in the host's memory as contiguous int64, whatever they are.

    Of NumPy, a tensor of PyTorch on the CPU, or a sequence of whole numbers;
    int64 that is contiguous already is not copied.  Raises DtypeError for
    anything but int32 and int64, and ShapeError unless it is one line of at
    least one offset.
    """
    if is_masked(offsets):
        raise DtypeError("offsets is a masked array: pass offsets.filled(n), with n where one is missing")
    check_in_memory(offsets, "offsets")
    if lives_on_gpu(offsets):
        raise ParameterError("offsets is on a GPU, x in the host's memory: give both one place")
    if is_tensor(offsets):
        check_dense(offsets, "offsets", "give")
        check_data(offsets, "offsets")
        check_offsets_form(str(offsets.dtype).removeprefix("torch."), tuple(offsets.shape))
        plain = offsets.detach().resolve_neg()
        check_memory(plain, "offsets")
        array = np.asarray(plain.numpy())
    else:
        try:
            array = np.asarray(offsets)
        except (ValueError, TypeError, OverflowError) as error:
            raise DtypeError(
                f"offsets is no line of whole numbers ({error}): use numpy.cumsum of lengths"
            ) from None
        check_offsets_form(array.dtype.name, array.shape)
    return np.ascontiguousarray(array, np.int64)


def check_offsets_form(dtype: str, shape: tuple[int, ...]) -> None:
    """Raises DtypeError or ShapeError for what cannot be offsets, whatever its numbers."""
    if shape == (0,):
        raise ShapeError("offsets is empty: m segments have m + 1 offsets, and no segments the one offset 0")
    if dtype not in OFFSET_DTYPES:
        raise DtypeError(
            f"offsets has dtype {dtype}: give int32 or int64, for example offsets.astype('int64')"
        )
    if len(shape) != 1:
        raise ShapeError(f"offsets has shape {shape}: give one line of them, offsets.reshape(-1)")
