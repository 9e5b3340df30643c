"""``tcu.cross_entropy``: losses that depend on their rows alone, and their exact sum."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from tcu.engines import host
from tcu.errors import ParameterError
from tcu.formats.array import whole_number
from tcu.formats.tensor import is_tensor
from tcu.model.elements import Elements
from tcu.ops.layout import Along, row_axis
from tcu.plan.losses import Weights
from tcu.surfaces import functions
from tcu.surfaces.call import losses_of_tensors
from tcu.surfaces.classes import check_classes, check_target, classes_of
from tcu.surfaces.one_library import as_array, ieee_of_arrays, library_of

__all__ = [
    "Reduction",
    "cross_entropy",
    "reduced",
    "weights_of",
]

Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    x: Any,
    target: Any,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Any:
    """The losses of classes that were to be predicted, with the same bits everywhere.

    Of each row: -log_softmax(x)[target] in binary32 (binary64 where x is float64), by :func:`log_softmax`, so
    that its bits depend on the row and its target alone.  Their sum is exact (:func:`fsum`), so their order has no
    say either; the mean divides it by the number of rows that are not ignored.  The same on CPUs and GPUs, where
    a kernel reads each row once, and one for the gradient reads it once more.

    Parameters
    ----------
    x:
        Array of float16, bfloat16, float32 or float64 of NumPy, or a tensor of
        PyTorch, through which gradients flow, with numbers for the classes along ``axis``.
    target:
        Whole numbers, the class of each row: of x's library and of x's shape without ``axis``.
    axis:
        The axis of the classes.
    label_smoothing:
        s, 0 to 1: (1 - s) times the loss and s times the mean of the losses of all classes, whose sum
        has no order either.
    z_loss:
        Times log-sum-exp squared, which is added.
    ignore_index:
        A target whose row has the loss 0 and does not count.
    reduction:
        "mean", "sum", or "none": the loss of each row.

    Returns
    -------
    A number of float32, or of float64 where x is; without a reduction an array of them.  The mean of nothing is NaN.
    A target that is no class raises ParameterError in the host's memory, and gives NaN in a GPU's, which nobody waits for.

    Raises
    ------
    ShapeError, DtypeError, ParameterError:
        A target of another shape, or of no whole numbers; options that cannot be; arrays of other libraries.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> logits = np.array([[2, 0, 0], [0, 0, 3]], np.float32)
    >>> tcu.cross_entropy(logits, np.array([0, 2]))
    np.float32(0.16723385)
    """
    weights = weights_of(label_smoothing, z_loss, ignore_index, reduction)
    library = library_of(
        {"x": x, "target": target},
        "cross_entropy takes two arrays in the host's memory, or two tensors: make both tensors, with torch.from_dlpack",
    )
    x, target = as_array(x, "x"), as_array(target, "target")
    axis = row_axis(Along(axis), x.ndim)
    check_target(x, target, axis)
    target = classes_of(target, weights.ignore_index)
    if library is np:
        rows = Elements(x).array
        check_classes(target, x.shape[axis], weights.ignore_index)
        losses = host.cross_entropy(rows, target, axis, weights)[0]
    else:
        losses = losses_of_tensors[0](x, target, axis, weights)
    losses = losses if losses.ndim else losses[()]
    return reduced(losses, target != weights.ignore_index, reduction)


@ieee_of_arrays
def reduced(losses: Any, counted: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    total = functions.fsum(losses)
    if reduction == "sum":
        return total
    rows = counted.sum()
    if is_tensor(losses):
        # Of lines of one number, as PyTorch's quotients of an empty batch of numbers by one number are errors.
        return (total.reshape(1) / rows.to(losses.dtype).reshape(1)).reshape(())
    with np.errstate(all="ignore"):
        return total / losses.dtype.type(rows)


def weights_of(label_smoothing: Any, z_loss: Any, ignore_index: Any, reduction: Any) -> Weights:
    """The options that decide on each row's loss; raises ParameterError for those that cannot be."""
    if not isinstance(label_smoothing, Real) or not 0 <= float(label_smoothing) <= 1:
        raise ParameterError(f"label_smoothing={label_smoothing!r}: choose 0 to 1")
    if not isinstance(z_loss, Real) or not 0 <= float(z_loss) < float("inf"):
        raise ParameterError(f"z_loss={z_loss!r}: give a number from 0 up, such as 1e-4")
    ignored = whole_number(ignore_index)
    if ignored is None or not -(1 << 63) <= ignored < 1 << 63:
        raise ParameterError(
            f"ignore_index={ignore_index!r}: give a whole number of 64 bits with a sign, such as -100"
        )
    if reduction not in get_args(Reduction):
        raise ParameterError(f"reduction={reduction!r}: choose 'mean', 'sum' or 'none'")
    return Weights(float(label_smoothing), float(z_loss), ignored)
