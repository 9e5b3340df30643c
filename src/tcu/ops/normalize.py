"""``normalize``: rows over their Euclidean norm."""

from __future__ import annotations

from tcu.ops.layout import Along
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_NORM

__all__ = ["NORMALIZE"]

_FUNCTION = """The numbers of each row over their Euclidean norm, with the same bits everywhere.

x · r with r = 1 / max(sqrt(s), eps) in binary64, rounded once to binary32 (binary64 where x or the
result is float64), and s the sum of the squares as in :func:`rms_norm`.

Parameters
----------
x, axis, dim, dtype, out:
    As in :func:`softmax`.
eps:
    The least that rows are divided by, 0 or more.  None: 1e-12.

Returns
-------
An array of x's library and shape; ``out`` where it is given.  A row with NaN
has NaN everywhere; one with inf has NaN in its place, and 0 elsewhere, as in PyTorch.  The gradient's sums are those of
:func:`tcu.sum` along the row.

Raises
------
DtypeError, ParameterError:
    As :func:`softmax`; an eps below 0.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.normalize(np.array([[3, 4], [5, 12]], np.float32))
array([[0.6      , 0.8      ],
       [0.3846154, 0.923077 ]], dtype=float32)
"""

NORMALIZE = register(Operation(
    "normalize", kind="map", arithmetic="norms", finish="direction", options=OF_A_NORM, layouts=(Along,),
    documentation=_FUNCTION,
))  # fmt: skip
