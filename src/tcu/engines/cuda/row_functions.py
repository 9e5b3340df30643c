"""Functions that make rows of rows, along an axis of arrays in a GPU's memory."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.rows import ALIGNMENT
from tcu.engines.cuda.scans import Lines, Place, lines_of
from tcu.engines.cuda.sums import Keep, home_of
from tcu.formats.format import Format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import exponentials_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.norms import norms_recipe, pitch_of
from tcu.gpu.rows_in_registers import Rows, is_wide
from tcu.ops.operation import Call, Operation

__all__ = ["of_rows", "weighted_norm"]


def of_rows(call: Call, x: Any, axis: int, keep: Keep | None = None) -> Any:
    """The rows; ``axis`` is not negative.  Raises what the operation's function raises."""
    operation = call.operation
    library, ordinal = home_of((x,), call.out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, axis, call.dtype, call.out, is_map=True)
        eps = None
        if operation.arithmetic == "norms":
            eps = operation.eps(call.options, _work(lines))
        return _run(operation, lines, axis, eps, (False, False), None, keep)


def weighted_norm(
    operation: Operation, x: Any, axis: int, weight: Any, bias: Any, eps: float | None, dtype: Any, out: Any
) -> Any:
    """A norm of the rows of a tensor times a weight, plus a bias, each None or of the format in which rows are computed.

    ``axis`` is not negative.  Raises what the operation's function raises.
    """
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, axis, dtype, out, is_map=True)
        pitch, torch = pitch_of(x.shape[axis]), sys.modules["torch"]
        beside = torch.zeros(2 * pitch, dtype=weight.dtype if bias is None else bias.dtype, device=x.device)
        given = [each for each in (weight, bias) if each is not None]
        for number, each in enumerate(given):
            beside[number * pitch : number * pitch + each.shape[0]] = each.detach()
        weighted = weight is not None, bias is not None
        return _run(
            operation,
            lines,
            axis,
            operation.eps((eps, None), _work(lines)),
            weighted,
            beside.data_ptr(),
            None,
        )


def _work(lines: Lines) -> Any:
    return np.float64 if is_wide(lines.element, lines.target) else np.float32


def _run(
    operation: Operation, lines: Lines, axis: int, eps: float | None, weighted: tuple[bool, bool], beside: int | None,
    keep: Keep | None,
) -> Any:  # fmt: skip
    shape = lines.view.shape
    length = shape[axis]
    count = math.prod(shape) // max(length, 1)

    def launch(source: Place, goal: Place) -> Launch:
        address, stride = source
        rows = Rows(count, length, stride, address % ALIGNMENT == 0)
        return _launch(operation, rows, goal[1], lines.element, lines.target, eps, weighted, lines.ordinal)

    return lines.run(launch, beside, keep)


@lru_cache(maxsize=4096)
def _launch(
    operation: Operation, rows: Rows, out_stride: int, element: Format, target: Format, eps: float | None,
    weighted: tuple[bool, bool], ordinal: int,
) -> Launch:  # fmt: skip
    """What rows like these need besides addresses."""
    gpu = find_gpu(ordinal)
    if eps is None:
        recipe = exponentials_recipe(operation.finish, rows, out_stride, element, target, gpu)
    else:
        recipe = norms_recipe(rows, out_stride, element, target, eps, operation.finish, gpu, weighted)
    return Launch(recipe, gpu)
