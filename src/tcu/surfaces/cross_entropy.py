"""``tcu.cross_entropy``: made of the logarithms of softmax and of exact sums, so that each loss depends on its row alone."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.tensor import is_tensor
from tcu.ops.layout import axis_number
from tcu.surfaces import functions
from tcu.surfaces.one_library import as_array, library_of

__all__ = [
    "Reduction",
    "check_options",
    "check_target",
    "classes_of",
    "cross_entropy",
    "losses_of",
    "reduced",
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
    say either; the mean divides it by the number of rows that are not ignored.  The same on CPUs and GPUs.

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
        s, 0 to 1: (1 - s) times the loss and s times the mean of the losses of all classes, which is exact
        (:func:`fmean`).
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
    check_options(label_smoothing, z_loss, reduction)
    library = library_of(
        {"x": x, "target": target},
        "cross_entropy takes two arrays in the host's memory, or two tensors: make both tensors, with torch.from_dlpack",
    )
    tensors = library is not np
    x, target = as_array(x), as_array(target)
    axis = axis_number(axis, x.ndim)
    check_target(x, target, axis)
    count = x.shape[axis]
    work = "float64" if "float64" in str(x.dtype) else "float32"
    logs = functions.log_softmax(x, axis, dtype=work)
    counted, fits = classes_of(target, count, ignore_index, wait=not (tensors and x.is_cuda))
    place = library.where(counted & fits, target, 0)
    if tensors:
        place = place.to(library.int64)
        found = (
            library.take_along_dim(logs, place.unsqueeze(axis), axis).squeeze(axis)
            if count
            else logs.sum(axis)
        )
    else:
        places = np.expand_dims(place, axis)
        found = np.take_along_axis(logs, places, axis).squeeze(axis) if count else logs.sum(axis)
    others = functions.fmean(logs, axis) if label_smoothing else None
    totals = functions.logsumexp(x, axis, dtype=work) if z_loss else None
    losses = losses_of(library, found, others, totals, counted, fits, label_smoothing, z_loss)
    return reduced(losses, counted, reduction)


def classes_of(target: Any, count: int, ignore_index: int, *, wait: bool) -> tuple[Any, Any]:
    """(which rows count, which targets are classes); raises ParameterError, if ``wait``, for one that should be."""
    counted = target != ignore_index
    fits = (target >= 0) & (target < count)
    if wait and not bool((fits | ~counted).all()):
        raise ParameterError(
            f"a target is none of the {count} classes, from 0, and not ignore_index={ignore_index}"
        )
    return counted, fits


def losses_of(
    library: Any, found: Any, others: Any, totals: Any, counted: Any, fits: Any, label_smoothing: float, z_loss: float
) -> Any:  # fmt: skip
    """Of rows: from the logarithms of the targets, the means of those of all classes, and log-sum-exps."""
    losses = -found
    if label_smoothing:
        losses = losses * (1 - label_smoothing) + -others * label_smoothing
    if z_loss:
        losses = losses + totals * totals * z_loss
    losses = library.where(counted & ~fits, float("nan"), losses)
    return library.where(counted, losses, library.zeros_like(losses))


def reduced(losses: Any, counted: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    total = functions.fsum(losses)
    if reduction == "sum":
        return total
    with np.errstate(all="ignore"):
        rows = counted.sum()
        return total / (rows.to(losses.dtype) if is_tensor(losses) else losses.dtype.type(rows))


def check_options(label_smoothing: float, z_loss: float, reduction: str) -> None:
    if not 0 <= label_smoothing <= 1:
        raise ParameterError(f"label_smoothing={label_smoothing!r}: choose 0 to 1")
    if not 0 <= z_loss < float("inf"):
        raise ParameterError(f"z_loss={z_loss!r}: give a number from 0 up, such as 1e-4")
    if reduction not in get_args(Reduction):
        raise ParameterError(f"reduction={reduction!r}: choose 'mean', 'sum' or 'none'")


def check_target(x: Any, target: Any, axis: int) -> None:
    """Raises ShapeError or DtypeError."""
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    if tuple(target.shape) != rows:
        raise ShapeError(f"target has shape {tuple(target.shape)}: give one class for each row, {rows}")
    if "int" not in str(target.dtype):
        raise DtypeError(f"target has dtype {target.dtype}: give whole numbers, the classes' places")
