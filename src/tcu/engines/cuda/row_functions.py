"""Functions that make rows of rows, along an axis of arrays in a GPU's memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.rows import ALIGNMENT
from tcu.engines.cuda.scans import Place, lines_of
from tcu.engines.cuda.sums import Keep, home_of
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import exponentials_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.norms import norms_recipe
from tcu.gpu.rows_in_registers import Rows, is_wide
from tcu.ops.operation import Call, Operation

__all__ = ["of_rows"]


def of_rows(call: Call, x: Any, axis: int, keep: Keep | None = None) -> Any:
    """The rows; ``axis`` is not negative.  Raises what the operation's function raises."""
    operation = call.operation
    library, ordinal = home_of((x,), call.out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, axis, call.dtype, call.out, is_map=True)
        shape = lines.view.shape
        length = shape[axis]
        count = math.prod(shape) // max(length, 1)

        def launch(source: Place, goal: Place) -> Launch:
            address, stride = source
            rows = Rows(count, length, stride, address % ALIGNMENT == 0)
            eps = None
            if operation.arithmetic == "norms":
                work = np.float64 if is_wide(lines.element, lines.target) else np.float32
                eps = operation.eps(call.options, work)
            return _launch(operation, rows, goal[1], lines.element, lines.target, eps, ordinal)

        return lines.run(launch, None, keep)


@lru_cache(maxsize=4096)
def _launch(
    operation: Operation, rows: Rows, out_stride: int, element: Format, target: Format, eps: float | None, ordinal: int
) -> Launch:  # fmt: skip
    """What rows like these need besides addresses."""
    gpu = find_gpu(ordinal)
    if eps is None:
        recipe = exponentials_recipe(operation.finish, rows, out_stride, element, target, gpu)
    else:
        recipe = norms_recipe(rows, out_stride, element, target, eps, operation.finish, gpu)
    return Launch(recipe, gpu)
