"""``fmean``: the correctly rounded mean."""

from __future__ import annotations

from tcu.ops.operation import Operation, register

__all__ = ["FMEAN"]

_FUNCTION = """The mean of all elements, or along axes, the exact sum divided by n and rounded once.

Parameters, results and errors are those of :func:`fsum`; the mean of
nothing is NaN, and a mean is inf only where an element is, or where
``dtype`` is too narrow for it.
"""

_SEGMENTS = """The means of ragged segments, the exact sums divided by the lengths and rounded once.

As :func:`segment_fsum`, with the bits of :func:`tcu.fmean`; the mean of an empty segment is NaN.
"""

FMEAN = register(Operation(
    "fmean", arithmetic="exact", finish="mean",
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
