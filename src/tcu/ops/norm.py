"""``norm``: the root of squares added up by a plan."""

from __future__ import annotations

from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_PRODUCT

__all__ = ["NORM"]

_FUNCTION = """The Euclidean norm of all elements, or along axes: the binary64 root of what :func:`dot` adds up for x and x.

Parameters, results and errors are those of :func:`dot`.  Nothing is
scaled: the norm of float64 elements is inf where the sum of squares
exceeds 2^1024 (one element of 2^512 is enough); squares of elements below
2^-511 lose bits, and below 2^-538 all of them.  :func:`fnorm` has no such
limits, and the other dtypes do not reach them.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.norm(np.array([3, 4], np.float16))
np.float32(5.0)
"""

_SEGMENTS = """The Euclidean norms of ragged segments, each with the bits that :func:`tcu.norm` gives for it alone.

Parameters, results and errors are those of :func:`tcu.norm`; ``offsets`` and
``check`` those of :func:`segment_sum`.  The norm of an empty segment is 0.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_norm(np.array([3, 4, 5, 12], np.float32), [0, 2, 4])
array([ 5., 13.], dtype=float32)
"""

NORM = register(Operation(
    "norm", term="square", finish="root", options=OF_A_PRODUCT, details=("return_info",),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
