"""The systolic array of section 2.2 of Silvestri and Vella, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.machine.executors.executor import Dtypes, Executor, is_integer, magnitude

__all__ = ["SystolicArray", "SystolicExecutor"]


class SystolicArray:
    """√m × √m processing elements; element (i, j) holds b_ij and passes a to the right and c down.

    In each step an element takes a from its left neighbour and c from the one
    above, computes c + a·b_ij with two roundings, and hands both on.  Row r of
    A enters element (0, 0) in step r of the stream and column i one step
    later for each i, so that c_rj leaves the bottom of column j at the end of
    step r + √m - 1 + j.

    Attributes
    ----------
    steps:
        Steps taken since the array was made: √m for each loaded B, and
        n + 2√m - 2 for n rows, of whatever n.  (The paper says 2√m steps for
        n = √m and that c_ij leaves at the end of step √m + i + j, at most
        3√m - 2: the second is what an array does.)
    multiplications:
        Products of an entry of A and an entry of B, which is n·m for n rows.
    """

    def __init__(self, side: int, dtype: npt.DTypeLike = np.float64) -> None:
        self.side = side
        self.steps = 0
        self.multiplications = 0
        self._b = np.zeros((side, side), dtype)

    def load(self, b: npt.NDArray[Any]) -> None:
        """Pushes B in from the top, its last row first: √m steps, in each of which every row moves down."""
        for row in b[::-1]:
            self._b = np.concatenate([row[None, :], self._b[:-1]])
            self.steps += 1

    def stream(self, a: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A·B of n × √m rows pumped through, n + 2√m - 2 steps."""
        rows, side = a.shape[0], self.side
        dtype = self._b.dtype
        moving_a, moving_c = np.zeros((2, side, side), dtype)
        present = np.zeros((side, side), bool)  # which elements hold an entry of A, not the gap around it
        result = np.zeros((rows, side), dtype)
        columns = np.arange(side)
        for step in range(rows + 2 * side - 2):
            source = step - columns  # column i of A lags i steps behind column 0
            valid = (source >= 0) & (source < rows)
            entering = np.where(valid, a[np.clip(source, 0, rows - 1), columns], dtype.type(0))
            moving_a = np.concatenate([entering[:, None], moving_a[:, :-1]], axis=1)
            present = np.concatenate([valid[:, None], present[:, :-1]], axis=1)
            above = np.concatenate([np.zeros((1, side), dtype), moving_c[:-1]])
            moving_c = above + moving_a * self._b
            self.multiplications += int(present.sum())
            self.steps += 1
            leaving = step - (side - 1) - columns  # the row of C that column j puts out now
            out = (leaving >= 0) & (leaving < rows)
            result[leaving[out], columns[out]] = moving_c[-1, out]
        return result


class SystolicExecutor(Executor):
    """Every product of a machine on a systolic array, step by step: binary64, or integers up to 63 bits.

    A step takes in √m words, so √m times the steps of one call is
    n·√m + ℓ for ℓ = 3m - 2√m: :meth:`latency`.  A machine of that latency
    has exactly this array's cost.
    """

    name = "systolic"
    rows_alone = True
    dtypes = Dtypes(None, np.dtype(np.float64), integer_bits=31, sum_bits=63)

    def __init__(self) -> None:
        self._side = 0
        self.steps = 0
        """Steps of all calls so far."""
        self.multiplications = 0

    @staticmethod
    def latency(m: int) -> int:
        """3m - 2√m: B comes in (m), and the array fills and empties (2m - 2√m)."""
        return 3 * m - 2 * math.isqrt(m)

    def check_side(self, side: int) -> None:
        self._side = side

    def multiply(self, a: Any, b: Any) -> Any:
        integers = is_integer(a) and is_integer(b)
        depth = max(a.shape[-1], 1).bit_length()
        if integers and magnitude(a).bit_length() + magnitude(b).bit_length() + depth > 63:
            raise ParameterError("these integers need more than 63 bits: take the executor 'ideal' for them")
        dtype = np.int64 if integers else np.float64
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        x = np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(-1, *a.shape[-2:]).astype(dtype)
        y = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:]).astype(dtype)
        side = max(self._side, *a.shape[-1:], *b.shape[-1:])
        rows = max(x.shape[1], side)
        result = np.empty((len(x), x.shape[1], y.shape[2]), dtype)
        for index, (left, right) in enumerate(zip(x, y, strict=True)):
            array = SystolicArray(side, dtype)
            array.load(_padded(right, side, side))
            result[index] = array.stream(_padded(left, rows, side))[: left.shape[0], : right.shape[1]]
            self.steps += array.steps
            self.multiplications += array.multiplications
        return result.reshape(*batch, *result.shape[1:])


def _padded(matrix: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    return np.pad(matrix, ((0, rows - matrix.shape[0]), (0, columns - matrix.shape[1])))
