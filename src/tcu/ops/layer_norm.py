"""``layer_norm``: rows of mean 0 and variance 1."""

from __future__ import annotations

from tcu.ops.layout import Along
from tcu.ops.operation import Operation, register
from tcu.ops.options import OF_A_NORM

__all__ = ["LAYER_NORM"]

_FUNCTION = """The numbers of each row less their mean, over the root of their variance, with the same bits everywhere.

d · r, with d = x - mean and r and v of d as in :func:`rms_norm`.  The mean is taken off in two parts, of binary64 the
second from the exact sum: of numbers far larger than their deviations as many bits are left as x has.

Parameters
----------
x, axis, dim, dtype, out:
    As in :func:`softmax`.  Weights and a bias are for the caller to apply.
eps:
    Added to the variance, 0 or more.  None: 1e-5.

Returns
-------
An array of x's library and shape; ``out`` where it is given.  A row with NaN
or inf has NaN everywhere, as in PyTorch.  The gradient's sums are those of :func:`tcu.sum` along the row.

Raises
------
DtypeError, ParameterError:
    As :func:`softmax`; an eps below 0.
"""

LAYER_NORM = register(Operation(
    "layer_norm", kind="map", arithmetic="norms", finish="standard", options=OF_A_NORM, layouts=(Along,),
    documentation=_FUNCTION,
))  # fmt: skip
