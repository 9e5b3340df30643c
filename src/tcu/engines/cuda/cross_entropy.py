"""Losses of rows with a class each, and their gradients, of tensors in a GPU's memory."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.rows import rows_along
from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format
from tcu.gpu.cross_entropy import cross_entropy_recipe, gradient_recipe
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.rows_in_registers import Rows
from tcu.plan.losses import Weights

__all__ = ["cross_entropy", "cross_entropy_gradient"]


def cross_entropy(x: Any, target: Any, axis: int, weights: Weights) -> tuple[Any, Any]:
    """(the losses of the rows along an axis that is not negative, three numbers for each that gradients are made of)."""
    library, ordinal = home_of((x,))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        at = rows_along(library, x, axis, stream)
        shape, work = tuple(target.shape), np.dtype(np.float64 if at.element.bits == 64 else np.float32)
        classes = _line(target)
        losses, out = library.empty(x, shape, work, ordinal)
        parts, beside = library.empty(x, (*shape, 3), work, ordinal)
        if at.rows.count:
            launch = _losses(at.rows, at.element, weights, ordinal)
            launch.start(at.address, classes.data_ptr(), out, stream, beside)
        return losses, parts


def cross_entropy_gradient(given: Any, x: Any, target: Any, parts: Any, axis: int, weights: Weights) -> Any:
    """Of x and in its format, from the gradients of the losses and what was kept of the rows."""
    library, ordinal = home_of((x,))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        at = rows_along(library, x, axis, stream)
        classes = _line(target)
        together = sys.modules["torch"].cat([parts.detach(), given.detach().unsqueeze(-1)], -1)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis])
        result, out = library.empty(x, shape, at.element.dtype, ordinal)
        if at.rows.count and at.rows.length:
            launch = _gradients(at.rows, at.element, weights, ordinal)
            launch.start(at.address, classes.data_ptr(), out, stream, together.data_ptr())
        return result.movedim(-1, axis)


def _line(target: Any) -> Any:
    return target.detach().to(sys.modules["torch"].int64).contiguous()


@lru_cache(maxsize=1024)
def _losses(rows: Rows, element: Format, weights: Weights, ordinal: int) -> Launch:
    gpu = find_gpu(ordinal)
    return Launch(cross_entropy_recipe(rows, element, weights, gpu), gpu)


@lru_cache(maxsize=1024)
def _gradients(rows: Rows, element: Format, weights: Weights, ordinal: int) -> Launch:
    return Launch(gradient_recipe(rows, element, weights), find_gpu(ordinal))
