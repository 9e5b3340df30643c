"""``tcu.ExactSum``: the accumulator of exact sums, for arrays of any library."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tcu.engines import load_cuda
from tcu.engines.host.integers import whole_sum
from tcu.formats.array import check_in_memory, holds_integers, lives_on_gpu
from tcu.model.execute import Progress, check_progress
from tcu.ops.exact import SCALE, Accumulator, Tally, tally_on_host

__all__ = ["ExactSum"]


class ExactSum(Accumulator):
    """An exact sum of any floating-point numbers, which can be extended and merged.

    The state is one integer multiple of 2^-1074 and counts of what is not
    finite, so any split of the data, in any order, over any number of
    processes gives the same bits.

    Examples
    --------
    >>> import tcu
    >>> total = tcu.ExactSum()
    >>> total.add([1e100, 1.0, -1e100]).value()
    np.float64(1.0)
    """

    __slots__ = ()

    def add(self, x: Any, progress: Progress | None = None) -> Self:
        """Add every element of an array of float16, bfloat16, float32, float64 or, on the CPU, integers; returns self.

        An array on a GPU is added up there, and waited for.  Raises
        DtypeError; the sum is unchanged then.
        """
        check_progress(progress)
        if holds_integers(x) and not lives_on_gpu(x):
            return self.add_tally(*_of_integers(x, progress))
        return self.add_tally(*(_on_gpu(x, progress) if lives_on_gpu(x) else tally_on_host(x, progress)))


def _of_integers(x: Any, progress: Progress | None) -> tuple[int, Tally]:
    check_in_memory(x, "x")
    array = np.asarray(x)
    if progress is not None:
        progress(array.size)
    return array.size, Tally(whole_sum(array) << -SCALE)


def _on_gpu(x: Any, progress: Progress | None) -> tuple[int, Tally]:
    n, part = load_cuda().sums.exact_tally((x,))
    if progress is not None:
        progress(n)
    return n, part
