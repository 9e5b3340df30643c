"""``dot``: products added up by a plan."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_PRODUCT

__all__ = ["DOT"]

_FUNCTION = """The dot product of x and y by a plan of binary64 fused multiply-adds and additions, bit for bit.

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

_SEGMENTS = """The dot products of ragged segments of two lines, each with the bits that :func:`tcu.dot` gives for it alone.

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

DOT = register(Operation(
    "dot", operands=("x", "y"), term="product", options=OF_A_PRODUCT, details=("return_info",),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
