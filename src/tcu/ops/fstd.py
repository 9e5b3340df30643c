"""``fstd``: the correctly rounded standard deviation."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_AN_EXACT_VARIANCE

__all__ = ["FSTD"]

_FUNCTION = """The standard deviation of all elements, or along axes: the root of the exact variance, rounded once.

Parameters, results and errors are those of :func:`fvar`.  Where it is 0, so is its gradient.
"""

_SEGMENTS = """The standard deviations of ragged segments, rounded once, each with the bits of :func:`tcu.fstd` for it alone.

Parameters, results and errors are those of :func:`segment_fvar`.
"""

FSTD = register(Operation(
    "fstd", arithmetic="exact", term="moments", finish="deviation", options=OF_AN_EXACT_VARIANCE,
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
