"""``tcu.cumsum`` and ``tcu.segment_cumsum``: running sums, each with one rounding and the same bits everywhere.

The law: the bits of a row or a segment depend on its own numbers and on its
length alone, and ``reverse=True`` is the scan of the numbers in reverse order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from tcu.collectives.results import result_format, target_of
from tcu.collectives.rows import axis_number, row_pieces
from tcu.collectives.segments import checked_offsets
from tcu.errors import ParameterError, ShapeError
from tcu.formats.array import is_dask, lives_on_gpu, whole_number
from tcu.formats.format import Format
from tcu.formats.tensor import is_tensor
from tcu.model import scans, threads
from tcu.model.elements import Elements
from tcu.model.execute import Progress
from tcu.plan import ScanPlan, make_scan_plan, scan_error_bound

__all__ = [
    "ScanInfo",
    "check_line",
    "cumsum",
    "cumsum_error_bound",
    "cumsum_on_gpu",
    "line_shape",
    "scan_axis",
    "scan_info",
    "segment_cumsum",
]

_PIECE = 1 << 18
"""Numbers of short rows that one thread takes at a time."""


@dataclass(frozen=True)
class ScanInfo:
    """How running sums came about."""

    plan: ScanPlan
    """Of every single row."""
    rows: int
    """How many scans there are, each by ``plan``."""


@overload
def cumsum(
    x: Any, axis: SupportsIndex | None = ..., *, exclusive: bool = ..., reverse: bool = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[False] = ..., progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def cumsum(
    x: Any, axis: SupportsIndex | None = ..., *, exclusive: bool = ..., reverse: bool = ...,
    dtype: npt.DTypeLike | Any = ..., out: Any = ..., return_info: Literal[True], progress: Progress | None = ...,
) -> tuple[Any, ScanInfo]: ...  # fmt: skip
def cumsum(
    x: Any,
    axis: SupportsIndex | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The running sums of all elements in C order, or along an axis, by binary64 additions rounded once.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and strides.
        Of NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`), with the same
        bits in both places.  Gradients flow through PyTorch's tensors.
    axis:
        The axis to sum along; None: all elements as one line, as in
        numpy.cumsum.  Each row has the bits that it has alone:
        ``tcu.cumsum(x, axis=-1)[i] == tcu.cumsum(x[i])``.
    exclusive:
        Leave each element out of its own sum; the first result is 0.
    reverse:
        Begin at the end: ``tcu.cumsum(x, reverse=True)`` is
        ``tcu.cumsum(x[::-1])[::-1]``, bit for bit.
    dtype:
        Format that each running sum is rounded to, as a dtype of NumPy or
        PyTorch.  None: float32 for 16-bit inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result, x itself included; its dtype stands in for ``dtype``.
    return_info:
        Also return a :class:`ScanInfo`.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    An array of x's library and shape, with ``axis=None`` one line of x's
    elements; ``out`` where it is given.  On a GPU it is computed on the
    library's current stream without waiting for it; long rows may begin only
    when there is room for all blocks of the launch (a cooperative one, from
    compute capability 9.0 on).  The order of the additions is that of
    :class:`tcu.plan.ScanPlan`, which no unit and no number of threads
    changes; :func:`tcu.cumsum_error_bound` bounds the error.  Zero sums are
    +0, and a NaN is the one with all fraction bits set.

    Raises
    ------
    DtypeError, ParameterError:
        An array that cannot be summed; an axis that x does not have; an unfit
        ``out``.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.
    """
    exclusive, reverse = _directions(exclusive, reverse)
    if is_dask(x):
        import tcu.collectives.dask_arrays as dask_arrays

        given = {"out": out, "return_info": return_info, "progress": progress}
        return dask_arrays.cumsum(x, axis, exclusive=exclusive, reverse=reverse, dtype=dtype, **given)
    if is_tensor(x):
        import tcu.collectives.torch_scans as torch_scans

        return torch_scans.cumsum(x, axis, exclusive, reverse, dtype, out, return_info, progress)
    if lives_on_gpu(x):
        number = scan_axis(axis, len(x.shape))
        return cumsum_on_gpu(x, number, exclusive, reverse, dtype, out, return_info, progress)
    elements = x if isinstance(x, Elements) else Elements(x)
    array = elements.array
    number = scan_axis(axis, array.ndim)
    shape = line_shape(array.shape, number)
    target = target_of(elements.format, dtype, out, shape)
    result = _place(array, shape, out, target)
    _scan_rows(elements, number, result, exclusive, reverse, progress)
    answer = _given_back(result, out)
    if not return_info:
        return answer
    return answer, scan_info(array.shape, number, elements.format)


