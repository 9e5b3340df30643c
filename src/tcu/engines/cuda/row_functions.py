"""Functions that make rows of rows, along an axis of arrays in a GPU's memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tcu.engines.cuda.rows import ALIGNMENT
from tcu.engines.cuda.scans import Place, lines_of
from tcu.engines.cuda.sums import Keep, home_of
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import Rows, exponentials_recipe
from tcu.gpu.launch import Launch
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
            (address, stride), size = source, lines.element.dtype.itemsize
            aligned = address % ALIGNMENT == 0 and (count <= 1 or stride * size % ALIGNMENT == 0)
            rows = Rows(count, length, stride, aligned)
            return _launch(operation, rows, goal[1], lines.element, lines.target, ordinal)

        return lines.run(launch, None, keep)


@lru_cache(maxsize=4096)
def _launch(
    operation: Operation, rows: Rows, out_stride: int, element: Format, target: Format, ordinal: int
) -> Launch:
    """What rows like these need besides addresses."""
    return Launch(exponentials_recipe(operation, rows, out_stride, element, target), find_gpu(ordinal))
