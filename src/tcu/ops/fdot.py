"""``fdot``: the correctly rounded dot product."""

from __future__ import annotations

from tcu.ops.operation import Operation, register

__all__ = ["FDOT"]

_FUNCTION = """The dot product of x and y, rounded once: one answer, whatever the order, split or machine.

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

_SEGMENTS = """The dot products of ragged segments of two lines, each rounded once.

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

FDOT = register(Operation(
    "fdot", arithmetic="exact", operands=("x", "y"), term="product",
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
