"""``softmax``: the exponentials of a row, over their sum."""

from __future__ import annotations

from tcu.ops.layout import Along, Ragged
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_EXPONENTIALS

__all__ = ["SOFTMAX"]

_FUNCTION = """The exponentials of the numbers of each row, over their sum, with the same bits everywhere.

With m, the largest number of the row: e = exp(x - m) by a fixed sequence of
IEEE operations, S their exact sum, each rounded to a multiple of 2^-44 before
(2^-80 in binary64), and e · (1/S).  No library's exp takes part, and an exact sum has no order:
so the bits of a row depend on its numbers alone, not on the batch, the
layout, the number of threads, or whether a CPU or a GPU computes them.
Everything is binary32, or binary64 where x or the result is float64.

Parameters
----------
x:
    Array of float16, bfloat16, float32 or float64, any shape and strides, of
    NumPy or PyTorch, or on a GPU (as :func:`tcu.sum`).  Gradients flow through
    PyTorch's tensors.
axis, dim:
    The axis that rows run along, by either name.
dtype:
    Format that the results are rounded to.  None: x's own dtype.
out:
    An array of the same library and of x's shape that takes the result; its
    dtype stands in for ``dtype``.

Returns
-------
An array of x's library and shape; ``out`` where it is given.  Errors are below
(|x - m| + 3) · 2^-24 of each result before that rounding ((...) · 2^-53 in
binary64), and n · 2^-45 more for rows of n numbers.  A row with NaN or inf, or of
nothing but -inf, has NaN everywhere, as in PyTorch.  The gradient's sums
are those of :func:`tcu.sum` along the row.

Raises
------
DtypeError, ParameterError:
    An array that cannot be summed; an axis that x does not have; an unfit
    ``out``.

Examples
--------
>>> import numpy as np, tcu
>>> x = np.array([[0, 1, 2], [5, 5, 5]], np.float32)
>>> tcu.softmax(x)
array([[0.09003057, 0.24472848, 0.66524094],
       [0.33333334, 0.33333334, 0.33333334]], dtype=float32)
"""

_SEGMENTS = """The softmax of each ragged segment, with the bits that :func:`softmax` gives for it alone.

Parameters, results and errors are those of :func:`softmax`; ``offsets`` and ``check`` those of
:func:`segment_sum`.  Results follow one another as the elements do.  Arrays lie in the host's memory.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_softmax(np.array([0, 1, 7], np.float32), [0, 2, 3])
array([0.26894143, 0.7310586 , 1.        ], dtype=float32)
"""

SOFTMAX = register(Operation(
    "softmax", kind="map", arithmetic="exponentials", finish="share", options=OF_EXPONENTIALS, layouts=(Along, Ragged),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
