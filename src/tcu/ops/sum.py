"""``sum``: a sum as a tensor core would compute it."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_PLANNED_SUM

__all__ = ["SUM"]

_FUNCTION = """The sum of all elements by a plan, bit for bit: the same on every unit, unless a variant asks for MMAs.

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

_SEGMENTS = """The sums of ragged segments of a line of numbers, each by its plan, bit for bit.

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

SUM = register(Operation(
    "sum", options=OF_A_PLANNED_SUM, details=("return_info", "progress"),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
