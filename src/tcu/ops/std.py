"""``std``: the root of the variance, by a plan."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_VARIANCE

__all__ = ["STD"]

_FUNCTION = """The standard deviation of all elements, or along axes: the binary64 root of the variance, not yet rounded.

Parameters, results and errors are those of :func:`var`.  Where it is 0, so is its gradient.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.std(np.array([1, 1, 3, 3], np.float32))
np.float32(1.0)
"""

_SEGMENTS = """The standard deviations of ragged segments, each with the bits that :func:`tcu.std` gives for it alone.

Parameters, results and errors are those of :func:`segment_var`.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_std(np.array([1, 3, 7, 7], np.float32), [0, 2, 4])
array([1., 0.], dtype=float32)
"""

STD = register(Operation(
    "std", term="moments", finish="deviation", options=OF_A_VARIANCE,
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
