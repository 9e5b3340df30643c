"""``fstd``: the correctly rounded standard deviation."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_AN_EXACT_VARIANCE

__all__ = ["FSTD"]

_FUNCTION = """The standard deviation of all elements, or along axes: the root of the exact variance, rounded once.

Parameters, results and errors are those of :func:`fvar`.  Where it is 0, so is its gradient.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.fstd(np.array([1, 1, 3, 3]) + 1e9)
np.float64(1.0)
"""

_SEGMENTS = """The standard deviations of ragged segments, rounded once, each with the bits of :func:`tcu.fstd` for it alone.

Parameters, results and errors are those of :func:`segment_fvar`.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_fstd(np.array([1, 3, 7, 7], np.float32), [0, 2, 4])
array([1., 0.], dtype=float32)
"""

FSTD = register(Operation(
    "fstd", arithmetic="exact", term="moments", finish="deviation", options=OF_AN_EXACT_VARIANCE,
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
