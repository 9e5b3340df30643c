"""Functions that make rows of rows, along an axis of arrays in a GPU's memory."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from tcu.engines.cuda.rows import ALIGNMENT, rows_of_both
from tcu.engines.cuda.scans import Lines, Place, PlainLines, lines_of, plain_lines
from tcu.engines.cuda.sums import Keep, home_of
from tcu.formats.format import Format, get_format
from tcu.gpu.device import current, find_gpu
from tcu.gpu.exponentials import exponentials_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.norms import norms_recipe
from tcu.gpu.rows_in_registers import Rows, is_wide
from tcu.ops.operation import Call, Operation

__all__ = ["address_of", "line_beside", "norms_times", "of_rows", "weighted_norm"]


def of_rows(call: Call, x: Any, axis: int, keep: Keep | None = None) -> Any:
    """The rows; ``axis`` is not negative.  Raises what the operation's function raises."""
    operation = call.operation
    library, ordinal = home_of((x,), call.out)
    with current(ordinal):
        lines = lines_of(library, ordinal, x, axis, call.dtype, call.out, is_map=True)
        eps = None
        if operation.arithmetic == "norms":
            eps = operation.eps(call.options, _work(lines.element, lines.target))
        return _run(operation, lines, axis, eps, (None, None), keep)


def weighted_norm(
    operation: Operation, x: Any, axis: int, weight: Any, bias: Any, eps: float | None, dtype: Any, out: Any
) -> Any:
    """A norm of the rows of a tensor times a weight, plus a bias, each None or a vector of any format.

    ``axis`` is not negative.  Raises what the operation's function raises.
    """
    library, ordinal = home_of((x,), out)
    with current(ordinal):
        lines: Lines | PlainLines
        if out is None and axis == x.dim() - 1 and x.is_contiguous() and x.numel():
            lines = plain_lines(library, ordinal, x, dtype)
        else:
            lines = lines_of(library, ordinal, x, axis, dtype, out, is_map=True)
        work = _work(lines.element, lines.target)
        beside = line_beside(weight, x.shape[axis], work), line_beside(bias, x.shape[axis], work)
        return _run(operation, lines, axis, operation.eps((eps, None), work), beside, None)


def line_beside(x: Any, length: int, work: Any) -> Any:
    """The numbers of a vector, if there is one, in that format, from a multiple of 16 bytes on, in whole granules of as many."""
    if x is None:
        return None
    torch = sys.modules["torch"]
    line = x.detach().to(torch.float64 if work is np.float64 else torch.float32).contiguous()
    per_granule = ALIGNMENT // line.itemsize
    more = -length % per_granule
    if more or line.data_ptr() % ALIGNMENT:
        line = torch.nn.functional.pad(line, (0, more or per_granule))
    return line


def address_of(line: Any) -> int:
    """Of a vector, if there is one."""
    return 0 if line is None else line.data_ptr()


def norms_times(operation: Operation, x: Any, given: Any, axis: int, eps: float | None) -> Any:
    """The norms of the rows of a tensor, in binary32, times gradients of binary32 or of x's format, each product rounded.

    ``axis`` is not negative.
    """
    library, ordinal = home_of((x, given))
    binary32 = get_format("binary32")
    with current(ordinal):
        both = rows_of_both(library, ordinal, x, given, axis, binary32.dtype)
        own, least = both.own, operation.eps((eps, None), np.float32)
        launch = _launch(
            operation, own.rows, own.rows.length, own.element, binary32, least, (False, False), both.beside, ordinal
        )  # fmt: skip
        return both.run(launch)


def _work(element: Format, target: Format) -> Any:
    return np.float64 if is_wide(element, target) else np.float32


def _run(
    operation: Operation,
    lines: Lines | PlainLines,
    axis: int,
    eps: float | None,
    beside: tuple[Any, Any],
    keep: Keep | None,
) -> Any:
    """``beside``: the weight and the bias, as :func:`line_beside` gives them."""
    shape = lines.shape
    length = shape[axis]
    count = math.prod(shape) // max(length, 1)
    weighted = beside[0] is not None, beside[1] is not None

    def launch(source: Place, goal: Place) -> Launch:
        address, stride = source
        rows = Rows(count, length, stride, address % ALIGNMENT == 0)
        return _launch(
            operation, rows, goal[1], lines.element, lines.target, eps, weighted, None, lines.ordinal
        )

    return lines.run(launch, address_of(beside[0]) or None, keep, address_of(beside[1]))


@lru_cache(maxsize=4096)
def _launch(
    operation: Operation, rows: Rows, out_stride: int, element: Format, target: Format, eps: float | None,
    weighted: tuple[bool, bool], given: tuple[Rows, Format] | None, ordinal: int,
) -> Launch:  # fmt: skip
    """What rows like these need besides addresses."""
    gpu = find_gpu(ordinal)
    if eps is None:
        recipe = exponentials_recipe(operation.finish, rows, out_stride, element, target, gpu)
    else:
        recipe = norms_recipe(rows, out_stride, element, target, eps, operation.finish, gpu, weighted, given)
    return Launch(recipe, gpu)
