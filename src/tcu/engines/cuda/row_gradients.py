"""Gradients of softmax, of logarithms of exponentials and of norms of rows, of tensors in a GPU's memory, in one launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.row_functions import address_of, line_beside
from tcu.engines.cuda.rows import rows_along
from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import log_gradients_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.row_gradients import LONGEST, row_gradients_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.ops.result import rounding_target

__all__ = ["log_gradient", "row_gradient"]


def log_gradient(finish: str, x: Any, axis: int, factors: Any, given: Any, dtype: Any) -> Any:
    """The gradients of logarithms of shares of rows, or of their sums; None where no kernel serves: of binary64, of nothing.

    ``axis`` is not negative.  factors: a number for each row, in binary32: the sum of its gradients, or the gradient of its sum;
    given: the gradients, of binary32 or of x's format, None of sums; dtype: of the gradients that are wanted.
    """
    target = rounding_target(dtype)
    if not x.numel() or "binary64" in {target.name, rounding_target(x.dtype).name}:
        return None
    library, ordinal = home_of((x, factors))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        own = rows_along(library, x, axis, stream)
        theirs = None if given is None else rows_along(library, given, axis, stream)
        beside = None if theirs is None else (theirs.rows, theirs.element)
        shape = (*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis])
        result, out = library.empty(x, shape, target.dtype, ordinal)
        launch = _logarithms(finish, own.rows, own.element, target, beside, ordinal)
        line = factors.contiguous()
        launch.start(own.address, theirs.address if theirs else 0, out, stream, line.data_ptr())
        return result.movedim(-1, axis)


@lru_cache(maxsize=1024)
def _logarithms(
    finish: str, rows: Rows, element: Format, target: Format, given: tuple[Rows, Format] | None, ordinal: int
) -> Launch:
    gpu = find_gpu(ordinal)
    return Launch(log_gradients_recipe(finish, rows, element, target, gpu, given), gpu)


def row_gradient(
    finish: str,
    given: Any,
    kept: Any,
    made: Callable[[Any], Any],
    axis: int,
    eps: float,
    dtype: Any,
    weight: Any = None,
) -> Any:
    """Of rows along an axis that is not negative; None where no kernel serves: of binary64, of rows beyond the longest.

    given: the gradients of the results; kept: what a derivative keeps, of which ``made`` makes what the kernel takes, binary32 or
    itself; dtype: of the gradients that are wanted; weight: None, or numbers by which what is given is first multiplied, in
    binary32.
    """
    target = rounding_target(dtype)
    narrow = {rounding_target(each.dtype).name for each in (given, kept)} | {target.name}
    narrow -= {"binary32"}
    if not 0 < kept.shape[axis] <= LONGEST or not kept.numel() or len(narrow) > 1 or "binary64" in narrow:
        return None
    kept = made(kept)
    library, ordinal = home_of((kept, given))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        own = rows_along(library, kept, axis, stream)
        theirs = rows_along(library, given, axis, stream)
        shape = (*kept.shape[:axis], *kept.shape[axis + 1 :], kept.shape[axis])
        result, out = library.empty(kept, shape, target.dtype, ordinal)
        line = line_beside(weight, kept.shape[axis], np.float32)
        formats = own.element, theirs.element, target
        launch = _launch(finish, own.rows, theirs.rows, formats, eps, line is not None, ordinal)
        launch.start(own.address, theirs.address, out, stream, address_of(line))
        return result.movedim(-1, axis)


@lru_cache(maxsize=1024)
def _launch(
    finish: str, kept: Rows, given: Rows, formats: tuple[Format, Format, Format], eps: float, weighted: bool, ordinal: int
) -> Launch:  # fmt: skip
    gpu = find_gpu(ordinal)
    return Launch(row_gradients_recipe(finish, kept, given, formats, eps, gpu, weighted), gpu)
