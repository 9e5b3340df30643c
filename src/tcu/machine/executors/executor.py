"""What carries out the products of a machine: the interface that all executors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcu.formats.array import check_unmasked
from tcu.machine.shapes import empty
from tcu.plan.transform import Planes, Transform

__all__ = ["Dtypes", "Executor", "is_integer", "magnitude"]


@dataclass(frozen=True)
class Dtypes:
    """What an executor multiplies, and what it gives."""

    operand: np.dtype[Any] | None
    """The dtype to which operands are rounded before they enter; None: they enter as they are."""
    result: np.dtype[Any] | None
    """The dtype of products of real numbers; None for an executor of integers only."""
    integer_bits: int
    """Integers below 2 to this enter without rounding; 0 if none do."""
    sum_bits: int
    """Sums of products of such integers are exact below 2 to this."""


class Executor(ABC):
    """Computes A·B for an n × √m matrix and a √m × √m matrix, or for batches of them."""

    name: str
    """As the ledger and the messages call it."""
    passes: int = 1
    """Tensor calls that one product takes: more than one where operands are split for accuracy."""
    dtypes: Dtypes
    computes: bool = True
    """False where no values are computed, only shapes."""
    rows_alone: bool = False
    """Whether a row of a product has the same bits alone and among others, so that units can share the rows."""
    at_once: bool = False
    """Whether :meth:`transform` does whole transforms."""

    @abstractmethod
    def multiply(self, a: Any, b: Any) -> Any:
        """The product of (..., n, k) and (..., k, c), with k and c at most √m; batches broadcast."""

    def array(self, values: Any) -> Any:
        """The values where this executor wants them: an array of any library stays as it is.  Raises DtypeError for a masked one."""
        check_unmasked(values, "x")
        return values if hasattr(values, "__array_function__") else np.asarray(values)

    def place(self, values: Any) -> Any:
        """The values where this executor computes at no further cost: for arrays that a program makes itself."""
        return self.array(values)

    def on_host(self, values: Any) -> Any:
        """A NumPy array at whose values the program looks."""
        return values

    def stored(self, x: Any, dtype: Any) -> Any:
        """The same numbers in another dtype of the host's, by no step of the machine's."""
        return x.astype(dtype, copy=False)

    def magnitude(self, x: Any) -> int:
        """The largest absolute value of integers, for the host's own purposes."""
        return magnitude(x)

    def complex_product(self, x: Any, y: Any) -> Any:
        """x·y of planes (2, ...), real and imaginary: four products and two sums, each rounded.

        Each plane of y broadcasts to one of x.
        """
        result = empty(x.shape, x.dtype, like=x)
        np.subtract(x[0] * y[0], x[1] * y[1], out=result[0])
        np.add(x[0] * y[1], x[1] * y[0], out=result[1])
        return result

    def transform(self, plan: Transform, source: Planes, target: Planes, factor: float) -> bool:
        """Transforms of ``source``, times ``factor``, written into ``target``: all levels at once.

        With the bits that the program's steps give one by one.  False: nothing
        was done, for this executor, or for such arrays, the program takes the
        steps.  No cost: the program notes that of its steps.
        """
        return False

    def largest(self, z: Any) -> Any:
        """The largest magnitude of each transform in planes (2, transforms, numbers), as NumPy array; NaN wins."""
        largest = np.max(np.abs(z), axis=(0, 2))
        return largest if isinstance(largest, np.ndarray) else largest.get()

    def add_antidiagonals(self, result: Any, product: Any, first: int) -> bool:
        """Adds column j of block g of a product to ``result`` from strip first + g·columns + j on.

        ``product``: (members, blocks, rows, columns); ``result``: (members, strips, side) of int64.  False: nothing was done, the program takes the steps.
        """
        return False

    def powers(self, x: Any, width: int) -> Any:
        """(points, width) powers 0 ... width - 1 of a vector, with the bits of doubling; None: by the program's steps."""
        return None

    def add_in_pairs(self, values: Any, base: Any) -> Any:
        """The sum over i of values[i]·base^i, with the bits of pairs of pairs; None: by the program's steps."""
        return None

    def check_side(self, side: int) -> None:  # noqa: B027
        """Raises ParameterError if the executor cannot multiply matrices of that side."""

    def __repr__(self) -> str:
        return f"<executor {self.name}>"


def magnitude(array: Any) -> int:
    """The largest absolute value of an array of integers, as a Python integer; 0 for none."""
    if array.size == 0:
        return 0
    if array.dtype.kind == "O":
        return int(max(map(abs, array.flat)))
    return max(int(np.max(array)), -int(np.min(array)))


def is_integer(array: Any) -> bool:
    """Whether the products of these entries must be exact: NumPy's integers, or Python's as objects."""
    return array.dtype.kind in "iuO"
