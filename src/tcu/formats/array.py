"""Decode, encode and round whole arrays, in the integer arithmetic of NumPy.

The same rules as :mod:`tcu.formats.scalar`, for any row of the table and for
rows of the user's own.  Values travel as float64, which holds every number of
every format here exactly.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError
from tcu.formats.format import Format, get_format
from tcu.formats.scalar import OVERFLOWS, ROUNDINGS, Overflow, Rounding

__all__ = [
    "check_in_memory",
    "check_unmasked",
    "checked_seed",
    "decode_array",
    "encode_array",
    "holds_integers",
    "in_host_memory",
    "is_dask",
    "is_masked",
    "numpy_array",
    "round_array",
    "whole_number",
]

_F64 = get_format("binary64")


def decode_array(codes: npt.ArrayLike, fmt: str | Format) -> npt.NDArray[np.float64]:
    """The values of an array of integer codes, as float64 of the same shape.

    A NaN keeps its sign and payload and is quiet.  Raises DtypeError unless
    ``codes`` are integers, ParameterError if one does not fit the format.
    """
    fmt = get_format(fmt)
    given = np.asarray(codes)
    if given.dtype.kind not in "iu":
        raise DtypeError(f"codes must be integers, not {given.dtype}: use x.view('u{fmt.dtype.itemsize}')")
    if given.size and (int(given.min()) < 0 or int(given.max()) >= 1 << fmt.bits):
        raise ParameterError(f"a code does not fit the {fmt.bits} bits of {fmt.name}: mask it first")
    code = given.astype(np.uint64)
    if not fmt.is_float:
        value = code.astype(np.int64)
        if fmt.signed:
            value = np.where(value >= fmt.sign_code, value - (1 << fmt.bits), value)
        return np.asarray(value.astype(np.float64))
    sign = (code & np.uint64(fmt.sign_code) != 0).astype(np.uint64)
    magnitude = code & np.uint64(fmt.magnitude_codes - 1)
    field = (magnitude >> np.uint64(fmt.fraction_bits)).astype(np.int64)
    fraction = magnitude & np.uint64((1 << fmt.fraction_bits) - 1)
    special = magnitude > np.uint64(fmt.max_finite_code)
    if fmt.specials == "negative zero":
        special = code == np.uint64(fmt.nan_code)
    least = fmt.least_field
    significand = np.where(field >= least, fraction | np.uint64(1 << fmt.fraction_bits), fraction)
    significand = np.where(special, np.uint64(0), significand)
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, least) - fmt.bias - fmt.fraction_bits)
    bits = value.view(np.uint64)
    infinite = special & (fraction == 0) & fmt.has_infinity
    nan = np.uint64(_F64.infinity_code | 1 << 51) | fraction << np.uint64(52 - fmt.fraction_bits)
    bits = np.where(special, np.where(infinite, np.uint64(_F64.infinity_code), nan), bits)
    return np.asarray((bits | sign << np.uint64(63)).view(np.float64))


def encode_array(
    values: npt.ArrayLike,
    fmt: str | Format,
    rounding: Rounding = "RNE",
    overflow: Overflow = "infinity",
) -> npt.NDArray[Any]:
    """The codes of float64 values rounded once to ``fmt``; unsigned integers of the storage width.

    NaN, zero, inf and overflow as :func:`tcu.formats.encode`.
    """
    fmt = get_format(fmt)
    if rounding not in ROUNDINGS:
        raise ParameterError(f"rounding {rounding!r}: choose one of {', '.join(ROUNDINGS)}")
    if overflow not in OVERFLOWS:
        raise ParameterError(f"overflow {overflow!r}: choose one of {', '.join(OVERFLOWS)}")
    value = np.asarray(values, dtype=np.float64)
    if not fmt.is_float:
        return _encode_integers(value, fmt, rounding)
    bits = value.view(np.uint64)
    negative = np.signbit(value)
    finite = np.isfinite(value)
    mantissa, above = np.frexp(np.where(finite, np.abs(value), 0.0))
    significand = np.ldexp(mantissa, 53).astype(np.uint64)  # leading bit at 2^52
    leading = above.astype(np.int64) - 1
    exponent = np.maximum(leading, fmt.emin)
    # Beyond 54 places only "something is left" matters to the rounding.
    shift = np.clip(exponent - fmt.fraction_bits - (leading - 52), 0, 55).astype(np.uint64)
    rounded = _round_shift(significand, shift, rounding, negative)
    code = ((exponent - fmt.emin).astype(np.uint64) << np.uint64(fmt.fraction_bits)) + rounded
    if not fmt.has_zero:
        code = np.maximum(code, np.uint64(1 << fmt.fraction_bits)) - np.uint64(1 << fmt.fraction_bits)
    overflowed = fmt.max_finite_code
    if overflow == "infinity" and fmt.has_nan:
        overflowed = fmt.infinity_code if fmt.has_infinity else fmt.nan_code
    code = np.where(significand == 0, np.uint64(0), code)
    code = np.where((code > np.uint64(fmt.max_finite_code)) | np.isinf(value), np.uint64(overflowed), code)
    if fmt.has_infinity:
        payload = (bits & np.uint64((1 << 52) - 1)) >> np.uint64(52 - fmt.fraction_bits)
        nan = payload | np.uint64(fmt.infinity_code | 1 << (fmt.fraction_bits - 1))
    elif fmt.has_nan:
        nan = np.full_like(bits, fmt.nan_code)
    elif np.isnan(value).any():
        raise ParameterError(f"{fmt.name} has no NaN: remove it, or use a format that has one")
    else:
        nan = code
    code = np.where(np.isnan(value), nan, code)
    sign = negative.astype(np.uint64) * np.uint64(fmt.sign_code)
    if fmt.specials == "negative zero":
        sign = np.where(code == 0, np.uint64(0), sign)
    if not fmt.signed:
        lacking = np.where(finite & (significand == 0), not fmt.has_zero, negative)
        code = np.where(lacking, np.uint64(fmt.nan_code), code)
    code = code | sign
    return np.asarray(code.astype(fmt.code_dtype))


def _round_shift(
    magnitude: npt.NDArray[np.uint64],
    shift: npt.NDArray[np.uint64],
    rounding: Rounding,
    negative: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint64]:
    one = np.uint64(1)
    quotient = magnitude >> shift
    remainder = magnitude & ((one << shift) - one)
    half = np.where(shift > 0, one << (np.maximum(shift, one) - one), np.uint64(2**63))
    if rounding == "RNE":
        up = (remainder > half) | ((remainder == half) & (quotient & one == one))
    elif rounding == "RZ":
        up = np.zeros(np.shape(magnitude), dtype=bool)
    elif rounding == "RO":
        up = (remainder > 0) & (quotient & one == 0)
    else:
        up = (remainder > 0) & (negative == (rounding == "RD"))
    return np.asarray(quotient + up.astype(np.uint64))


def _encode_integers(value: npt.NDArray[np.float64], fmt: Format, rounding: Rounding) -> npt.NDArray[Any]:
    if not np.all(np.isfinite(value)):
        raise ParameterError(f"{fmt.name} has no inf or NaN: remove them, or use a floating-point format")
    ways: dict[Rounding, Any] = {"RNE": np.rint, "RZ": np.trunc, "RU": np.ceil, "RD": np.floor, "RO": _to_odd}
    whole = ways[rounding](value)
    lowest = -float(1 << fmt.fraction_bits) if fmt.signed else 0.0
    clipped = np.clip(whole, lowest, float(fmt.max_finite_code)).astype(np.int64)
    return np.asarray(clipped.astype(fmt.code_dtype))


def _to_odd(value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    below = np.floor(value)
    return np.where((below != value) & (below % 2 == 0), below + 1, below)


def round_array(
    values: npt.ArrayLike,
    fmt: str | Format,
    rounding: Rounding = "RNE",
    overflow: Overflow = "infinity",
) -> npt.NDArray[np.float64]:
    """float64 values rounded once to ``fmt``, as float64."""
    fmt = get_format(fmt)
    codes = encode_array(values, fmt, rounding, overflow)
    return decode_array(codes & np.array((1 << fmt.bits) - 1, codes.dtype), fmt)


def lives_on_gpu(x: Any) -> bool:
    """Whether an array of any library is in a GPU's memory; loads nothing."""
    if type(x).__module__ == "numpy":
        return False
    if hasattr(x, "is_cuda"):  # a PyTorch tensor may be on the host
        return bool(x.is_cuda)
    if hasattr(x, "__cuda_array_interface__"):
        return True
    device = getattr(x, "__dlpack_device__", None)
    return device is not None and int(device()[0]) in _DLPACK_CUDA


