"""``fnorm``: the correctly rounded Euclidean norm."""

from __future__ import annotations

from tcu.ops.operation import Operation, register

__all__ = ["FNORM"]

_FUNCTION = """The Euclidean norm of all elements, or along axes: the root of the exact sum of squares, rounded once.

Parameters, results and errors are those of :func:`fdot`; no square
overflows or underflows on the way.  inf where an element is, NaN where
one is NaN, +0 for no elements.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.fnorm(np.array([3, 4]) * 2.0**600) / 2.0**600  # their squares overflow
np.float64(5.0)
"""

_SEGMENTS = """The Euclidean norms of ragged segments: the roots of the exact sums of squares, each rounded once.

Parameters, results and errors are those of :func:`tcu.fnorm`; ``offsets`` and
``check`` those of :func:`segment_sum`.  The norm of an empty segment is 0.
Arrays on a GPU are refused: there is no kernel.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_fnorm(np.array([3, 4, 5, 12], np.float32), [0, 2, 4])
array([ 5., 13.], dtype=float32)
"""

FNORM = register(Operation(
    "fnorm", arithmetic="exact", term="square", finish="root",
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
