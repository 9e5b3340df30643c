"""What the model of a unit and a real GPU share: one instruction, its formats, what it computes exactly."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from tcu.errors import DtypeError, ParameterError
from tcu.formats import get_format
from tcu.formats.format import Format
from tcu.machine.executors.executor import Dtypes, Executor, is_integer, magnitude
from tcu.units import AlignedSum, ExactInteger, Instruction, LateSum

__all__ = ["InstructionExecutor", "dtypes_of", "narrowed"]


class InstructionExecutor(Executor):
    """Products by one instruction of a matrix unit, K in pieces of its k, from zero.

    Real operands are rounded to its input format, to nearest, ties to even
    (by way of binary32 where the format is narrower).  Integers are taken
    where the instruction multiplies them exactly, and give integers.
    """

    rows_alone = True

    def __init__(self, instruction: Instruction) -> None:
        if instruction.a != instruction.b:
            raise ParameterError(
                f"{instruction.signature} mixes formats: a machine takes an instruction with one input format"
            )
        self.instruction = instruction
        self.dtypes = dtypes_of(instruction)

    def multiply(self, a: Any, b: Any) -> Any:
        if is_integer(a) and is_integer(b):
            return self._integers(a, b)
        if isinstance(self.instruction.arithmetic, ExactInteger):
            raise DtypeError(
                f"operands of dtype {a.dtype} and {b.dtype}: {self.instruction.signature} multiplies integers"
            )
        return self._product(self._narrowed(a), self._narrowed(b))

    def _integers(self, a: Any, b: Any) -> Any:
        arithmetic = self.instruction.arithmetic
        whole = isinstance(arithmetic, ExactInteger)
        own = get_format(self.instruction.a).dtype
        if not (whole and a.dtype == own and b.dtype == own):
            self._check_integers(a, b)
        if whole:
            return self._product(self._stored(a), self._stored(b))
        product = self._product(*(self._narrowed(x.astype(np.float64)) for x in (a, b)))
        return product.astype(np.int64)

    def _check_integers(self, a: Any, b: Any) -> None:
        name = self.instruction.signature
        lowest = np.iinfo(np.int8).min if self.instruction.a == "s8" else 0
        limit = 1 << self.dtypes.integer_bits
        whole = isinstance(self.instruction.arithmetic, ExactInteger)
        largest = []
        for label, x in (("a", a), ("b", b)):
            if whole and x.size and not lowest <= int(np.min(x)) <= int(np.max(x)) < limit:
                raise ParameterError(
                    f"{label} holds {int(np.min(x))} to {int(np.max(x))}: {name} takes {lowest} to {limit - 1}; "
                    "cut them into shorter digits"
                )
            largest.append(magnitude(x))
            if largest[-1] > limit:
                raise ParameterError(
                    f"{label} holds {largest[-1]}: {name} takes integers up to 2^{limit.bit_length() - 1}"
                )
        bound = largest[0] * largest[1] * a.shape[-1]
        if bound > 1 << self.dtypes.sum_bits:
            raise ParameterError(
                f"sums of up to {bound}: those of {name} are exact up to 2^{self.dtypes.sum_bits}; take shorter digits"
            )

    def _stored(self, x: Any) -> Any:
        """Integers in a dtype that :meth:`_product` takes."""
        return x.astype(get_format(self.instruction.a).dtype, copy=False)

    def _narrowed(self, x: Any) -> Any:
        """Real numbers in a dtype that :meth:`_product` takes."""
        return narrowed(x, get_format(self.instruction.a))

    @abstractmethod
    def _product(self, a: Any, b: Any) -> Any:
        """A·B from zero, for operands as the two methods above leave them."""


def narrowed(x: Any, fmt: Format) -> Any:
    """Real numbers rounded to a floating-point format, to nearest, ties to even, by way of binary32."""
    if fmt.name == "binary64" or x.dtype == fmt.dtype != np.dtype(np.float32):
        return x.astype(fmt.dtype, copy=False)
    with np.errstate(over="ignore"):
        single = x.astype(np.float32, copy=False)
        if fmt.name != "tf32":
            return single.astype(fmt.dtype, copy=False)
    bits = single.view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    even = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(finite, even, bits).view(np.float32)


def dtypes_of(instruction: Instruction) -> Dtypes:
    """What a machine can ask of the instruction.

    Integers are exact as long as no bit of their sums falls below what the
    unit keeps: F bits below the largest exponent, and those of the output.
    """
    source, output = get_format(instruction.a), get_format(instruction.output)
    arithmetic = instruction.arithmetic
    if isinstance(arithmetic, ExactInteger):
        return Dtypes(source.dtype, output.dtype, integer_bits=source.fraction_bits, sum_bits=31)
    sum_bits = output.precision
    if isinstance(arithmetic, AlignedSum):
        kept = arithmetic.output_fraction_bits
        sum_bits = min(sum_bits, arithmetic.fraction_bits + 1, sum_bits if kept is None else kept + 1)
    if isinstance(arithmetic, LateSum):
        sum_bits = min(sum_bits, arithmetic.fraction_bits + 1)
    return Dtypes(
        source.dtype, output.dtype, integer_bits=min(source.precision, source.emax), sum_bits=sum_bits
    )
