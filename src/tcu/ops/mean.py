"""``mean``: a sum by a plan, divided by n in binary64."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_PLANNED_SUM

__all__ = ["MEAN"]

_FUNCTION = """The mean of all elements, or along axes: their sum as ``unit`` computes it by a plan, divided by n in binary64.

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

_SEGMENTS = """The means of ragged segments, each with the bits that :func:`tcu.mean` gives for it alone.

Parameters, results and errors are those of :func:`segment_sum`; the mean
of an empty segment is NaN, and no gradient flows through it.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_mean(np.arange(10, dtype=np.float32), [0, 4, 10])
array([1.5, 6.5], dtype=float32)
"""

MEAN = register(Operation(
    "mean", finish="mean", options=OF_A_PLANNED_SUM, details=("return_info", "progress"),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
