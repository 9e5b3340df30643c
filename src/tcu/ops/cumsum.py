"""``cumsum``: running sums by binary64 additions."""

from __future__ import annotations

from tcu.ops.layout import Along, Ragged
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_SCAN

__all__ = ["CUMSUM"]

_FUNCTION = """The running sums of all elements in C order, or along an axis: in binary64, rounded once, unless a variant asks for MMAs.

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

_SEGMENTS = """The running sums within ragged segments of a line of numbers.

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

CUMSUM = register(Operation(
    "cumsum", kind="scan", options=OF_A_SCAN, details=("return_info", "progress"), layouts=(Along, Ragged),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
