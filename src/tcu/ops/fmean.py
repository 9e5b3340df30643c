"""``fmean``: the correctly rounded mean."""

from __future__ import annotations

from tcu.ops.operation import Operation, register

__all__ = ["FMEAN"]

_FUNCTION = """The mean of all elements, or along axes, the exact sum divided by n and rounded once.

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

_SEGMENTS = """The means of ragged segments, the exact sums divided by the lengths and rounded once.

As :func:`segment_fsum`, with the bits of :func:`tcu.fmean`; the mean of an empty segment is NaN.

Examples
--------
>>> import numpy as np, tcu
>>> x = np.array([1e8, 1, -1e8, 1], np.float32)
>>> tcu.segment_fmean(x, [0, 3, 4])
array([0.33333334, 1.        ], dtype=float32)
"""

FMEAN = register(Operation(
    "fmean", arithmetic="exact", finish="mean",
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
