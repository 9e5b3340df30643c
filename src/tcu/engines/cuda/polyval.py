"""Values of polynomials, for arrays in a GPU's memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tcu.engines.cuda.sums import home_of
from tcu.formats.format import Format, format_of
from tcu.gpu.arrays import Library, joined
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
        points, coefficients = _line(library, "x", x, 0, stream), _line(library, "c", c, 1, stream)
        n, polynomials = int(c.shape[0]), coefficients.size
        dtype, steps = points.dtype, (coefficients.before, coefficients.step, points.step)
        result, out = library.empty(x, (*c.shape[1:], *x.shape), dtype, ordinal)
        for done in range(0, polynomials if points.size else 0, MOST_POLYNOMIALS):
            count = min(MOST_POLYNOMIALS, polynomials - done)
            launch = _launch(n, count, points.size, steps, format_of(dtype), ordinal)
            a = coefficients.address + dtype.itemsize * coefficients.step * done
            launch.start(a, points.address, out + dtype.itemsize * points.size * done, stream)
        return library.finish(result, x, stream)


class _Line(NamedTuple):
    """Numbers of an array's axes from one on, which lie evenly apart."""

    address: int
    size: int
    step: int
    before: int
    """The step along the axis in front of them, if there is one."""
    dtype: np.dtype[Any]
    owner: Any


def _line(library: Library, label: str, array: Any, axis: int, stream: int) -> _Line:
    """Of a copy of an array whose numbers lie otherwise."""
    plain = library.plain(array)
    if plain is not None:
        address, count, dtype = plain
        count = count // array.shape[0] if axis else count
        return _Line(address, count, 1, count, dtype, array)
    for _ in range(2):
        view = library.view(label, array, stream)
        extents, (steps,) = joined(view.shape[axis:], [view.strides[axis:]])
        if len(extents) <= 1:
            count, before = math.prod(view.shape[axis:]), view.strides[0] if axis else 0
            return _Line(view.address, count, steps[0] if steps else 1, before, view.dtype, view)
        array = library.ordered(array, tuple(range(len(view.shape))))
    raise AssertionError("a copy has its numbers one after another")


@lru_cache(maxsize=1024)
def _launch(
    n: int, polynomials: int, points: int, steps: tuple[int, int, int], work: Format, ordinal: int
) -> Launch:  # fmt: skip
    gpu = find_gpu(ordinal)
    return Launch(polyval_recipe(n, polynomials, points, steps, work, gpu), gpu)
