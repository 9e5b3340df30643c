"""``tcu.index_sum`` and ``tcu.index_mean``: sums of the numbers that an index sends to each slot, rounded once.

An exact sum has no order, so neither the order of the indices nor that of a sort has a say.  In the host's
memory a sort of the indices brings the numbers together, and each slot is a segment (:func:`tcu.segment_fsum`); on a GPU
counters do (:mod:`tcu.gpu.index_sums`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.formats.array import whole_number
from tcu.formats.format import format_of
from tcu.formats.tensor import is_tensor
from tcu.model.elements import summable
from tcu.ops.layout import axis_number
from tcu.ops.result import check_dtype, check_out, put, result_format
from tcu.surfaces import functions, one_library
from tcu.surfaces.call import put_tensor, tensors
from tcu.surfaces.one_library import as_array

__all__ = [
    "check_index",
    "checked_places",
    "dtype_name",
    "index_mean",
    "index_sum",
    "is_integer",
    "library_of",
    "whole_size",
]

_TOGETHER = 1 << 24
"""Numbers that are copied at a time, in whole columns; or slots, where there are more of these."""
_MOST_PLACES = (1 << 31) - 1
"""Of an index, and of slots, that kernels number."""
_EXACT_PRODUCTS = ("float16", "bfloat16", "float32")
"""Formats whose products of two binary64 holds."""


def index_sum(
    x: Any,
    index: Any,
    size: int,
    *,
    axis: int = 0,
    weights: Any = None,
    initial: Any = None,
    dtype: Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The exact sum of what an index sends to each of ``size`` slots, rounded once.

    Slot j holds the sum of the x[i] with index[i] == j: numbers where x is a line, and else rows, columns or whatever lies
    across ``axis``, added up number by number.  One answer, whatever the order of the indices, on CPUs and GPUs, as
    :func:`fsum` of each slot gives it; a slot that gets nothing is 0.

    Parameters
    ----------
    x:
        Array of NumPy, or a tensor of PyTorch, through which gradients flow: float16, bfloat16, float32 or
        float64, or integers.
    index:
        A line of whole numbers, one for each place along ``axis``; from -size to -1 they count from the last slot.
    size:
        The number of slots.
    axis:
        The axis of x that the index goes along; the result has ``size`` in its place.
    weights:
        A factor for each place along ``axis``, or one for each number of x: exact products are added up.  Not with
        float64, whose products binary64 does not hold, and not with integers.
    initial:
        An array of the result's shape that is added before the rounding, as ``out += ...`` would.
    dtype:
        Format of the result, rounded to it directly, as in :func:`fsum`.
    out:
        An array of the same library and of the result's shape that takes the result; its dtype stands in for
        ``dtype``.
    check:
        False: indices out of range are not looked for, and count nowhere.  On a GPU, looking means waiting.

    Returns
    -------
    An array of x's library, of its shape with ``size`` along ``axis``.  The workspace is in the host's memory a sort of the
    indices and one copy of the numbers, of at most 2^24 or of one column at a time; on a GPU 12 bytes a slot and 8 a
    place, or, from 2^22 places on, 8 bytes a slot and two sorted copies of places or numbers with their slots, and 16 bytes for
    each column of every 128 rows.

    Raises
    ------
    ParameterError, ShapeError, DtypeError:
        An index out of range, by its position; one of another length; arrays of other libraries.
    InvalidOperationError:
        A slot that gets inf and -inf, in the host's memory; on a GPU it is NaN.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1e8, 5, 1, -1e8], np.float32)
    >>> tcu.index_sum(x, np.array([0, 1, 0, 0]), 3)
    array([1., 5., 0.], dtype=float32)
    """
    return _by_index(functions.segment_fsum, x, index, size, axis, weights, initial, dtype, out, check)


def index_mean(
    x: Any, index: Any, size: int, *, axis: int = 0, dtype: Any = None, out: Any = None, check: bool = True
) -> Any:
    """The exact mean of what an index sends to each of ``size`` slots, rounded once; NaN where that is nothing.

    Parameters, results and errors are those of :func:`index_sum`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.index_mean(np.array([1, 5, 2], np.float32), np.array([0, 1, 0]), 3)
    array([1.5, 5. , nan], dtype=float32)
    """
    return _by_index(functions.segment_fmean, x, index, size, axis, None, None, dtype, out, check)


def _by_index(
    function: Callable[..., Any], x: Any, index: Any, size: int, axis: int, weights: Any, initial: Any, dtype: Any,
    out: Any, check: bool,
) -> Any:  # fmt: skip
    """What a function of segments makes of each slot's numbers."""
    library = library_of(x, index)
    x, index = as_array(x), as_array(index)
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
        dtype = _rounded_to(x, dtype)
    rows = _moved(x, axis, 0) if weights is None else _products(x, weights, axis)
    if initial is not None:
        rows, places = _with(library, rows, places, initial, axis, count)
    if kernels:
        sums = _sums_on_gpu(function is functions.segment_fmean, rows, places, count, check, dtype)
    else:
        sums = _sums(function, library, rows, places, count, check, dtype)
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


def _moved(x: Any, source: int, place: int) -> Any:
    return x.movedim(source, place) if is_tensor(x) else np.moveaxis(x, source, place)


def whole_size(size: Any) -> int:
    number = whole_number(size)
    if number is None or number < 0:
        raise ParameterError(f"size={size!r}: give the number of slots, 0 or more")
    return number


