"""Sums by index of arrays in one memory.

An exact sum has no order, so neither the order of the indices nor that of a sort has a say.  In the host's
memory a sort of the indices brings the numbers together, and each slot is a segment (:func:`tcu.segment_fsum`).  On a GPU
numbers are added to their slots by additions of integers (:mod:`tcu.gpu.slot_sums`), or counters or a sort bring together
what a slot gets (:mod:`tcu.gpu.index_sums`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError, SumTooLargeError
from tcu.formats.array import whole_number
from tcu.formats.format import dtype_of, format_of
from tcu.formats.tensor import is_tensor
from tcu.model.elements import summable
from tcu.ops.layout import axis_number
from tcu.ops.result import check_dtype, check_out, put, result_format
from tcu.surfaces import functions, one_library
from tcu.surfaces.call import put_tensor, tensors
from tcu.surfaces.one_library import as_array, dtype_name, ieee_of_arrays, moved

__all__ = [
    "by_index",
    "check_index",
    "check_initial",
    "check_keys",
    "check_weights",
    "checked_places",
    "is_integer",
    "library_of",
    "no_value",
    "products",
    "rounded_to",
    "too_large",
    "whole_size",
]

_TOGETHER = 1 << 24
"""Numbers that are copied at a time, in whole columns; or slots, where there are more of these."""
_MOST_PLACES = (1 << 31) - 1
"""Of an index, and of slots, that kernels number."""
_EXACT_PRODUCTS = ("float16", "bfloat16", "float32")
"""Formats whose products of two binary64 holds."""


@ieee_of_arrays
def by_index(
    mean: bool, x: Any, index: Any, size: int, axis: int = 0, weights: Any = None, initial: Any = None,
    dtype: Any = None, out: Any = None, check: bool = True,
) -> Any:  # fmt: skip
    """``tcu.index_sum``, or ``tcu.index_mean``."""
    library = library_of(x, index)
    x, index = as_array(x, "x"), as_array(index, "index")
    axis = axis_number(axis, x.ndim)
    count = whole_size(size)
    check_index(index, x.shape[axis])
    kernels = library is not np and x.is_cuda and not is_integer(x) and max(count, *x.shape) <= _MOST_PLACES
    if kernels:
        places = index if dtype_name(index) in ("int32", "int64") else _cast(index, "int64")
        if check:
            _refuse_capture(index)
    else:
        places = checked_places(index, count, check)
    if out is not None and dtype is None:
        dtype = out.dtype
    if weights is not None or initial is not None:
        dtype = rounded_to(x, dtype)
    function: Callable[..., Any] = functions.segment_fmean if mean else functions.segment_fsum
    factors = None
    rows = moved(x, axis, 0)
    wide = () if weights is None or kernels else (dtype_name(x), dtype_name(as_array(weights, "weights")))
    if "float64" in wide:
        function = functions.segment_fdot
        rows, factors = _factors(x, weights, axis, wide=True)
        factors = library.broadcast_to(factors, tuple(rows.shape))
    elif weights is not None:
        rows = products(x, weights, axis)
    if initial is not None:
        rows, places = _with(library, rows, places, initial, axis, count)
        if factors is not None:
            factors = library.concatenate((factors, library.ones_like(rows[len(factors) :])))
    if kernels:
        sums = _sums_on_gpu(mean, rows, places, count, check, dtype)
    else:
        tables = (rows,) if factors is None else (rows, factors)
        sums = _sums(function, library, tables, places, count, check, dtype)
    return _placed(sums, axis, out)


def _sums_on_gpu(mean: bool, rows: Any, index: Any, size: int, check: bool, dtype: Any) -> Any:
    """What :func:`_sums` gives, without a sort."""
    n, shape = rows.shape[0], tuple(rows.shape[1:])
    sums, wrong = tensors().sum_by_index(rows.reshape(n, math.prod(shape)), index, size, mean, dtype)
    if check and (found := int(wrong)):
        refuse_place(index, n - found, size)
    return sums.reshape(size, *shape)


def library_of(x: Any, index: Any, what: str = "index") -> Any:
    """numpy or torch, whose arrays both are.  Raises ParameterError."""
    library = one_library.library_of(
        {"x": x, what: index},
        f"x and {what} take two arrays in the host's memory, or two tensors: make both tensors, with torch.from_dlpack",
    )
    if library is not np and x.device != index.device:
        raise ParameterError(f"x is on {x.device}, {what} on {index.device}: move both to one device")
    return library


def whole_size(size: Any) -> int:
    number = whole_number(size)
    if number is None or not 0 <= number < 1 << 63:
        raise ParameterError(f"size={size!r}: give the number of slots, from 0 to 2^63 - 1")
    return number


def is_integer(x: Any) -> bool:
    return dtype_name(x).startswith(("int", "uint", "bool"))


def check_index(index: Any, length: int) -> None:
    """Raises DtypeError or ShapeError for what cannot be an index."""
    if not is_integer(index) or dtype_name(index) == "bool":
        raise DtypeError(f"index has dtype {dtype_name(index)}: give whole numbers, the places of the slots")
    if tuple(index.shape) != (length,):
        raise ShapeError(f"index has shape {tuple(index.shape)}: give one slot for each of {length} places")


def check_keys(keys: Any, length: int) -> None:
    """Raises ShapeError for what cannot be the keys of as many places."""
    if keys.ndim != 1:
        raise ShapeError(f"keys have shape {tuple(keys.shape)}: give one line of them, keys.reshape(-1)")
    if keys.shape[0] != length:
        raise ShapeError(f"keys have shape {tuple(keys.shape)}: give one for each of {length} places")


def refuse_place(index: Any, position: int, size: int, negative: bool = True, first: int = 0) -> None:
    """Raises ParameterError for what is out of range there, in the part of an index that begins at ``first``."""
    also = f", or -{size} to -1 from the end" if negative and size else ""
    slots = f"0 to {size - 1}{also}" if size else "none" if negative else "counted from 0"
    raise ParameterError(f"index[{first + position}] is {int(index[position])}, and the slots are {slots}")


def checked_places(index: Any, size: int, check: bool, *, negative: bool = True, first: int = 0) -> Any:
    """The slots from 0 as int64; without a check, ``size`` for what is out of range.  Raises ParameterError."""
    library: Any = sys.modules["torch"] if is_tensor(index) else np
    least = -size if negative else 0
    fits = (index >= least) & (index < size)
    if check:
        _refuse_capture(index)
        if not bool(fits.all()):
            refuse_place(index, int(library.nonzero(~fits)[0][0]), size, negative, first)
    places = _cast(library.where(fits, index, 0), "int64")
    places = library.where(places < 0, places + size, places)
    return places if check else library.where(fits, places, size)


def _refuse_capture(index: Any) -> None:
    if is_tensor(index) and index.is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing():
        raise ParameterError(
            "while a graph is captured, an index cannot be looked at: check it before, and pass check=False"
        )


def _cast(x: Any, dtype: str) -> Any:
    return x.to(getattr(sys.modules["torch"], dtype)) if is_tensor(x) else x.astype(dtype)


def rounded_to(x: Any, dtype: Any) -> Any:
    """The result's dtype: that of the sum of x alone."""
    if dtype is not None or is_integer(x):
        return dtype
    return result_format(summable(dtype_of(dtype_name(x)), "x", "sum"), None).dtype.name


