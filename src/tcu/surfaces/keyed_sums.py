"""What is made of sums by index: counts, histograms, sums of equal keys, gradients of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import is_dask
from tcu.formats.tensor import is_tensor
from tcu.model.ieee_environment import ieee
from tcu.ops.layout import axis_number
from tcu.surfaces.index_sums import dask_arrays, index_sum
from tcu.surfaces.one_library import as_array, dtype_name, ieee_of_arrays
from tcu.surfaces.sums_by_index import (
    check_index,
    check_keys,
    checked_places,
    is_integer,
    library_of,
    whole_size,
)

__all__ = [
    "bincount",
    "bins_of",
    "check_line",
    "check_numbers",
    "edges_of",
    "embedding_gradient",
    "ends_of",
    "histogram",
    "known_edges",
    "looked_up",
    "padded",
    "reduce_by_key",
    "weights_like",
]


def bincount(index: Any, weights: Any = None, size: int | None = None, *, dtype: Any = None) -> Any:
    """How often each whole number from 0 occurs, or the exact sums of their weights, each rounded once.

    As numpy.bincount, but for the sums, which have one answer whatever the order.

    Parameters
    ----------
    index:
        A line of whole numbers from 0: an array of NumPy or, lazily, of Dask, or a tensor.
    weights:
        None, or a number for each of them.
    size:
        The number of slots, and no index reaches it; None: one more than the largest index, which Dask does not know.
    dtype:
        Format of the sums, as in :func:`index_sum`; counts are int64.

    Returns
    -------
    A line of ``size`` numbers.  Raises what :func:`index_sum` raises.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.bincount(np.array([0, 2, 2, 2]), np.array([0.5, 1e20, 1, -1e20]))
    array([0.5, 0. , 1. ])
    """
    if is_dask(index) or is_dask(weights):
        return _lazy_bincount(index, weights, size, dtype)
    library = library_of(index, index if weights is None else weights, "weights")
    index = as_array(index, "index")
    check_line(index)
    check_index(index, index.shape[0])
    if size is None:
        size = int(index.max()) + 1 if index.shape[0] else 0
    size = whole_size(size)
    places = checked_places(index, size, True, negative=False)
    if weights is None:
        return library.bincount(places, minlength=size)
    return index_sum(as_array(weights, "weights"), places, size, dtype=dtype, check=False)


def check_line(index: Any) -> None:
    if index.ndim != 1:
        raise ShapeError(f"index has shape {tuple(index.shape)}: give one line, index.reshape(-1)")


def _lazy_bincount(index: Any, weights: Any, size: int | None, dtype: Any) -> Any:
    if size is None:
        raise ParameterError(
            "size=None with a Dask array: the largest index is not known yet: give the number of slots"
        )
    arrays = dask_arrays()
    index = arrays.lazy("index", index)
    check_line(index)
    x = arrays.ones_like(index) if weights is None else weights
    return arrays.run(False, x, index, size, 0, None, None, dtype, None, True, negative=False)


@ieee_of_arrays
def histogram(
    x: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    weights: Any = None,
    *,
    dtype: Any = None,
) -> tuple[Any, Any]:
    """(what each bin holds, the edges of the bins), as numpy.histogram, with the exact sums of weights, each rounded once.

    Parameters
    ----------
    x:
        Array of NumPy of any shape or, lazily, of Dask, or a tensor.  NaN falls into no bin.
    bins:
        Their number, or their edges, which increase; the last bin holds its right edge, too.
    range:
        The first and the last edge of a number of bins; None: the smallest and the largest of x, for which a GPU
        is waited, and which Dask does not know.
    weights:
        None: numbers are counted, as int64; or an array of x's shape.
    dtype:
        Format of the sums, as in :func:`index_sum`.

    Returns
    -------
    Two lines of x's library, the edges as float64.  Raises what :func:`index_sum` raises, and ParameterError for bins
    that cannot be.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.histogram(np.array([0.5, 1.5, 1.7, 3]), bins=3, range=(0, 3), weights=np.array([1, 2, 3, 4.0]))
    (array([1., 5., 4.]), array([0., 1., 2., 3.]))
    """
    if is_dask(x) or is_dask(weights):
        return _lazy_histogram(x, bins, range, weights, dtype)
    library = library_of(x, x if weights is None else weights, "weights")
    x = as_array(x, "x")
    if weights is not None:
        weights = weights_like(as_array(weights, "weights"), x).reshape(-1)
    line = x.reshape(-1)
    check_numbers(line)
    edges = edges_of(line, bins, range)
    if library is np:
        place = bins_of(line, edges)
    else:
        wide, firsts, last = _limits(line, edges)
        line = line.to(getattr(library, wide.name)).contiguous()
        place = _place_of(library, line, library.from_numpy(firsts).to(line.device), last, len(edges) - 1)
        edges = library.from_numpy(edges).to(line.device)
    count = len(edges) - 1
    if weights is None:
        return library.bincount(place, minlength=count + 1)[:count], edges
    return index_sum(weights, place, count, dtype=dtype, check=False), edges


def weights_like(weights: Any, x: Any) -> Any:
    """The weights; raises ShapeError unless they have x's shape."""
    if tuple(weights.shape) != tuple(x.shape):
        raise ShapeError(f"weights have shape {tuple(weights.shape)}: give x's, {tuple(x.shape)}")
    return weights