def dtype_name(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def is_integer(x: Any) -> bool:
    return dtype_name(x).startswith(("int", "uint", "bool"))


def check_index(index: Any, length: int) -> None:
    """Raises DtypeError or ShapeError for what cannot be an index."""
    if not is_integer(index) or dtype_name(index) == "bool":
        raise DtypeError(f"index has dtype {dtype_name(index)}: give whole numbers, the places of the slots")
    if tuple(index.shape) != (length,):
        raise ShapeError(f"index has shape {tuple(index.shape)}: give one slot for each of {length} places")


def refuse_place(index: Any, position: int, size: int, negative: bool = True) -> None:
    """Raises ParameterError for what is out of range there."""
    also = f", or -{size} to -1 from the end" if negative and size else ""
    slots = f"0 to {size - 1}{also}" if size else "none"
    raise ParameterError(f"index[{position}] is {int(index[position])}, and the slots are {slots}")


def checked_places(index: Any, size: int, check: bool, *, negative: bool = True) -> Any:
    """The slots from 0 as int64; without a check, ``size`` for what is out of range.  Raises ParameterError."""
    library: Any = sys.modules["torch"] if is_tensor(index) else np
    least = -size if negative else 0
    fits = (index >= least) & (index < size)
    if check:
        _refuse_capture(index)
        if not bool(fits.all()):
            refuse_place(index, int(library.nonzero(~fits)[0][0]), size, negative)
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


def _rounded_to(x: Any, dtype: Any) -> Any:
    """The result's dtype: that of the sum of x alone."""
    if dtype is not None or is_integer(x):
        return dtype
    return result_format(summable(np.dtype(dtype_name(x)), "x", "sum"), None).dtype.name


def _products(x: Any, weights: Any, axis: int) -> Any:
    """x times its weights in binary64, which holds them, with the index's axis in front."""
    if is_tensor(x) != is_tensor(weights):
        raise ParameterError("weights are of another library than x: give both arrays of one")
    weights = as_array(weights)
    for name, each in (("x", x), ("weights", weights)):
        if dtype_name(each) not in _EXACT_PRODUCTS:
            raise DtypeError(
                f"{name} has dtype {dtype_name(each)}, and weighted sums are exact up to float32: give float16, bfloat16 or "
                "float32, or leave weights out"
            )
    if tuple(weights.shape) not in ((x.shape[axis],), tuple(x.shape)):
        raise ShapeError(
            f"weights have shape {tuple(weights.shape)}: give one for each of {x.shape[axis]} places, or x's shape"
        )
    rows = _moved(x, axis, 0)
    if weights.ndim == x.ndim:
        factors = _moved(weights, axis, 0)
    else:
        factors = weights.reshape(-1, *(1,) * (x.ndim - 1))
    with np.errstate(invalid="ignore"):  # 0 times inf
        return _cast(rows, "float64") * _cast(factors, "float64")


def _with(library: Any, rows: Any, places: Any, initial: Any, axis: int, size: int) -> tuple[Any, Any]:
    """The numbers and their places, with one more for each slot, in a format that holds both kinds."""
    if is_tensor(rows) != is_tensor(initial):
        raise ParameterError("initial is of another library than x: give both arrays of one")
    initial = as_array(initial)
    first, second = dtype_name(rows), dtype_name(initial)
    if is_integer(rows) != is_integer(initial):
        raise DtypeError(f"initial has dtype {second} and x {first}: give both integers, or neither")
    shape = (size, *rows.shape[1:])
    given = _moved(initial, axis, 0) if initial.ndim == rows.ndim else initial
    if tuple(given.shape) != shape:
        raise ShapeError(
            f"initial has shape {tuple(initial.shape)}: give the result's, with {size} along axis {axis}"
        )
    if first != second:
        wide = "int64" if is_integer(rows) else "float64" if "float64" in (first, second) else "float32"
        rows, given = _cast(rows, wide), _cast(given, wide)
    return library.concatenate((rows, given)), library.concatenate(
        (places, _cast(_counted(size, places), dtype_name(places)))
    )


def _sums(
    function: Callable[..., Any], library: Any, rows: Any, places: Any, size: int, check: bool, dtype: Any
) -> Any:
    """The slots of all columns: those of (n, ...) rows come to (size, ...)."""
    n, shape = rows.shape[0], tuple(rows.shape[1:])
    columns = math.prod(shape)
    table = rows.reshape(n, columns)
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
        part = table[:, first : first + together]
        width = part.shape[1]
        line = part[order].T.reshape(-1)
        starts = n * _counted(width, places).reshape(-1, 1) + edges[:-1]
        offsets = library.concatenate((starts.reshape(-1), edges[-1:] + (width - 1) * n))
        try:
            sums = function(line, offsets, dtype=dtype, check=False)
        except InvalidOperationError:
            raise _clash(library, line, offsets, slots) from None
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


def _clash(library: Any, line: Any, offsets: Any, slots: int) -> InvalidOperationError:
    """Names the first slot, of numbers in the host's memory, that gets both infinities."""
    ends = np.asarray(offsets)
    values = np.asarray(_cast(line.detach() if library is not np else line, "float64"))
    up, down = (np.concatenate(([0], np.cumsum(each))) for each in (np.isposinf(values), np.isneginf(values)))
    both = (up[ends[1:]] > up[ends[:-1]]) & (down[ends[1:]] > down[ends[:-1]])
    slot = int(np.flatnonzero(both)[0]) % slots
    return InvalidOperationError(
        f"slot {slot} gets inf and -inf, so its sum has no value: find them with numpy.isinf and remove them"
    )


def _placed(result: Any, axis: int, out: Any) -> Any:
    """The result with the slots' axis where the index's was, in ``out`` if there is one."""
    result = _moved(result, 0, axis)
    if out is None:
        return result
    if is_tensor(result):
        return put_tensor[0](result, out)
    check_out(out, result.shape)
    check_dtype(out, result.dtype if is_integer(result) else format_of(result.dtype))
    return put(result, out)