def in_host_memory(x: Any) -> Any:
    """What an array of any library holds, there: a tensor stays one, anything else becomes NumPy's array."""
    return x.cpu() if hasattr(x, "cpu") else x.get() if hasattr(x, "get") else np.asarray(x)


_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged of dlpack.h."""


def whole_number(given: Any) -> int | None:
    """What was given, if it is a whole number: no truth value, nor an array or a tensor of several."""
    if isinstance(given, bool | np.bool_) or "bool" in str(getattr(given, "dtype", "")):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def checked_seed(seed: Any) -> int | None:
    """The seed as Python's integer; raises ParameterError unless it is a whole number of 0 or more, or None."""
    number = None if seed is None else whole_number(seed)
    if seed is not None and (number is None or number < 0):
        raise ParameterError(f"seed={seed!r}: give a whole number of 0 or more, or None for a fresh one")
    return number


def is_masked(x: object) -> bool:
    """Whether x is a masked array; numpy.ma is only met, for loading it takes 50 ms."""
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(x, ma.MaskedArray)


def check_unmasked(x: object, name: str) -> None:
    """Raises DtypeError for a masked array, of which other functions would read what is masked, too."""
    if is_masked(x):
        raise DtypeError(f"{name} is a masked array: fill it first, with {name}.filled(0)")


def numpy_array(x: Any, name: str) -> npt.NDArray[Any]:
    """What NumPy reads; raises DtypeError for a masked array, for lists of lists of different lengths, and what else is none."""
    check_unmasked(x, name)
    try:
        return np.asarray(x)
    except (ValueError, TypeError) as error:
        raise DtypeError(f"{name} is no array of numbers ({error}): make one with numpy.asarray") from None


def holds_integers(x: Any) -> bool:
    """Whether an array of NumPy, CuPy or Dask, or a list, has integers or truth values."""
    dtype = getattr(x, "dtype", None)
    if dtype is None and isinstance(x, list | tuple | int):
        try:
            dtype = np.asarray(x).dtype
        except (ValueError, TypeError, OverflowError):  # which whoever reads it says
            return False
    return getattr(dtype, "kind", "") in ("i", "u", "b") and not is_masked(x)


def check_in_memory(x: object, name: str) -> None:
    """Raises ParameterError for a Dask array, all of which NumPy would compute at once."""
    if is_dask(x):
        raise ParameterError(
            f"{name} is a Dask array, which this function would compute as a whole: pass {name}.compute() if that fits "
            f"into memory, or parts of it one after another, such as {name}[:1000].compute()"
        )


def is_dask(x: object) -> bool:
    """Whether x is a Dask array; Dask is only met."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(x, dask.Array)
