"""``fvar``: the correctly rounded variance."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_AN_EXACT_VARIANCE

__all__ = ["FVAR"]

_FUNCTION = """The variance of all elements, or along axes, rounded once: one answer, whatever the order, split or machine.

From the exact sums of the elements and of their squares.  Parameters are those
of :func:`var`, without ``block``; the correction counts as the binary64 number
that it is.  No square overflows or underflows on the way.  The variance of
nothing is NaN, and so is one with an inf or NaN among the elements.

Raises
------
DtypeError, ParameterError:
    As :func:`var`; x is on a GPU, for which there is no kernel yet.

Examples
--------
>>> import numpy as np, tcu
>>> x = np.array([1, 2, 3, 4]) + 1e9
>>> tcu.fvar(x)
np.float64(1.25)
"""

_SEGMENTS = """The variances of ragged segments, rounded once, each with the bits of :func:`tcu.fvar` for it alone.

Parameters, results and errors are those of :func:`tcu.fvar`; ``offsets`` and
``check`` those of :func:`segment_sum`.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_fvar(np.array([1, 2, 3, 7, 7], np.float32), [0, 3, 5])
array([0.6666667, 0.       ], dtype=float32)
"""

FVAR = register(Operation(
    "fvar", arithmetic="exact", term="moments", finish="variance", options=OF_AN_EXACT_VARIANCE,
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
