"""``fcumsum``: correctly rounded running sums."""

from __future__ import annotations

from tcu.ops.layout import Along, Ragged
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_AN_EXACT_SCAN

__all__ = ["FCUMSUM"]

_FUNCTION = """The running sums of all elements in C order, or along an axis, each rounded once from the exact sum.

Element i is ``tcu.fsum(x[: i + 1])``, bit for bit, however long the row is
and however many threads there are.

Parameters
----------
x, axis, dim, exclusive, reverse, out, progress:
    As in :func:`tcu.cumsum`; integers and truth values are summed exactly.
dtype:
    Format that each running sum is rounded to directly.  None: float32 for
    16-bit inputs, x's own dtype otherwise.

Returns
-------
An array of x's library and shape, with ``axis=None`` one line of x's
elements; ``out`` where it is given.  Nothing overflows on the way: a sum
beyond the largest number of ``dtype`` is inf there, and those behind it need
not be.  From an inf on sums are inf, and NaN from the first NaN on, or where
inf and -inf have met.  Zero sums are +0.

Raises
------
DtypeError, ParameterError:
    An array that cannot be summed, or on a GPU, for which there is no kernel;
    an axis that x does not have; an unfit ``out``.

Examples
--------
>>> import numpy as np, tcu
>>> x = np.array([1, 2.0**-53, 2.0**-53])
>>> tcu.fcumsum(x) - 1, tcu.cumsum(x) - 1
(array([0.00000000e+00, 0.00000000e+00, 2.22044605e-16]), array([0., 0., 0.]))
"""

_SEGMENTS = """The running sums within ragged segments of a line of numbers, each rounded once.

Segment i is ``x[offsets[i]:offsets[i + 1]]``, and its results have the
bits that :func:`tcu.fcumsum` gives for it alone.  Parameters, results and
errors are those of :func:`segment_cumsum`; arrays on a GPU are refused.

Examples
--------
>>> import numpy as np, tcu
>>> tcu.segment_fcumsum(np.array([1, 1e100, -1e100, 1]), [0, 1, 4])
array([1.e+000, 1.e+100, 0.e+000, 1.e+000])
"""

FCUMSUM = register(Operation(
    "fcumsum", kind="scan", arithmetic="exact", options=OF_AN_EXACT_SCAN, details=("progress",), layouts=(Along, Ragged),
    documentation=_FUNCTION, segments=_SEGMENTS,
))  # fmt: skip