def scan_axis(axis: Any, ndim: int) -> int | None:
    """The axis, counted from 0; raises ParameterError for one that is not there."""
    if axis is None:
        return None
    number = whole_number(axis)
    if number is None:
        raise ParameterError(f"axis={axis!r}: give a whole number, or None for all elements as one line")
    return axis_number(number, ndim)


def _directions(exclusive: Any, reverse: Any) -> tuple[bool, bool]:
    """Both as truth values; raises ParameterError."""
    # Quickly, as a call on a GPU takes few microseconds.
    if type(exclusive) is bool and type(reverse) is bool:
        return exclusive, reverse
    for name, given in (("exclusive", exclusive), ("reverse", reverse)):
        if not isinstance(given, bool | np.bool_ | int):
            raise ParameterError(f"{name}={given!r}: give True or False")
    return bool(exclusive), bool(reverse)


def line_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The result's shape."""
    return (math.prod(shape),) if axis is None else shape


def scan_info(shape: tuple[int, ...], axis: int | None, fmt: Format) -> ScanInfo:
    n = math.prod(shape) if axis is None else shape[axis]
    rows = 1 if axis is None else math.prod(length for i, length in enumerate(shape) if i != axis)
    return ScanInfo(make_scan_plan(n, fmt), rows)


def cumsum_on_gpu(
    x: Any, axis: int | None, exclusive: bool, reverse: bool, dtype: Any, out: Any,
    return_info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    """The running sums of an array in a GPU's memory."""
    from tcu.collectives import device_scans

    result, info = device_scans.cumsum(x, axis, exclusive, reverse, dtype, out)
    if progress is not None:
        progress(math.prod(x.shape))
    return (result, info) if return_info else result


def segment_cumsum(
    x: Any,
    offsets: Any,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The running sums within ragged segments of a line of numbers.

    Segment i is ``x[offsets[i]:offsets[i + 1]]``, and its results have the
    bits that :func:`tcu.cumsum` gives for it alone.

    Parameters
    ----------
    x:
        One-dimensional array, as :func:`tcu.cumsum` takes it.
    offsets:
        One more than there are segments, from 0 to the number of elements and
        never decreasing: int32 or int64, of NumPy, PyTorch or a list in the
        host's memory, or, for x on a GPU, of x's library there.  Equal
        neighbours make an empty segment.
    exclusive, reverse, dtype, out:
        As in :func:`tcu.cumsum`, for each segment.
    check:
        False: do not look at offsets in a GPU's memory, which takes waiting
        for the GPU to come to them, and cannot be done while a CUDA graph is
        captured.  The results for wrong offsets are then undefined.
        Offsets in the host's memory are always checked.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        As :func:`tcu.cumsum`; x of other than one dimension; offsets that do
        not cut x into segments.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.
    """
    exclusive, reverse = _directions(exclusive, reverse)
    if is_tensor(x):
        import tcu.collectives.torch_scans as torch_scans

        return torch_scans.segment_cumsum(x, offsets, exclusive, reverse, dtype, out, check)
    if lives_on_gpu(x):
        from tcu.collectives import device_scans

        check_line(x.shape)
        return device_scans.segment_cumsum(x, offsets, exclusive, reverse, dtype, out, check)
    elements = x if isinstance(x, Elements) else Elements(x)
    check_line(elements.array.shape)
    edges = checked_offsets(offsets, elements.n)
    target = target_of(elements.format, dtype, out, elements.array.shape)
    result = _place(elements.array, elements.array.shape, out, target)
    _scan_segments(elements, edges, result, exclusive, reverse)
    return _given_back(result, out)


def check_line(shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise ShapeError(f"x has shape {tuple(shape)}: segments are cut from one line, x.reshape(-1)")


def cumsum_error_bound(
    x: Any,
    axis: SupportsIndex | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[np.float64]:
    """Bounds on |tcu.cumsum(x, ...) - exact running sums of x|, one for each result, for an array on the host.

    From the running sums of |x| and the plan's depth alone
    (:func:`tcu.plan.scan_error_bound`); inf where an overflow cannot be
    excluded, NaN where inf or NaN is among the elements that are summed.
    """
    elements = Elements(x)
    number = scan_axis(axis, elements.array.ndim)
    plan = scan_info(elements.array.shape, number, elements.format).plan
    target = result_format(elements.format, dtype)
    with np.errstate(all="ignore"):
        values = elements.array.astype(np.float64)
        special = ~np.isfinite(values)
        values[special] = 0.0
        # These scans are of binary64.
        growth = 2 * make_scan_plan(plan.n, "binary64").depth * 2.0**-53
        sums, mass, specials = (
            cumsum(numbers, number, exclusive=exclusive, reverse=reverse)
            for numbers in (values, np.abs(values), special.astype(np.float64))
        )
        mass = mass * (1 + growth)
        exact = np.abs(sums) + growth * mass
        bound = scan_error_bound(plan, mass, exact, target)
        # Nor where sums overflow on the way, whose difference is NaN.
        bound = np.where(exact + bound <= target.max_finite, bound, math.inf)
        return np.asarray(np.where(specials > 0, math.nan, np.where(mass == 0, 0.0, bound)))


# On the host.


def _place(array: npt.NDArray[Any], shape: tuple[int, ...], out: Any, target: Format) -> npt.NDArray[Any]:
    """Where results are written: ``out``, unless that would change elements that are still to be read."""
    if out is not None and (not np.may_share_memory(array, out) or _same_memory(array, out)):
        return np.asarray(out)
    return np.empty(shape, target.dtype)


def _same_memory(array: npt.NDArray[Any], out: npt.NDArray[Any]) -> bool:
    """Whether each result lies where its own element is."""
    if array.dtype != out.dtype or array.ctypes.data != out.ctypes.data:
        return False
    if array.flags.c_contiguous and out.flags.c_contiguous:
        return True
    return array.shape == out.shape and array.strides == out.strides


def _given_back(result: npt.NDArray[Any], out: Any) -> Any:
    if out is None:
        return result
    if result is not out:
        out[...] = result
    return out


def _scan_rows(
    elements: Elements, axis: int | None, result: npt.NDArray[Any],
    exclusive: bool, reverse: bool, progress: Progress | None,
) -> None:  # fmt: skip
    fmt, array = elements.format, elements.array
    if not array.size:
        return
    if axis is None:
        scans.scan_line(elements.n, fmt, elements.read, result, exclusive, reverse, progress)
        return
    rows, places = np.moveaxis(array, axis, -1), np.moveaxis(result, axis, -1)
    n = array.shape[axis]
    if n > scans.piece_length(fmt):
        for where in np.ndindex(rows.shape[:-1]):
            scans.scan_line(n, fmt, Elements(rows[where]).read, places[where], exclusive, reverse, progress)
        return

    def work(piece: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> int:
        given, place = piece
        line = np.require(given, fmt.dtype, ["C", "A"]).reshape(-1)
        scans.scan_segments(line, np.arange(0, line.size + 1, n), place, exclusive, reverse)
        return line.size

    together = max(1, _PIECE // n)
    outer = array.ndim - 1
    pairs = zip(row_pieces(rows, outer, together), row_pieces(places, outer, together), strict=True)
    for done in threads.in_order(work, pairs):
        if progress is not None:
            progress(done)


def _scan_segments(
    elements: Elements,
    offsets: npt.NDArray[np.int64],
    result: npt.NDArray[Any],
    exclusive: bool,
    reverse: bool,
) -> None:
    fmt = elements.format

    def work(run: tuple[int, int]) -> None:
        edges = offsets[run[0] : run[1] + 1]
        start, stop = int(edges[0]), int(edges[-1])
        scans.scan_segments(elements.read(start, stop), edges - start, result[start:stop], exclusive, reverse)

    long: list[int] = []
    for _ in threads.in_order(work, _runs(offsets, scans.piece_length(fmt), long)):
        pass
    for segment in long:  # by all cores
        start, stop = int(offsets[segment]), int(offsets[segment + 1])
        read = partial(_read_from, elements, start)
        scans.scan_line(stop - start, fmt, read, result[start:stop], exclusive, reverse)


def _read_from(elements: Elements, start: int, first: int, last: int) -> npt.NDArray[Any]:
    return elements.read(start + first, start + last)


def _runs(offsets: npt.NDArray[np.int64], most: int, long: list[int]) -> Iterator[tuple[int, int]]:
    """Runs (first, stop) of segments that have up to ``most`` elements together; longer segments go to ``long``."""
    first, count = 0, offsets.size - 1
    while first < count:
        stop = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        if stop == first:
            long.append(first)
            first += 1
            continue
        yield first, stop
        first = stop