def check_numbers(x: Any) -> None:
    """Raises DtypeError for what has no place between edges."""
    name = dtype_name(x)
    wide = is_tensor(x) and name in ("uint16", "uint32", "uint64")  # of which PyTorch compares none
    if wide or not (is_integer(x) or name in ("float16", "bfloat16", "float32", "float64")):
        raise DtypeError(
            f"x has dtype {name}, of which there is no histogram: give integers{' with a sign' if wide else ''}, float16, bfloat16, "
            "float32 or float64"
        )


@ieee
def bins_of(x: Any, edges: Any) -> Any:
    """The bin that each number falls into, and their number for what falls into none, of an array of NumPy."""
    x = np.asarray(x)
    check_numbers(x)
    wide, firsts, last = _limits(x, edges)
    return _place_of(np, x.astype(wide), firsts, last, len(edges) - 1)


def _limits(x: Any, edges: Any) -> tuple[np.dtype[Any], Any, Any]:
    """(the dtype in which numbers like those of x are compared, the least number of each bin and above, the last in a bin)

    Integers are compared as such: binary64 would not tell those apart that need more than 53 bits.
    """
    if not is_integer(x):
        return np.dtype(np.float64), edges, float(edges[-1])
    wide = np.dtype(np.uint64 if dtype_name(x).startswith("uint") and not is_tensor(x) else np.int64)
    limits = np.iinfo(wide)
    above = float(limits.max)  # which is one more
    if edges[-1] < limits.min:
        return wide, np.zeros(0, wide), limits.min
    firsts = [
        limits.min if each <= limits.min else math.ceil(each) for each in edges.tolist() if each < above
    ]
    last = limits.max if edges[-1] >= above else math.floor(edges[-1])
    return wide, np.array(firsts, wide), last


def _place_of(library: Any, x: Any, firsts: Any, last: Any, count: int) -> Any:
    found = library.searchsorted(firsts, x, side="right") - 1
    return library.where((found >= 0) & (x <= last), library.where(found < count, found, count - 1), count)


def _lazy_histogram(x: Any, bins: Any, range: Any, weights: Any, dtype: Any) -> tuple[Any, Any]:
    arrays = dask_arrays()
    x = arrays.lazy("x", x)
    check_numbers(x)
    edges = known_edges(bins, range, "with a Dask array")
    place = x.map_blocks(bins_of, edges, dtype=np.int64, meta=np.empty((0,) * x.ndim, np.int64))
    if weights is None:
        weights = arrays.ones_like(x)
    else:
        weights = weights_like(arrays.lazy("weights", weights), x).rechunk(x.chunks)
    line, place = weights.reshape(-1), place.reshape(-1)
    sums = arrays.run(False, line, place, len(edges) - 1, 0, None, None, dtype, None, False)
    return sums, arrays.lazy("edges", edges)


def known_edges(bins: Any, range: Any, where: str) -> Any:
    """The edges, for which numbers need not be looked at.  Raises ParameterError."""
    if range is None and np.ndim(bins) == 0 and not isinstance(bins, str):
        raise ParameterError(
            f"range=None {where}: the smallest and the largest number are not known yet: give range=(first, last)"
        )
    return edges_of(np.zeros(0), bins, range)


def edges_of(line: Any, bins: Any, range: tuple[float, float] | None) -> Any:
    """numpy's edges, of the smallest and the largest number alone."""
    if isinstance(bins, str):
        raise ParameterError(
            f"bins={bins!r}: give their number or their edges, numpy.histogram_bin_edges(x, {bins!r})"
        )
    if np.ndim(bins) and np.size(bins) < 2:
        raise ParameterError(f"bins={bins!r}: give two edges or more, or the number of bins")
    given = np.asarray(bins)
    if given.dtype.kind in "iu" and np.ndim(bins):
        lost = [each for each in given.reshape(-1).tolist() if float(each) != each]
        if lost:
            raise ParameterError(
                f"bins hold {lost[0]}, which float64, the edges' dtype, does not: take a number off x and bins"
            )
    ends = np.zeros(0)
    if range is None and np.ndim(bins) == 0 and len(line):
        ends = ends_of(line)
    try:
        return np.asarray(
            np.histogram_bin_edges(ends, np.asarray(bins) if np.ndim(bins) else bins, range), np.float64
        )
    except (ValueError, TypeError) as error:
        raise ParameterError(f"bins={bins!r}, range={range!r}: {error}") from None


