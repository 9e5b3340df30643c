"""Written by ``python -m tcu.stubs``."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from tcu.model.execute import Progress
from tcu.ops.operation import Operation
from tcu.units import Unit

__all__ = [
    "cumsum",
    "segment_cumsum",
    "dot",
    "segment_dot",
    "fcumsum",
    "segment_fcumsum",
    "fdot",
    "segment_fdot",
    "fmean",
    "segment_fmean",
    "fnorm",
    "segment_fnorm",
    "fstd",
    "segment_fstd",
    "fsum",
    "segment_fsum",
    "fvar",
    "segment_fvar",
    "log_softmax",
    "logsumexp",
    "segment_logsumexp",
    "mean",
    "segment_mean",
    "norm",
    "segment_norm",
    "normalize",
    "softmax",
    "segment_softmax",
    "std",
    "segment_std",
    "std_error_bound",
    "sum",
    "segment_sum",
    "var",
    "segment_var",
    "var_error_bound",
]

FUNCTIONS: dict[str, Callable[..., Any]]

def function_of(operation: Operation) -> Callable[..., Any]: ...
def segments_of(operation: Operation) -> Callable[..., Any]: ...
def cumsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    accumulator: str | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The running sums of all elements in C order, or along an axis: in binary64, rounded once, unless a variant asks for MMAs.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and strides;
        integers and truth values are summed exactly, as in :func:`tcu.sum`.
        Of NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`), with the same
        bits in both places.  Gradients flow through PyTorch's tensors.
    axis:
        The axis to sum along; None: all elements as one line, as in
        numpy.cumsum.  Each row has the bits that it has alone:
        ``tcu.cumsum(x, axis=-1)[i] == tcu.cumsum(x[i])``.
    dim:
        PyTorch's name of ``axis``.
    exclusive:
        Leave each element out of its own sum; the first result is 0.
    reverse:
        Begin at the end: ``tcu.cumsum(x, reverse=True)`` is
        ``tcu.cumsum(x[::-1])[::-1]``, bit for bit.
    unit:
        Whose MMAs a variant has: a name of the catalogue, or a
        :class:`tcu.Unit` of your own; None: "H100", on a GPU that GPU.
    variant:
        "binary64" (by binary64 additions alone, so that no unit changes a
        bit).  For float16 and bfloat16, by products with triangular matrices
        of ones (Dakkak et al., ICS 2019): "scan-16", "scan-256", "scan-256n",
        and "scan-256n-work-efficient", which has two products for each 256
        numbers in place of three.  Sums of 16 rows, and what goes from strip
        to strip, are rounded to 16 bits there; a number that is not finite
        makes NaN of its neighbours, and in float16 so do totals above 65,504.
    chain:
        R: tiles one after another before totals are scanned apart; None: 16.
    accumulator:
        Format of C and D: "float32" or "float16" (float16 elements only);
        None: float32.
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
    :class:`tcu.plan.ScanPlan`, or of :class:`tcu.plan.MmaScanPlan`, which
    no number of threads changes; :func:`tcu.cumsum_error_bound` bounds the
    error.  Zero sums are
    +0, and a NaN is the one with all fraction bits set.

    Raises
    ------
    UnknownNameError, DtypeError, ParameterError:
        No such unit or variant; an array that cannot be summed, or for which
        the unit has no MMA; R or the accumulator out of range; an axis that x
        does not have; an unfit ``out``.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(1, 7, dtype=np.float32)
    >>> tcu.cumsum(x)
    array([ 1.,  3.,  6., 10., 15., 21.], dtype=float32)
    >>> tcu.cumsum(x.reshape(2, 3), axis=1, reverse=True)
    array([[ 6.,  5.,  3.],
           [15., 11.,  6.]], dtype=float32)
    """

