"""The format of a result, its one rounding, and where it goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError
from tcu.formats.format import Format, format_of, get_format, named_format
from tcu.formats.scalar import Number, encode
from tcu.model.elements import SUMMABLE

__all__ = [
    "check_apart",
    "check_dtype",
    "check_out",
    "map_dtype",
    "put",
    "result_format",
    "round_number",
    "round_sum",
    "rounding_target",
    "target_of",
]


def result_format(given: Format, dtype: npt.DTypeLike | None, of_out: npt.DTypeLike | None = None) -> Format:
    """Format of a result: binary32 for 16-bit inputs and the input's own otherwise, unless asked for.

    The dtype of ``out``, if there is one, has a say where ``dtype`` has none.
    """
    if dtype is None:
        dtype = of_out
    if dtype is not None:
        return rounding_target(dtype)
    return get_format("binary32") if given.bits == 16 else given


def map_dtype(dtype: Any, given: Any, out: Any) -> Any:
    """What rows that become rows are rounded to: where nobody says, the dtype that x has."""
    return given if dtype is None and out is None else dtype


def rounding_target(dtype: npt.DTypeLike) -> Format:
    try:
        fmt: Format | None = named_format(dtype)
    except DtypeError:
        fmt = None
    if fmt is None or fmt.name not in SUMMABLE:
        raise DtypeError(f"dtype={dtype!r}: a result is rounded to float16, bfloat16, float32 or float64")
    return fmt


def round_number(number: Number, fmt: Format | None) -> Any:
    """The number rounded once, to nearest, as a NumPy scalar (float64 if None)."""
    fmt = fmt or get_format("binary64")
    return np.array([encode(number, fmt)], fmt.code_dtype).view(fmt.dtype)[0]


def round_sum(value: float, fmt: Format) -> Any:
    """``value`` rounded to nearest as a NumPy scalar; every NaN is the one with all fraction bits set."""
    return round_number(Number("nan", False, (1 << 52) - 1) if value != value else Number.of(value), fmt)


def target_of(
    given: Format, dtype: npt.DTypeLike | None, out: Any, shape: tuple[int, ...] | None = None
) -> Format:
    """The format of the result for elements of a format: one number, or an array of that shape.

    Raises ParameterError for an ``out`` that cannot take it.
    """
    if out is None:
        return result_format(given, dtype)
    check_out(out, shape)
    target = result_format(given, dtype, out.dtype)
    check_dtype(out, target)
    return target


def check_out(out: Any, shape: tuple[int, ...] | None) -> None:
    """Raises ParameterError for an ``out`` that is no array of that shape (None: of one number) to write to."""
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ParameterError("out is read-only: give an array that can be written to")
    if shape is None:
        if not isinstance(out, np.ndarray) or out.size != 1:
            what = (
                f"an array of shape {out.shape}" if isinstance(out, np.ndarray) else f"a {type(out).__name__}"
            )
            raise ParameterError(f"out is {what}: give a 0-d NumPy array, numpy.empty((), dtype)")
    elif not isinstance(out, np.ndarray) or out.shape != shape:
        what = f"has shape {out.shape}" if isinstance(out, np.ndarray) else f"is a {type(out).__name__}"
        raise ParameterError(f"out {what}, the result shape {shape}: give numpy.empty({shape}, dtype)")
    check_apart(out)


def check_dtype(out: Any, target: Format | np.dtype[Any]) -> None:
    """Raises ParameterError unless that is the format, or the dtype of integers, of ``out``."""
    if isinstance(target, Format):
        fits, target = format_of(out.dtype) is target, target.dtype
    else:
        fits = out.dtype == target
    if not fits:
        raise ParameterError(f"out has dtype {out.dtype}, the result {target}: give them the same dtype")


def check_apart(out: Any) -> None:
    """Raises ParameterError for an array whose elements share a place."""
    if 0 not in out.shape and any(
        step == 0 and extent > 1 for step, extent in zip(out.strides, out.shape, strict=True)
    ):
        raise ParameterError("out has several elements in one place: give an array that was not broadcast")


def put(result: npt.NDArray[Any], out: Any) -> Any:
    """``out`` with the result in it, or the result, a scalar where it has no dimensions."""
    if out is None:
        return result[()]
    out[...] = result
    return out