def check_weights(x: Any, weights: Any, axis: int, wide: bool = False) -> None:
    """Raises DtypeError or ShapeError for what cannot be weights of x; ``wide``: binary64 need not hold the products."""
    for name, each in (("x", x), ("weights", weights)):
        if dtype_name(each) not in _EXACT_PRODUCTS and not (wide and dtype_name(each) == "float64"):
            where = " outside of one array in the host's memory" if dtype_name(each) == "float64" else ""
            formats = "float16, bfloat16, float32 or float64" if wide else "float16, bfloat16 or float32"
            raise DtypeError(
                f"{name} has dtype {dtype_name(each)}, of which there are no weighted sums{where}: give {formats}, or leave weights out"
            )
    if tuple(weights.shape) not in ((x.shape[axis],), tuple(x.shape)):
        raise ShapeError(
            f"weights have shape {tuple(weights.shape)}: give one for each of {x.shape[axis]} places, or x's shape"
        )


def products(x: Any, weights: Any, axis: int) -> Any:
    """x times its weights in binary64, which holds them, with the index's axis in front."""
    rows, factors = _factors(x, weights, axis, wide=False)
    with np.errstate(invalid="ignore"):  # 0 times inf
        return rows * factors


def _factors(x: Any, weights: Any, axis: int, wide: bool) -> tuple[Any, Any]:
    """(x, its weights) in binary64, with the index's axis in front."""
    if is_tensor(x) != is_tensor(weights):
        raise ParameterError("weights are of another library than x: give both arrays of one")
    weights = as_array(weights, "weights")
    check_weights(x, weights, axis, wide)
    rows = moved(x, axis, 0)
    if weights.ndim == x.ndim:
        factors = moved(weights, axis, 0)
    else:
        factors = weights.reshape(-1, *(1,) * (x.ndim - 1))
    return _cast(rows, "float64"), _cast(factors, "float64")


def check_initial(x: Any, initial: Any, shape: tuple[int, ...], axis: int) -> None:
    """Raises DtypeError or ShapeError for what cannot be added to a result of that shape."""
    if is_integer(x) != is_integer(initial):
        raise DtypeError(
            f"initial has dtype {dtype_name(initial)} and x {dtype_name(x)}: give both integers, or neither"
        )
    if tuple(initial.shape) != shape:
        raise ShapeError(
            f"initial has shape {tuple(initial.shape)}: give the result's, with {shape[axis]} along axis {axis}"
        )


