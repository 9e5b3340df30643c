"""``rms_norm``: rows over the root of their mean square."""

from __future__ import annotations

from tcu.ops.layout import Along
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_NORM

__all__ = ["RMS_NORM"]

_FUNCTION = """The numbers of each row over the root of their mean square, with the same bits everywhere.

x · r with r = 1 / sqrt(v + eps) in binary64, rounded once to binary32 (binary64 where x or the
result is float64), and v the mean of the squares.  Each square is rounded to a
multiple of 2^-44 (2^-80) of a power of two next to the largest square, and their sum is exact:
so the bits of a row depend on its numbers alone, not on the batch, the layout, the
number of threads, or whether a CPU or a GPU computes them.  Nothing overflows.

Parameters
----------
x, axis, dim, dtype, out:
    As in :func:`softmax`.  Weights are for the caller to multiply by.
eps:
    Added to the mean square, 0 or more.  None: 2^-23, or 2^-52 in binary64.

Returns
-------
An array of x's library and shape; ``out`` where it is given.  A row with NaN
has NaN everywhere; one with inf has NaN in its place, and 0 elsewhere, as in PyTorch.  The gradient's
sums are those of :func:`tcu.sum` along the row.

Raises
------
DtypeError, ParameterError:
    As :func:`softmax`; an eps below 0.
"""

RMS_NORM = register(Operation(
    "rms_norm", kind="map", arithmetic="norms", finish="unit", options=OF_A_NORM, layouts=(Along,), documentation=_FUNCTION,
))  # fmt: skip
