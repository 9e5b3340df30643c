"""``var``: the mean squared deviation, by a plan."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_VARIANCE

__all__ = ["VAR"]

_FUNCTION = """The variance of all elements, or along axes: the mean squared deviation from their mean, by a plan, bit for bit.

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

_SEGMENTS = """The variances of ragged segments, each with the bits that :func:`tcu.var` gives for it alone.

Parameters, results and errors are those of :func:`tcu.var`; ``offsets`` and
``check`` those of :func:`segment_sum`.  The variance of an empty segment is NaN, and
no gradient flows through it.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_var(np.array([1, 2, 3, 7, 7], np.float32), [0, 3, 5])
array([0.6666667, 0.       ], dtype=float32)
"""

VAR = register(Operation(
    "var", term="moments", finish="variance", options=OF_A_VARIANCE,
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