def ends_of(x: Any) -> Any:
    """The smallest and the largest number, in binary64; integers that it does not hold are between the two."""
    least, most = x.min().item(), x.max().item()
    low, high = float(least), float(most)
    return np.array(
        [
            math.nextafter(low, -math.inf) if low > least else low,
            math.nextafter(high, math.inf) if high < most else high,
        ]
    )


@ieee_of_arrays
def reduce_by_key(
    keys: Any, x: Any, *, axis: int = 0, weights: Any = None, dtype: Any = None
) -> tuple[Any, Any]:
    """(the keys, each once and in order, the exact sum of what each has, rounded once); sorted before or not.

    Parameters
    ----------
    keys:
        A line of anything that can be sorted, one for each place along ``axis``.
    x, axis, weights, dtype:
        As in :func:`index_sum`, which this is with numbers in place of the keys.

    Returns
    -------
    Two arrays of x's library, those of Dask of unknown length.  Raises what :func:`index_sum` raises.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.reduce_by_key(np.array([7, 3, 7, 7]), np.array([1e8, 2, 1, -1e8], np.float32))
    (array([3, 7]), array([2., 1.], dtype=float32))
    """
    if any(map(is_dask, (keys, x, weights))):
        lazily: tuple[Any, Any] = dask_arrays().reduce_by_key(keys, x, axis, weights, dtype)
        return lazily
    library = library_of(x, keys, "keys")
    keys = as_array(keys, "keys")
    x = as_array(x, "x")
    check_keys(keys, x.shape[axis_number(axis, x.ndim)])
    unique, index = library.unique(keys, return_inverse=True)
    if is_tensor(keys) and keys.is_floating_point():
        # NaNs are one key, as NumPy has them; PyTorch has each of them last, on its own.
        numbers = len(unique) - int(unique.isnan().sum())
        unique, index = unique[: numbers + 1], index.clamp(max=numbers)
    return unique, index_sum(
        x, index.reshape(-1), len(unique), axis=axis, weights=weights, dtype=dtype, check=False
    )


def embedding_gradient(
    gradient: Any,
    index: Any,
    size: int,
    *,
    padding_index: int | None = None,
    initial: Any = None,
    dtype: Any = None,
    check: bool = True,
) -> Any:
    """The gradient of a table of ``size`` rows that an index was looked up in: the exact sums of the rows, rounded once.

    Parameters
    ----------
    gradient:
        That of what was looked up, one row for each index: an array of NumPy or, lazily, of Dask, or a tensor.
    index:
        The rows that were looked up, of any shape.
    size:
        Rows of the table.
    padding_index:
        A row whose gradient is 0.
    initial:
        A gradient (size, d) that is added before the rounding, as in :func:`index_sum`.
    dtype:
        As in :func:`index_sum`; None: that of ``gradient``.
    check:
        As in :func:`index_sum`.

    Returns
    -------
    An array (size, d) of the library of ``gradient``.  Raises what :func:`index_sum` raises.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> gradient = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    >>> tcu.embedding_gradient(gradient, np.array([2, 0, 2]), 3)
    array([[3., 4.],
           [0., 0.],
           [6., 8.]], dtype=float32)
    """
    if is_dask(gradient) or is_dask(index):
        arrays = dask_arrays()
        gradient, index = arrays.lazy("gradient", gradient), arrays.lazy("index", index)
    else:
        library_of(gradient, index)
        gradient, index = as_array(gradient, "gradient"), as_array(index, "index")
    rows, places = looked_up(gradient, index)
    dtype = rows.dtype if dtype is None else dtype
    found = index_sum(rows, places, size, initial=initial, check=check, dtype=dtype)
    return padded(found, size, padding_index, initial)


def looked_up(gradient: Any, index: Any) -> tuple[Any, Any]:
    """The rows and a line of their places."""
    if gradient.ndim == 0 or tuple(gradient.shape[:-1]) != tuple(index.shape):
        raise ShapeError(
            f"gradient has shape {tuple(gradient.shape)}: give one row for each index, {(*index.shape, 'd')}"
        )
    if is_integer(gradient):
        raise DtypeError(
            f"gradient has dtype {dtype_name(gradient)}: give float16, bfloat16, float32 or float64"
        )
    places = index.reshape(-1)
    return gradient.reshape(places.shape[0], gradient.shape[-1]), places


def padded(table: Any, size: int, padding_index: int | None, initial: Any = None) -> Any:
    """The gradient of a table whose row there has none, but what was there before."""
    if padding_index is None:
        return table
    if not -size <= padding_index < size:
        raise ParameterError(
            f"padding_index={padding_index}: choose a row of the table, {-size} to {size - 1}"
        )
    if is_tensor(table):
        table = table.clone()
    table[padding_index] = 0 if initial is None else initial[padding_index]
    return table