def segment_cumsum(
    x: Any,
    offsets: Any,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    accumulator: str | None = None,
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
    exclusive, reverse, unit, variant, chain, accumulator, dtype, out:
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
    UnknownNameError, DtypeError, ShapeError, ParameterError:
        As :func:`tcu.cumsum`; x of other than one dimension; offsets that do
        not cut x into segments.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_cumsum(np.arange(1, 7, dtype=np.float32), [0, 2, 6])
    array([ 1.,  3.,  3.,  7., 12., 18.], dtype=float32)
    """

def dot(
    x: Any,
    y: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
    return_info: bool = False,
) -> Any:
    """The dot product of x and y by a plan of binary64 fused multiply-adds and additions, bit for bit.

    Parameters
    ----------
    x, y:
        Arrays of one shape and one dtype: float16, bfloat16, float32 or
        float64; any size, 0 pairs give 0.  Both of NumPy or PyTorch, or both
        on one GPU (as :func:`tcu.sum`).
    axis, keepdims, dim, keepdim, where:
        As in :func:`tcu.sum`: ``tcu.dot(x, y, axis=-1)[i] == tcu.dot(x[i], y[i])``,
        bit for bit.
    block:
        B: threads per block, a multiple of 32 up to 1024; None: 256.
    dtype:
        Format that the result is rounded to.  None: float32 for 16-bit
        inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.
    return_info:
        Also return a :class:`DotInfo`; on a GPU this waits for the result.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x and y, without waiting for
    it; an array of them where axes are left; with ``return_info``, (result, DotInfo).  Zero is +0, and a NaN is the one with
    all fraction bits set.  Products of float16, bfloat16 and float32 are
    exact; those of float64 round with the addition that takes them in:
    beyond binary64's range they are inf, below 2^-1022 they lose bits.
    :func:`fdot` has no such limits.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Arrays that cannot be multiplied, or not with each other; B out of
        range; an axis that x does not have, or twice; an unfit ``out``.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1, 2, 3], np.float32)
    >>> tcu.dot(x, x)
    np.float32(14.0)
    """

def segment_dot(
    x: Any,
    y: Any,
    offsets: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The dot products of ragged segments of two lines, each with the bits that :func:`tcu.dot` gives for it alone.

    Parameters, results and errors are those of :func:`tcu.dot`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.  The dot product of an empty segment is 0.
    Arrays on a GPU are refused: there is no kernel.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(5, dtype=np.float32)
    >>> tcu.segment_dot(x, x, [0, 2, 5])
    array([ 1., 29.], dtype=float32)
    """

def fcumsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
    progress: Progress | None = None,
) -> Any:
    """The running sums of all elements in C order, or along an axis, each rounded once from the exact sum.

    Element i is ``tcu.fsum(x[: i + 1])``, bit for bit, however long the row is
    and however many threads there are.

    Parameters
    ----------
    x, axis, dim, exclusive, reverse, out, progress:
        As in :func:`tcu.cumsum`; integers and truth values are summed exactly.
    dtype:
        Format that each running sum is rounded to directly.  None: float32 for
        16-bit inputs, x's own dtype otherwise.

    Returns
    -------
    An array of x's library and shape, with ``axis=None`` one line of x's
    elements; ``out`` where it is given.  Nothing overflows on the way: a sum
    beyond the largest number of ``dtype`` is inf there, and those behind it need
    not be.  From an inf on sums are inf, and NaN from the first NaN on, or where
    inf and -inf have met.  Zero sums are +0.

    Raises
    ------
    DtypeError, ParameterError:
        An array that cannot be summed, or on a GPU, for which there is no kernel;
        an axis that x does not have; an unfit ``out``.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1, 2.0**-53, 2.0**-53])
    >>> tcu.fcumsum(x) - 1, tcu.cumsum(x) - 1
    (array([0.00000000e+00, 0.00000000e+00, 2.22044605e-16]), array([0., 0., 0.]))
    """

