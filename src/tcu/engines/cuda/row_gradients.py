"""Gradients of softmax, of its logarithm and of norms of rows, of tensors in a GPU's memory, in one launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.row_functions import address_of, line_beside
from tcu.engines.cuda.rows import rows_of_both
from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.row_gradients import LONGEST, row_gradients_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.ops.result import rounding_target

__all__ = ["row_gradient"]


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
        both = rows_of_both(library, ordinal, kept, given, axis, target.dtype)
        own, theirs, line = both.own, both.theirs, line_beside(weight, kept.shape[axis], np.float32)
        formats = own.element, theirs.element, target
        launch = _launch(finish, own.rows, theirs.rows, formats, eps, line is not None, ordinal)
        return both.run(launch, address_of(line))


@lru_cache(maxsize=1024)
def _launch(
    finish: str, kept: Rows, given: Rows, formats: tuple[Format, Format, Format], eps: float, weighted: bool, ordinal: int
) -> Launch:  # fmt: skip
    gpu = find_gpu(ordinal)
    return Launch(row_gradients_recipe(finish, kept, given, formats, eps, gpu, weighted), gpu)
