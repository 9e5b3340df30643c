"""Values of polynomials, for arrays in a GPU's memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format, format_of
from tcu.gpu.arrays import joined
from tcu.gpu.device import current, find_gpu
from tcu.gpu.launch import Launch
from tcu.gpu.polyval import MOST_POLYNOMIALS, polyval_recipe

__all__ = ["polyval"]


def polyval(x: Any, c: Any) -> Any:
    """The values, of shape c.shape[1:] + x.shape, put on the library's current stream.

    Both arrays are of one format, and c has coefficients along its first axis.  Raises ParameterError for arrays on two GPUs.
    """
    library, ordinal = home_of((x, c), names="xc")
    with current(ordinal):
        stream = library.current_stream(ordinal)
        found = library.view("c", c, stream)
        of_x, x_step = _line(library, "x", x, 0, stream)
        coefficients, a_stride = _line(library, "c", c, 1, stream)
        made = (*found.shape[1:], *of_x.shape)
        result, out = library.empty(x, made, of_x.dtype, ordinal)
        points, polynomials = math.prod(of_x.shape), math.prod(found.shape[1:])
        steps, size = (coefficients.strides[0], a_stride, x_step), of_x.dtype.itemsize
        for done in range(0, polynomials if points else 0, MOST_POLYNOMIALS):
            count = min(MOST_POLYNOMIALS, polynomials - done)
            launch = _launch(coefficients.shape[0], count, points, steps, format_of(of_x.dtype), ordinal)
            a, results = coefficients.address + size * a_stride * done, out + size * points * done
            launch.start(a, of_x.address, results, stream)
        return library.finish(result, x, stream)


def _line(library: Any, label: str, array: Any, axis: int, stream: int) -> tuple[Any, int]:
    """(the array, the step from number to number of its axes from ``axis`` on): a copy of one that has no such step."""
    for _ in range(2):
        view = library.view(label, array, stream)
        extents, (steps,) = joined(view.shape[axis:], [view.strides[axis:]])
        if len(extents) <= 1:
            return view, steps[0] if steps else 0
        array = library.ordered(array, tuple(range(len(view.shape))))
    raise AssertionError("a copy has its numbers one after another")


@lru_cache(maxsize=1024)
def _launch(
    n: int, polynomials: int, points: int, steps: tuple[int, int, int], work: Format, ordinal: int
) -> Launch:  # fmt: skip
    gpu = find_gpu(ordinal)
    return Launch(polyval_recipe(n, polynomials, points, steps, work, gpu), gpu)