def _with(library: Any, rows: Any, places: Any, initial: Any, axis: int, size: int) -> tuple[Any, Any]:
    """The numbers and their places, with one more for each slot, in a format that holds both kinds."""
    if is_tensor(rows) != is_tensor(initial):
        raise ParameterError("initial is of another library than x: give both arrays of one")
    initial = as_array(initial, "initial")
    first, second = dtype_name(rows), dtype_name(initial)
    shape = tuple(rows.shape[1:])
    check_initial(rows, initial, (*shape[:axis], size, *shape[axis:]), axis)
    given = moved(initial, axis, 0)
    if first != second:
        wide = "int64" if is_integer(rows) else "float64" if "float64" in (first, second) else "float32"
        rows, given = _cast(rows, wide), _cast(given, wide)
    return library.concatenate((rows, given)), library.concatenate(
        (places, _cast(_counted(size, places), dtype_name(places)))
    )


def _sums(
    function: Callable[..., Any], library: Any, operands: Sequence[Any], places: Any, size: int, check: bool, dtype: Any
) -> Any:  # fmt: skip
    """The slots of all columns: those of (n, ...) rows, or of two operands' products, come to (size, ...)."""
    n, shape = operands[0].shape[0], tuple(operands[0].shape[1:])
    columns = math.prod(shape)
    tables = [rows.reshape(n, columns) for rows in operands]
    # On a GPU and in a graph, what counts nowhere has a slot of its own: to leave it out is to wait for its number.
    waiting = not check and library is not np and (places.is_cuda or library.compiler.is_compiling())
    slots = size + waiting
    order, edges = _sorted(library, places, slots)
    if not check and not waiting:
        order = order[: int(edges[-1])]
    n = order.shape[0]
    together = max(1, _TOGETHER // max(n, slots, 1))
    found = []
    for first in range(0, max(columns, 1), together):
        width = min(together, columns - first)
        lines = [table[:, first : first + width][order].T.reshape(width * n) for table in tables]
        starts = n * _counted(width, places).reshape(-1, 1) + edges[:-1]
        offsets = library.concatenate((starts.reshape(-1), edges[-1:] + (width - 1) * n))
        try:
            sums = function(*lines, offsets, dtype=dtype, check=False)
        except SumTooLargeError as error:
            total, kind, _, place = error.args
            slot = place % slots
            raise SumTooLargeError(total, kind, f" of slot {slot}", slot) from None
        except InvalidOperationError:
            raise _clash(library, lines, offsets, slots) from None
        found.append(sums.reshape(width, slots)[:, :size])
    columns_of_slots = found[0] if len(found) == 1 else library.concatenate(found)
    return columns_of_slots.T.reshape(size, *shape)


def _sorted(library: Any, places: Any, slots: int) -> tuple[Any, Any]:
    """(the order that brings slots together, where each begins, and the end of the last)"""
    if library is np:
        order = np.argsort(places)
        ordered = places[order]
    else:
        ordered, order = library.sort(places)
    return order, library.searchsorted(ordered, _counted(slots + 1, places))


def _counted(count: int, like: Any) -> Any:
    """0, 1, 2 and so on, where ``like`` is."""
    return sys.modules["torch"].arange(count, device=like.device) if is_tensor(like) else np.arange(count)


def _clash(library: Any, lines: Sequence[Any], offsets: Any, slots: int) -> InvalidOperationError:
    """Names the first slot, of numbers in the host's memory, that gets both infinities and no NaN."""
    ends = np.asarray(offsets)
    values = [np.asarray(_cast(line.detach() if library is not np else line, "float64")) for line in lines]
    with np.errstate(all="ignore"):
        found = math.prod(np.where(np.isfinite(each), np.sign(each), each) for each in values)
    up, down, nan = (
        np.diff(np.concatenate(([0], np.cumsum(each)))[ends])
        for each in (np.isposinf(found), np.isneginf(found), np.isnan(found))
    )
    return no_value(int(np.flatnonzero((up > 0) & (down > 0) & (nan == 0))[0]) % slots)


def no_value(slot: int) -> InvalidOperationError:
    return InvalidOperationError(
        f"slot {slot} gets inf and -inf, so its sum has no value: find them with numpy.isinf and remove them"
    )


def too_large(slot: int) -> InvalidOperationError:
    return InvalidOperationError(
        f"slot {slot} gets integers whose sum 64 bits do not hold: give them as float64, of which the sum is rounded once"
    )


def _placed(result: Any, axis: int, out: Any) -> Any:
    """The result with the slots' axis where the index's was, in ``out`` if there is one."""
    result = moved(result, 0, axis)
    if out is None:
        return result.contiguous() if is_tensor(result) else np.ascontiguousarray(result)
    if is_tensor(result):
        return put_tensor[0](result, out)
    check_out(out, result.shape)
    check_dtype(out, result.dtype if is_integer(result) else format_of(result.dtype))
    return put(result, out)
