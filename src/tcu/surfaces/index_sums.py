"""``tcu.index_sum`` and ``tcu.index_mean``: sums of the numbers that an index sends to each slot, rounded once."""

from __future__ import annotations

from typing import Any

from tcu.formats.array import is_dask
from tcu.surfaces.sums_by_index import by_index

__all__ = ["dask_arrays", "index_mean", "index_sum"]


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
        Array of NumPy or, lazily, of Dask, or a tensor of PyTorch, through which gradients flow: float16, bfloat16,
        float32 or float64, or integers.
    index:
        A line of whole numbers, one for each place along ``axis``; from -size to -1 they count from the last slot.
    size:
        The number of slots.
    axis:
        The axis of x that the index goes along; the result has ``size`` in its place.
    weights:
        A factor for each place along ``axis``, or one for each number of x: exact products are added up.  Those of
        float64, which binary64 does not hold, in the host's memory, of one array; none of integers.
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
    indices and one copy of the numbers, of at most 2^24 or of one column at a time.  On a GPU, of numbers, at most 16 bytes a place
    and 4 a slot, into up to 2^24 slots; otherwise 16 bytes a slot and 8 a place, or, from 2^22 places on, 8 bytes
    a slot and two sorted copies of places or numbers with their slots; and of rows 16 bytes for each column of every
    128 rows, 128 MB at most.

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
    return _run(False, x, index, size, axis, weights, initial, dtype, out, check)


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
    return _run(True, x, index, size, axis, None, None, dtype, out, check)


def _run(mean: bool, *given: Any) -> Any:
    x, index, _, _, weights, initial, *_ = given
    lazily = any(map(is_dask, (x, index, weights, initial)))
    return dask_arrays().run(mean, *given) if lazily else by_index(mean, *given)


def dask_arrays() -> Any:
    """What serves Dask arrays, which were met."""
    from tcu.surfaces import dask_index_sums  # loads Dask's arrays

    return dask_index_sums
