"""``logsumexp``: the logarithm of a sum of exponentials."""

from __future__ import annotations

from tcu.ops.layout import Along, Ragged, Whole
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_EXPONENTIALS

__all__ = ["LOGSUMEXP"]

_FUNCTION = """The logarithm of the sum of the exponentials of all elements, or along axes, with the same bits everywhere.

m + log S in binary64, with m and S as in :func:`softmax`, and the logarithm by a
fixed sequence of IEEE operations; rounded once.

Parameters
----------
x:
    As in :func:`softmax`.
axis, keepdims, dim, keepdim, where:
    As in :func:`tcu.sum`; the order of the elements has no say.
dtype:
    Format that the result is rounded to.  None: float32 for 16-bit
    inputs, x's own dtype otherwise.
out:
    An array of the same library and of the result's shape that takes the
    result; its dtype stands in for ``dtype``.

Returns
-------
A NumPy scalar, a 0-d tensor, or a 0-d array on the GPU of x; an array of them where axes are left;
``out`` where it is given.  Of nothing, or of -inf alone, it is -inf; with NaN among the elements NaN, else with inf inf, as
in PyTorch.  The gradient is :func:`softmax` times that of the result.

Raises
------
DtypeError, ParameterError:
    As :func:`softmax`; an axis twice.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.logsumexp(np.array([[0, 1], [1000, 1000]], np.float32), axis=1)
array([   1.3132617, 1000.6932   ], dtype=float32)
"""

_SEGMENTS = """The logarithms of the sums of exponentials of ragged segments, each with the bits that :func:`logsumexp` gives for it alone.

Parameters, results and errors are those of :func:`logsumexp`; ``offsets`` and ``check`` those of
:func:`segment_sum`.  That of an empty segment is -inf.  Arrays lie in the host's memory.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_logsumexp(np.array([0, 1, 7], np.float32), [0, 2, 3])
array([1.3132617, 7.       ], dtype=float32)
"""

LOGSUMEXP = register(Operation(
    "logsumexp", arithmetic="exponentials", finish="log", options=OF_EXPONENTIALS, layouts=(Whole, Along, Ragged),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