def segment_fcumsum(
    x: Any,
    offsets: Any,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The running sums within ragged segments of a line of numbers, each rounded once.

    Segment i is ``x[offsets[i]:offsets[i + 1]]``, and its results have the
    bits that :func:`tcu.fcumsum` gives for it alone.  Parameters, results and
    errors are those of :func:`segment_cumsum`; arrays on a GPU are refused.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_fcumsum(np.array([1, 1e100, -1e100, 1]), [0, 1, 4])
    array([1.e+000, 1.e+100, 0.e+000, 1.e+000])
    """

def fdot(
    x: Any,
    y: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The dot product of x and y, rounded once: one answer, whatever the order, split or machine.

    Parameters
    ----------
    x, y:
        Arrays of one shape and one dtype: float16, bfloat16, float32 or
        float64.  Both of NumPy or PyTorch, or both on one GPU (as
        :func:`tcu.sum`).
    axis, keepdims, dim, keepdim, where:
        As in :func:`tcu.sum`; arrays on a GPU are multiplied whole alone.
    dtype:
        Format of the result, rounded to it directly.  None: float32 for
        16-bit inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x and y, without waiting for
    it; an array of them where axes are left.  No product and no sum of them overflows or underflows on
    the way: a result beyond the largest number of ``dtype`` is inf, and a sum
    of zero is +0.  A product with inf or NaN is what IEEE 754 says, so
    0 · inf is NaN, and NaN wins over everything else.

    Raises
    ------
    DtypeError, ShapeError, InvalidOperationError, ParameterError:
        Arrays that cannot be multiplied, or not with each other; products of
        inf and of -inf, and no NaN, on the CPU (on a GPU, which is not waited
        for, the result is NaN then); an axis that x does not have, or twice; an unfit ``out``.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x, y = np.array([1e100, 1, -1e100]), np.array([1e100, 3, 1e100])
    >>> tcu.fdot(x, y), (x * y).sum()
    (np.float64(3.0), np.float64(0.0))
    """

def segment_fdot(
    x: Any,
    y: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The dot products of ragged segments of two lines, each rounded once.

    Parameters, results and errors are those of :func:`tcu.fdot`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.  The dot product of an empty segment is 0.
    Arrays on a GPU are refused: there is no kernel.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1, 2, 3, 4], np.float32)
    >>> tcu.segment_fdot(x, x, [0, 2, 4])
    array([ 5., 25.], dtype=float32)
    """

def fmean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The mean of all elements, or along axes, the exact sum divided by n and rounded once.

    Parameters, results and errors are those of :func:`fsum`; the mean of
    nothing is NaN, and a mean is inf only where an element is, or where
    ``dtype`` is too narrow for it.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1e8, 1, -1e8, 1], np.float32)
    >>> tcu.fmean(x), x.mean()
    (np.float32(0.5), np.float32(0.25))
    """

def segment_fmean(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The means of ragged segments, the exact sums divided by the lengths and rounded once.

    As :func:`segment_fsum`, with the bits of :func:`tcu.fmean`; the mean of an empty segment is NaN.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1e8, 1, -1e8, 1], np.float32)
    >>> tcu.segment_fmean(x, [0, 3, 4])
    array([0.33333334, 1.        ], dtype=float32)
    """

def fnorm(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The Euclidean norm of all elements, or along axes: the root of the exact sum of squares, rounded once.

    Parameters, results and errors are those of :func:`fdot`; no square
    overflows or underflows on the way.  inf where an element is, NaN where
    one is NaN, +0 for no elements.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fnorm(np.array([3, 4]) * 2.0**600) / 2.0**600  # their squares overflow
    np.float64(5.0)
    """

