"""``log_softmax``: the logarithms of a row's softmax."""

from __future__ import annotations

from tcu.ops.layout import Along
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_EXPONENTIALS

__all__ = ["LOG_SOFTMAX"]

_FUNCTION = """The logarithms of the softmax of each row, with the same bits everywhere.

(x - m) - log S, with m and S as in :func:`softmax`, and the logarithm in binary64 by
a fixed sequence of IEEE operations, rounded once to the format of x - m.

Parameters
----------
x, axis, dim, dtype, out:
    As in :func:`softmax`.

Returns
-------
An array of x's library and shape; ``out`` where it is given.  An element
-inf has -inf; a row with NaN or inf, or of nothing but -inf, has NaN everywhere, as in PyTorch.
The gradient's sums are those of :func:`tcu.sum` along the row.

Raises
------
DtypeError, ParameterError:
    As :func:`softmax`.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.log_softmax(np.array([0, 1, 2], np.float32))
array([-2.407606  , -1.407606  , -0.40760598], dtype=float32)
"""

LOG_SOFTMAX = register(Operation(
    "log_softmax", kind="map", arithmetic="exponentials", finish="log_share", options=OF_EXPONENTIALS, layouts=(Along,),
    documentation=_FUNCTION,
))  # fmt: skip
