"""``fsum``: the correctly rounded sum."""

from __future__ import annotations

from tcu.ops.operation import Operation, register

__all__ = ["FSUM"]

_FUNCTION = """The sum of all elements, or along axes, rounded once: one answer, whatever the order, split or machine.

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

_SEGMENTS = """The exact sums of ragged segments, each rounded once: one answer, whatever the order or machine.

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

FSUM = register(Operation(
    "fsum", arithmetic="exact",
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