def segment_fnorm(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The Euclidean norms of ragged segments: the roots of the exact sums of squares, each rounded once.

    Parameters, results and errors are those of :func:`tcu.fnorm`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.  The norm of an empty segment is 0.
    Arrays on a GPU are refused: there is no kernel.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_fnorm(np.array([3, 4, 5, 12], np.float32), [0, 2, 4])
    array([ 5., 13.], dtype=float32)
    """

def fstd(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The standard deviation of all elements, or along axes: the root of the exact variance, rounded once.

    Parameters, results and errors are those of :func:`fvar`.  Where it is 0, so is its gradient.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fstd(np.array([1, 1, 3, 3]) + 1e9)
    np.float64(1.0)
    """

def segment_fstd(
    x: Any,
    offsets: Any,
    *,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The standard deviations of ragged segments, rounded once, each with the bits of :func:`tcu.fstd` for it alone.

    Parameters, results and errors are those of :func:`segment_fvar`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_fstd(np.array([1, 3, 7, 7], np.float32), [0, 2, 4])
    array([1., 0.], dtype=float32)
    """

def fsum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The sum of all elements, or along axes, rounded once: one answer, whatever the order, split or machine.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and size, of
        NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`); integers as there.
    axis, keepdims, dim, keepdim, where:
        As in :func:`tcu.sum`: ``tcu.fsum(x, axis=-1)[i] == tcu.fsum(x[i])``.
    dtype:
        Format of the result, rounded to it directly.  None: float32 for
        16-bit inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x, without waiting for it; an array of
    them where axes are left.  NaN, inf and zero as :meth:`ExactSum.value`.

    Raises
    ------
    DtypeError, InvalidOperationError, ParameterError:
        An array that cannot be summed; inf and -inf together, on the CPU (on
        a GPU, which is not waited for, the result is NaN then); an axis that
        x does not have, or twice; an unfit ``out``.  Unlike math.fsum it never
        raises OverflowError: an intermediate sum cannot overflow, and a sum
        that exceeds ``dtype`` is inf.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1e8, 1, -1e8, 1], np.float32)
    >>> tcu.fsum(x), x.sum()
    (np.float32(2.0), np.float32(1.0))
    >>> tcu.fsum(x.reshape(2, 2), axis=1)
    array([ 1.e+08, -1.e+08], dtype=float32)
    """

def segment_fsum(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The exact sums of ragged segments, each rounded once: one answer, whatever the order or machine.

    Each has the bits that :func:`tcu.fsum` gives for its segment alone.
    Parameters and results are those of :func:`segment_sum`.  Raises what
    :func:`tcu.fsum` raises; where inf and -inf meet in a segment that is
    InvalidOperationError on the CPU, and NaN on a GPU.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1e8, 1, -1e8, 1], np.float32)
    >>> tcu.segment_fsum(x, [0, 3, 4])
    array([1., 1.], dtype=float32)
    """

def fvar(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The variance of all elements, or along axes, rounded once: one answer, whatever the order, split or machine.

    From the exact sums of the elements and of their squares.  Parameters are those
    of :func:`var`, without ``block``; the correction counts as the binary64 number
    that it is.  No square overflows or underflows on the way.  The variance of
    nothing is NaN, and so is one with an inf or NaN among the elements.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`var`; x is on a GPU, for which there is no kernel yet.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1, 2, 3, 4]) + 1e9
    >>> tcu.fvar(x)
    np.float64(1.25)
    """

def segment_fvar(
    x: Any,
    offsets: Any,
    *,
    correction: float = 0.0,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The variances of ragged segments, rounded once, each with the bits of :func:`tcu.fvar` for it alone.

    Parameters, results and errors are those of :func:`tcu.fvar`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_fvar(np.array([1, 2, 3, 7, 7], np.float32), [0, 3, 5])
    array([0.6666667, 0.       ], dtype=float32)
    """

def layer_norm(
    x: Any,
    axis: SupportsIndex = -1,
    *,
    eps: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
) -> Any:
    """The numbers of each row less their mean, over the root of their variance, with the same bits everywhere.

    d · r, with d = x - mean and r and v of d as in :func:`rms_norm`.  The mean is taken off in two parts, of binary64 the
    second from the exact sum: of numbers far larger than their deviations as many bits are left as x has.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.  Weights and a bias are for the caller to apply.
    eps:
        Added to the variance, 0 or more.  None: 1e-5.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  A row with NaN
    or inf has NaN everywhere, as in PyTorch.  The gradient's sums are those of :func:`tcu.sum` along the row.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`; an eps below 0.
    """

def log_softmax(
    x: Any,
    axis: SupportsIndex = -1,
    *,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
) -> Any:
    """The logarithms of the softmax of each row, with the same bits everywhere.

    (x - m) - log S, with m and S as in :func:`softmax`, and the logarithm in binary64 by
    a fixed sequence of IEEE operations, rounded once to the format of x - m.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  An element
    -inf has -inf; a row with NaN or inf, or of nothing but -inf, has NaN everywhere, as in PyTorch.
    The gradient's sums are those of :func:`tcu.sum` along the row.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.log_softmax(np.array([0, 1, 2], np.float32))
    array([-2.407606  , -1.407606  , -0.40760598], dtype=float32)
    """

def logsumexp(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The logarithm of the sum of the exponentials of all elements, or along axes, with the same bits everywhere.

    m + log S in binary64, with m and S as in :func:`softmax`, and the logarithm by a
    fixed sequence of IEEE operations; rounded once.

    Parameters
    ----------
    x:
        As in :func:`softmax`.
    axis, keepdims, dim, keepdim, where:
        As in :func:`tcu.sum`; the order of the elements has no say.
    dtype:
        Format that the result is rounded to.  None: float32 for 16-bit
        inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x; an array of them where axes are left;
    ``out`` where it is given.  Of nothing, or of -inf alone, it is -inf; with NaN among the elements NaN, else with inf inf, as
    in PyTorch.  The gradient is :func:`softmax` times that of the result.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`; an axis twice.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.logsumexp(np.array([[0, 1], [1000, 1000]], np.float32), axis=1)
    array([   1.3132617, 1000.6932   ], dtype=float32)
    """

def segment_logsumexp(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The logarithms of the sums of exponentials of ragged segments, each with the bits that :func:`logsumexp` gives for it alone.

    Parameters, results and errors are those of :func:`logsumexp`; ``offsets`` and ``check`` those of
    :func:`segment_sum`.  That of an empty segment is -inf.  Arrays lie in the host's memory.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_logsumexp(np.array([0, 1, 7], np.float32), [0, 2, 3])
    array([1.3132617, 7.       ], dtype=float32)
    """

def mean(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The mean of all elements, or along axes: their sum as ``unit`` computes it by a plan, divided by n in binary64.

    Parameters and errors are those of :func:`tcu.sum`, and so is the plan.
    The sum in the plan's result format is not rounded before the division,
    the quotient is rounded once more, to ``dtype``.  The mean of nothing is
    NaN; a sum that overflows within the plan gives inf.  The mean of integers
    is their exact sum over n, rounded once, to float64 if no dtype is given.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.mean(np.array([[1, 2], [3, 5]], np.float16), axis=1)
    array([1.5, 4. ], dtype=float32)
    """

def segment_mean(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The means of ragged segments, each with the bits that :func:`tcu.mean` gives for it alone.

    Parameters, results and errors are those of :func:`segment_sum`; the mean
    of an empty segment is NaN, and no gradient flows through it.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_mean(np.arange(10, dtype=np.float32), [0, 4, 10])
    array([1.5, 6.5], dtype=float32)
    """

def norm(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
    return_info: bool = False,
) -> Any:
    """The Euclidean norm of all elements, or along axes: the binary64 root of what :func:`dot` adds up for x and x.

    Parameters, results and errors are those of :func:`dot`.  Nothing is
    scaled: the norm of float64 elements is inf where the sum of squares
    exceeds 2^1024 (one element of 2^512 is enough); squares of elements below
    2^-511 lose bits, and below 2^-538 all of them.  :func:`fnorm` has no such
    limits, and the other dtypes do not reach them.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.norm(np.array([3, 4], np.float16))
    np.float32(5.0)
    """

def segment_norm(
    x: Any,
    offsets: Any,
    *,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The Euclidean norms of ragged segments, each with the bits that :func:`tcu.norm` gives for it alone.

    Parameters, results and errors are those of :func:`tcu.norm`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.  The norm of an empty segment is 0.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_norm(np.array([3, 4, 5, 12], np.float32), [0, 2, 4])
    array([ 5., 13.], dtype=float32)
    """

def normalize(
    x: Any,
    axis: SupportsIndex = -1,
    *,
    eps: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
) -> Any:
    """The numbers of each row over their Euclidean norm, with the same bits everywhere.

    x · r with r = 1 / max(sqrt(s), eps) in binary64, rounded once to binary32 (binary64 where x or the
    result is float64), and s the sum of the squares as in :func:`rms_norm`.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.
    eps:
        The least that rows are divided by, 0 or more.  None: 1e-12.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  A row with NaN
    has NaN everywhere; one with inf has NaN in its place, and 0 elsewhere, as in PyTorch.  The gradient's sums are those of
    :func:`tcu.sum` along the row.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`; an eps below 0.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.normalize(np.array([[3, 4], [5, 12]], np.float32))
    array([[0.6      , 0.8      ],
           [0.3846154, 0.923077 ]], dtype=float32)
    """

def rms_norm(
    x: Any,
    axis: SupportsIndex = -1,
    *,
    eps: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
) -> Any:
    """The numbers of each row over the root of their mean square, with the same bits everywhere.

    x · r with r = 1 / sqrt(v + eps) in binary64, rounded once to binary32 (binary64 where x or the
    result is float64), and v the mean of the squares.  Each square is rounded to a
    multiple of 2^-44 (2^-80) of a power of two next to the largest square, and their sum is exact:
    so the bits of a row depend on its numbers alone, not on the batch, the layout, the
    number of threads, or whether a CPU or a GPU computes them.  Nothing overflows.

    Parameters
    ----------
    x, axis, dim, dtype, out:
        As in :func:`softmax`.  Weights are for the caller to multiply by.
    eps:
        Added to the mean square, 0 or more.  None: 2^-23, or 2^-52 in binary64.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  A row with NaN
    has NaN everywhere; one with inf has NaN in its place, and 0 elsewhere, as in PyTorch.  The gradient's
    sums are those of :func:`tcu.sum` along the row.

    Raises
    ------
    DtypeError, ParameterError:
        As :func:`softmax`; an eps below 0.
    """

def softmax(
    x: Any,
    axis: SupportsIndex = -1,
    *,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    out: Any = None,
) -> Any:
    """The exponentials of the numbers of each row, over their sum, with the same bits everywhere.

    With m, the largest number of the row: e = exp(x - m) by a fixed sequence of
    IEEE operations, S their exact sum, each rounded to a multiple of 2^-44 before
    (2^-80 in binary64), and e · (1/S).  No library's exp takes part, and an exact sum has no order:
    so the bits of a row depend on its numbers alone, not on the batch, the
    layout, the number of threads, or whether a CPU or a GPU computes them.
    Everything is binary32, or binary64 where x or the result is float64.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and strides, of
        NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`).  Gradients flow through
        PyTorch's tensors.
    axis, dim:
        The axis that rows run along, by either name.
    dtype:
        Format that the results are rounded to.  None: x's own dtype.
    out:
        An array of the same library and of x's shape that takes the result; its
        dtype stands in for ``dtype``.

    Returns
    -------
    An array of x's library and shape; ``out`` where it is given.  Errors are below
    (|x - m| + 3) · 2^-24 of each result before that rounding ((...) · 2^-53 in
    binary64), and n · 2^-45 more for rows of n numbers.  A row with NaN or inf, or of
    nothing but -inf, has NaN everywhere, as in PyTorch.  The gradient's sums
    are those of :func:`tcu.sum` along the row.

    Raises
    ------
    DtypeError, ParameterError:
        An array that cannot be summed; an axis that x does not have; an unfit
        ``out``.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([[0, 1, 2], [5, 5, 5]], np.float32)
    >>> tcu.softmax(x)
    array([[0.09003057, 0.24472848, 0.66524094],
           [0.33333334, 0.33333334, 0.33333334]], dtype=float32)
    """

def segment_softmax(
    x: Any,
    offsets: Any,
    *,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The softmax of each ragged segment, with the bits that :func:`softmax` gives for it alone.

    Parameters, results and errors are those of :func:`softmax`; ``offsets`` and ``check`` those of
    :func:`segment_sum`.  Results follow one another as the elements do.  Arrays lie in the host's memory.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_softmax(np.array([0, 1, 7], np.float32), [0, 2, 3])
    array([0.26894143, 0.7310586 , 1.        ], dtype=float32)
    """

def std(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The standard deviation of all elements, or along axes: the binary64 root of the variance, not yet rounded.

    Parameters, results and errors are those of :func:`var`.  Where it is 0, so is its gradient.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.std(np.array([1, 1, 3, 3], np.float32))
    np.float32(1.0)
    """

def segment_std(
    x: Any,
    offsets: Any,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The standard deviations of ragged segments, each with the bits that :func:`tcu.std` gives for it alone.

    Parameters, results and errors are those of :func:`segment_var`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_std(np.array([1, 3, 7, 7], np.float32), [0, 2, 4])
    array([1., 0.], dtype=float32)
    """

def std_error_bound(
    x: npt.ArrayLike,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
) -> float:
    """A bound on |tcu.std(x, ...) - exact standard deviation of x|, with the parameters of :func:`tcu.std`.

    Proved from n, the sums of |x - x[0]| and of its square, and the largest of
    them.  inf where an overflow cannot be excluded, or where the correction leaves
    nothing to divide by; NaN where x holds inf or NaN, or nothing.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(1000, dtype=np.float32)
    >>> abs(float(tcu.std(x)) - float(tcu.fstd(x, dtype=np.float64))) <= tcu.std_error_bound(x)
    True
    """

def sum(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
    return_info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """The sum of all elements by a plan, bit for bit: the same on every unit, unless a variant asks for MMAs.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape, strides and
        size, in C order; 0 elements give 0.  Integers and truth values are
        summed exactly as such, whatever the unit and the variant, to int64 or
        uint64.  Of NumPy or PyTorch, or on a
        GPU: PyTorch, CuPy, JAX, Numba, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.  The array's home decides who executes
        the plan: the model on the CPU, or that GPU; the bits are the same,
        those of variants with MMAs for a unit of the GPU's kind.  Gradients flow through PyTorch's tensors.
    axis:
        The axis or axes to sum along, as in numpy.sum; None: all of them.
        Each element of the result has the bits of this function for its row
        alone: ``tcu.sum(x, axis=-1)[i] == tcu.sum(x[i])``, the elements of
        several axes in C order.
    keepdims:
        Leave the axes that were summed in the result, with length 1.
    dim, keepdim:
        PyTorch's names of ``axis`` and ``keepdims``; any array may use them.
    where:
        Truth values that broadcast to x: only elements where they are true
        count, and each result has the bits that it has of these alone, as if
        the others were not there.  ``where=~numpy.isnan(x)`` skips NaN.  A sum
        of nothing is 0.  On a GPU it waits for the number of elements; along
        axes without ``out`` and ``return_info``; not through torch.compile.
    unit:
        A name of the catalogue, or a :class:`tcu.Unit` of your own.  None:
        "H100" on the model; on a GPU, that GPU.
    variant:
        "binary64" (by binary64 additions alone, so that no unit changes a
        bit); "short-chain" (16-bit numbers by R MMAs from zero in binary32,
        everything outside the unit by binary64 additions); "single-pass", "recurrence", "split" (Navarro et al., 5.1 to
        5.3; "single-pass-atomic" and "split-atomic" as printed, with atomic additions, whose bits on a GPU
        differ from run to run), "two-mma" (Carrasco et al., Algorithms 1 and 2), "warp-shuffle" (the
        classic reduction without MMAs).  These take float32 arrays as TF32 and
        float64 arrays by binary64 MMAs.  For float16 and bfloat16 alone:
        "reduction-16", "reduction-256", "reduction-256n" and
        "reduction-256n-work-inefficient" (Dakkak et al.), and "paper-002", the
        one of them that a table shipped with tcu names for the row's length,
        on every unit and machine.  The last three of them are the same MMAs
        up to 256 numbers and differ beyond; reduction-16 always differs, and
        never rounds partial sums to 16 bits.
    chain:
        R: MMAs in a row on one accumulator; None: the variant's default.
    block:
        B: threads per block, a multiple of 32 up to 1024; None: the default.
    accumulator:
        Format of C and D in the chains: "float32" or "float16" (binary16
        elements only); None: the widest.
    fraction:
        Share of the elements that "split" gives to the tensor cores (0.5).
    dtype:
        Format that the result is rounded to, as a dtype of NumPy or PyTorch.
        None: float32 for 16-bit inputs, x's own dtype otherwise; of integers
        int64, of unsigned ones uint64 (of tensors int64), and a float dtype
        rounds their exact sum once.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.
    return_info:
        Also return a :class:`SumInfo`; on a GPU this waits for the result.
    progress:
        Called with the number of elements just finished.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array of x's library on the same GPU, which is
    computed on the library's current stream without waiting for it; an array
    of them where axes are left; ``out`` where it is given.  With ``return_info``, (result, SumInfo).  A sum of zero
    is +0, and a NaN is the one with all fraction bits set, as tensor cores
    return it.

    Raises
    ------
    InvalidOperationError:
        The sum of integers is one that the result's dtype does not hold.  On a
        GPU, in torch.compile and for Dask arrays, where nothing waits for the
        result, it has the sum's lowest 64 bits instead.
    UnknownNameError, DtypeError, ParameterError:
        No such unit or variant; an array that cannot be summed, or for which
        the unit has no MMA; R, B, accumulator or fraction out of range; a
        unit whose bits the GPU at hand does not give; an axis that x does not
        have, or twice; an unfit ``out``.
    ShapeError:
        x is on a GPU, summed whole, and has more than eight dimensions of
        which none continues its neighbour in memory.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.full(1_000_000, 0.1, np.float16)
    >>> tcu.sum(x)
    np.float32(99975.586)
    >>> tcu.sum(x.reshape(1000, 1000), axis=0)[:2]
    array([99.975586, 99.975586], dtype=float32)
    >>> tcu.sum(x[:5000], unit="V100", variant="single-pass")
    np.float32(499.875)
    """

def segment_sum(
    x: Any,
    offsets: Any,
    *,
    unit: str | Unit | None = None,
    variant: str = "binary64",
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The sums of ragged segments of a line of numbers, each by its plan, bit for bit.

    Segment i is ``x[offsets[i]:offsets[i + 1]]``, and its sum has the bits
    that :func:`tcu.sum` gives for it alone, whatever its neighbours.

    Parameters
    ----------
    x:
        One-dimensional array of float16, bfloat16, float32 or float64, of
        NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`).  Gradients flow
        through PyTorch's tensors.
    offsets:
        One more than there are segments, from 0 to the number of elements and
        never decreasing: int32 or int64, of NumPy, PyTorch or a list in the
        host's memory, or, for x on a GPU, of x's library there.  Equal
        neighbours make an empty segment, whose sum is 0.
    unit, variant, chain, block, accumulator, fraction, dtype:
        As in :func:`tcu.sum`, for each segment; on a GPU, "binary64" and "short-chain".
    out:
        An array of the same library with an element for each segment that
        takes the result; its dtype stands in for ``dtype``.
    check:
        False: do not look at offsets in a GPU's memory, which takes waiting
        for the GPU to come to them, and cannot be done while a CUDA graph is
        captured.  A segment that ends before it begins, or elsewhere
        than in x, then gives NaN.  Offsets in the host's memory are always
        checked.

    Returns
    -------
    An array of x's library with an element for each segment; ``out`` where it
    is given.  On a GPU it is computed on the library's current stream.

    Raises
    ------
    UnknownNameError, DtypeError, ShapeError, ParameterError:
        As :func:`tcu.sum`; x of other than one dimension; offsets that do not
        cut x into segments.
    tcu.gpu.GpuError:
        x is on a GPU and the way to it is not there.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_sum(np.arange(10, dtype=np.float32), [0, 3, 3, 10])
    array([ 3.,  0., 42.], dtype=float32)
    """

def var(
    x: Any,
    axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
    *,
    keepdims: bool = False,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    dim: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keepdim: bool = False,
    where: npt.ArrayLike | Any | None = None,
    out: Any = None,
) -> Any:
    """The variance of all elements, or along axes: the mean squared deviation from their mean, by a plan, bit for bit.

    With d = x - x[0], the first element in C order, rounded to binary64: the sums of
    d and of d·d by the plan of :func:`dot` (of pairs (d, 1) and (d, d)), and of
    these (Σd² - Σd·(Σd/n)) / (n - correction) in binary64, never below 0.  One
    pass, and no cancellation of numbers far larger than the deviations: as x[0] is
    one of the elements, Σd² is at most n + 1 times the squared deviations' sum.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64, any shape and strides, of
        NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`).  Gradients flow through
        PyTorch's tensors.
    axis, keepdims, dim, keepdim, where:
        As in :func:`tcu.sum`: ``tcu.var(x, axis=-1)[i] == tcu.var(x[i])``.
    correction:
        Taken off n in the denominator: 0 for the variance of these numbers, 1
        for an unbiased estimate from a sample.  Where it leaves nothing above 0 the
        result is inf, or NaN where all elements are equal.
    block:
        B: threads per block of the plan, a multiple of 32 up to 1024; None: 256.
    dtype:
        Format that the result is rounded to.  None: float32 for 16-bit
        inputs, x's own dtype otherwise.
    out:
        An array of the same library and of the result's shape that takes the
        result; its dtype stands in for ``dtype``.

    Returns
    -------
    A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x, without waiting for it; an array of them where axes are left;
    ``out`` where it is given.  The variance of nothing is NaN, and so is one with
    an inf or NaN among the elements.  Nothing is scaled: squares of float64 deviations
    beyond 2^1024 are inf (deviations whose sum is, NaN), and below 2^-1022 they lose bits; :func:`fvar` has no
    such limits.  Of a Dask array in several chunks, or over several ranks, the
    moments of each by its own plan are merged exactly.

    Raises
    ------
    DtypeError, ParameterError:
        An array that cannot be summed; correction or B out of range; an axis that
        x does not have, or twice; an unfit ``out``.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.var(np.array([1, 2, 3, 4], np.float32)), tcu.var(np.array([1, 2, 3, 4], np.float32), correction=1)
    (np.float32(1.25), np.float32(1.6666666))
    """

def segment_var(
    x: Any,
    offsets: Any,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
    out: Any = None,
    check: bool = True,
) -> Any:
    """The variances of ragged segments, each with the bits that :func:`tcu.var` gives for it alone.

    Parameters, results and errors are those of :func:`tcu.var`; ``offsets`` and
    ``check`` those of :func:`segment_sum`.  The variance of an empty segment is NaN, and
    no gradient flows through it.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.segment_var(np.array([1, 2, 3, 7, 7], np.float32), [0, 3, 5])
    array([0.6666667, 0.       ], dtype=float32)
    """

def var_error_bound(
    x: npt.ArrayLike,
    *,
    correction: float = 0.0,
    block: int | None = None,
    dtype: npt.DTypeLike | Any = None,
) -> float:
    """A bound on |tcu.var(x, ...) - exact variance of x|, with the parameters of :func:`tcu.var`.

    Proved from n, the sums of |x - x[0]| and of its square, and the largest of
    them.  inf where an overflow cannot be excluded, or where the correction leaves
    nothing to divide by; NaN where x holds inf or NaN, or nothing.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(1000, dtype=np.float32)
    >>> abs(float(tcu.var(x)) - float(tcu.fvar(x, dtype=np.float64))) <= tcu.var_error_bound(x)
    True
    """
