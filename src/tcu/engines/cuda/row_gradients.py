"""Gradients of softmax, of logarithms of exponentials, of norms and of variances of rows, of tensors in a GPU's memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.row_functions import address_of, line_beside
from tcu.engines.cuda.rows import rows_along, rows_last, rows_of_both
from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format, get_format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import log_gradients_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.row_gradients import LONGEST, is_log_share_kept, row_gradients_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.ops.result import rounding_target

__all__ = ["log_gradient", "row_gradient", "variance_gradient"]


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
        both = rows_of_both(library, ordinal, x, given, axis, target.dtype)
        line = factors.contiguous()
        launch = _logarithms(finish, both.own.rows, both.own.element, target, both.beside, ordinal)
        return both.run(launch, line.data_ptr())


@lru_cache(maxsize=1024)
def _logarithms(
    finish: str, rows: Rows, element: Format, target: Format, given: tuple[Rows, Format] | None, ordinal: int
) -> Launch:
    gpu = find_gpu(ordinal)
    return Launch(log_gradients_recipe(finish, rows, element, target, gpu, given), gpu)


def row_gradient(
    finish: str, given: Any, kept: Any, axis: int, eps: float, dtype: Any, weight: Any = None
) -> Any:
    """Of rows along an axis that is not negative; None where no kernel serves: of binary64, of rows beyond the longest.

    given: the gradients of the results; kept: results of softmax, else the numbers; dtype: of the gradients that are wanted;
    weight: None, or numbers by which what is given is first multiplied, in binary32.
    """
    target = rounding_target(dtype)
    if not _serves(kept, axis, given.dtype, dtype):
        return None
    library, ordinal = home_of((kept, given))
    with current(ordinal):
        if finish == "log_share" and not is_log_share_kept(kept.shape[axis], find_gpu(ordinal)):
            totals = _of_each_row("total", given, axis, None, 1.0, np.float32)
            fits = given.dtype == kept.dtype or given.dtype.itemsize == 4
            return log_gradient(finish, kept, axis, totals, given if fits else given.float(), dtype)
        both = rows_of_both(library, ordinal, kept, given, axis, target.dtype)
        own, theirs, line = both.own, both.theirs, line_beside(weight, kept.shape[axis], np.float32)
        assert theirs is not None
        formats = own.element, theirs.element, target
        launch = _launch(finish, own.rows, theirs.rows, formats, eps, line is not None, 1.0, ordinal)
        return both.run(launch, address_of(line))


def variance_gradient(x: Any, axis: int, given: Any, left: float, dtype: Any) -> Any:
    """given · (x - mean) / left of rows along an axis that is not negative; None where no kernel serves, as above.

    given: a number of binary32 for each row; left: the numbers of a row less the correction.
    """
    if not _serves(x, axis, given.dtype, dtype):
        return None
    return _of_each_row("variance", x, axis, given, left, rounding_target(dtype).dtype)


def _of_each_row(finish: str, x: Any, axis: int, given: Any, left: float, dtype: Any) -> Any:
    """What one number is given for each row for, if any; or the sums of rows."""
    library, ordinal = home_of((x,))
    with current(ordinal):
        stream = library.current_stream(ordinal)
        own = rows_along(library, x, axis, stream)
        shape = rows_last(x, axis)
        result, out = library.empty(x, shape[:-1] if finish == "total" else shape, np.dtype(dtype), ordinal)
        formats = own.element, get_format("binary32"), rounding_target(dtype)
        launch = _launch(finish, own.rows, None, formats, 0.0, False, left, ordinal)
        line = None if given is None else given.contiguous()
        launch.start(own.address, address_of(line), out, stream)
        return result if finish == "total" else result.movedim(-1, axis)


def _serves(kept: Any, axis: int, given: Any, wanted: Any) -> bool:
    """Whether rows are neither empty nor too long, and formats binary32 and at most one of 16 bits."""
    names = {rounding_target(each).name for each in (kept.dtype, given, wanted)} - {"binary32"}
    return (
        0 < kept.shape[axis] <= LONGEST and bool(kept.numel()) and len(names) <= 1 and "binary64" not in names
    )


@lru_cache(maxsize=1024)
def _launch(
    finish: str, kept: Rows, given: Rows | None, formats: tuple[Format, Format, Format], eps: float, weighted: bool,
    left: float, ordinal: int,
) -> Launch:  # fmt: skip
    gpu = find_gpu(ordinal)
    return Launch(row_gradients_recipe(finish, kept, given, formats, eps, gpu, weighted, left), gpu)
