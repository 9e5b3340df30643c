"""DFTs of rows of complex numbers on a machine, level by level: Theorem 4 of Silvestri and Vella, section 4.3.

Cooley-Tukey with n₁ = √m: a level cuts n = f·r, f at most √m, computes the n/f
DFTs of length f by one tall product with the Fourier matrix, multiplies by
twiddle factors, and goes on with what is left of the length.  All transforms of
a batch, and all subproblems of a level, are rows of the same product.

On a unit of 16-bit operands, everything outside the unit is binary32: each
number of a transform is scaled by one power of two, rounded to the operands
(or split into two or three of them), and multiplied by twiddles that take a
further power of two out after each level, so that nothing can overflow.
Every step is an elementwise operation in a stated order: who executes it does
not change a bit.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct, check_product, multiply_rows, widest_row
from tcu.algorithms.fourier import (
    Level,
    bluestein_length,
    chirp_planes,
    kernel_planes,
    levels,
    scaled_twiddles,
    twiddle_shift,
)
from tcu.algorithms.transform_plan import transform_plan
from tcu.errors import DtypeError, ParameterError
from tcu.formats import format_of, get_format
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray
from tcu.plan.transform import Planes, Transform

__all__ = ["ComplexDft"]

_TOP = 14
"""The parts of numbers are scaled below 2^14 at most; √2 of them or their sum is still finite in binary16."""


class ComplexDft:
    """Transforms of (2, batch, n) planes on a machine.  Raises what :func:`~tcu.algorithms.dft.dft` raises for product and parts."""

    def __init__(self, machine: Machine, product: ComplexProduct, parts: int) -> None:
        self.machine = machine
        self.product = product
        self.parts = parts
        dtypes = machine.executor.dtypes
        if dtypes.result is None or dtypes.result.kind != "f":
            raise DtypeError(
                f"{machine.executor!r} multiplies integers only: a DFT needs a unit of real numbers"
            )
        check_product(product)
        double = dtypes.result == np.float64
        self.work = np.dtype(np.float64 if double else np.float32)
        instruction = getattr(machine.executor, "instruction", None)
        entered = self.work if dtypes.operand is None else dtypes.operand
        self.operand = format_of(entered) if instruction is None else get_format(instruction.a)
        self.widest = widest_row(machine.side, product)
        self.scaled = self.operand.name != "binary64"
        self._top = min(_TOP, math.floor(math.log2(self.operand.max_finite)) - 1)
        self._result_top = math.floor(math.log2(format_of(dtypes.result).max_finite)) - 1
        if isinstance(parts, bool) or parts not in (1, 2, 3):
            raise ParameterError(f"parts={parts!r}: split each number into 1, 2 or 3")
        if parts > 1 and self.operand.dtype.itemsize > 2:
            raise ParameterError(
                f"parts={parts}: {machine.executor!r} takes {self.operand.name}; numbers are split for units of "
                "16-bit or 8-bit operands"
            )

    def transform(self, z: Any) -> Any:
        """The DFT of (2, batch, n) planes along their last axis."""
        if z.shape[1] == 0 or z.shape[2] == 1:
            return z
        if self.machine.executor.at_once:
            result = np.empty(z.shape, self.work, like=z)
            if self._at_once((z[0], z[1]), (result[0], result[1]), 1.0):
                self.machine.charge_as(_steps_of_transform, z, self.product, self.parts)
                return result
        plan = levels(z.shape[2], self.widest)
        with np.errstate(over="ignore", invalid="ignore"):  # as NumPy's transforms pass on inf and NaN
            return self._scaled(z, plan) if self.scaled else self._levels(z, plan)

    def complex_at_once(self, rows: Any, factor: float, *, inverse: bool) -> Any | None:
        """The transforms of (batch, n) numbers by the executor in one go; None where it takes the steps.

        Who asks charges them.
        """
        if not self.machine.executor.at_once or rows.shape[0] == 0 or rows.shape[1] == 1:
            return None
        result = np.empty(rows.shape, np.complex128 if self.work == np.float64 else np.complex64, like=rows)
        source = (rows.real, rows.imag if np.iscomplexobj(rows) else None)
        target = (result.real, result.imag)
        if inverse:
            source, target = source[::-1], target[::-1]
        return result if self._at_once(source, target, factor) else None

    def plan_at_once(self, n: int) -> Transform | None:
        """The levels of a transform as data; None where an executor cannot do them at once."""
        top = self.top_of(levels(n, self.widest)) if self.scaled else None
        side = self.machine.side
        return transform_plan(n, side, self.product, self.parts, self.operand.name, self.work.name, top)

    def _at_once(self, source: Planes, target: Planes, factor: float) -> bool:
        plan = self.plan_at_once(target[0].shape[1])
        return plan is not None and self.machine.executor.transform(plan, source, target, factor)

    def _scaled(self, z: Any, plan: tuple[Level, ...]) -> Any:
        cpu = self.machine.cpu
        down, up = self._scales(z, self.top_of(plan))
        z = self._levels(cpu.each(operator.mul, z, down, name="scale"), plan)
        taken = z.dtype.type(2.0 ** sum(map(self._shift, plan[:-1])))
        z = cpu.each(operator.mul, z, up, name="scale back")
        return cpu.each(operator.mul, z, taken, name="scale back")

    def _scales(self, z: Any, top: int) -> tuple[Any, Any]:
        """Powers of two that bring the largest part of each transform to [2^(top-1), 2^top), and back; (batch, 1) each.

        Found on the host, by frexp: no GPU library promises exact powers of two.
        """
        largest = self.machine.cpu.largest(z, name="largest magnitudes")

        def placed(make: Any, *scale: Any, **like: Any) -> Any:
            # An exponent taken, subtracted, limited, made a power of two: for each transform.
            return self.machine.cpu.each(make, *scale, **like, name="scales", work=4)

        if isinstance(z, ShapeArray):
            shape = (z.shape[1], 1)
            return placed(ShapeArray, shape, z.dtype), placed(ShapeArray, shape, z.dtype)
        _, exponent = np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 1))
        # A factor beyond binary32's normal numbers would be inexact; numbers that small lose bits instead.
        shift = np.clip(top - exponent, -126, 126)
        down, up = np.ldexp(1.0, shift), np.ldexp(1.0, -shift)
        down[~np.isfinite(largest)] = np.nan
        scales = (placed(np.asarray, scale[:, None].astype(z.dtype), like=z) for scale in (down, up))
        return tuple(scales)

    def top_of(self, plan: tuple[Level, ...]) -> int:
        """Parts are scaled below 2^this, so that neither they nor their sums exceed what the unit holds."""
        longest = max(twiddle_shift(level.length) for level in plan)
        return min(self._top, self._result_top - longest)

    def _shift(self, level: Level) -> int:
        """The power of two that the twiddles after a level take out."""
        return twiddle_shift(level.length) if self.scaled else 0

    def _levels(self, z: Any, plan: tuple[Level, ...]) -> Any:
        """z is kept as (2, batch, left, f, done): what is left of the length, and the two sizes of what is done.

        A digit of the result's index is slower than those found before it, so
        that each level moves its data once, when its rows are gathered.
        """
        cpu = self.machine.cpu
        batch, n = z.shape[1:]
        left, f, done = n, 1, 1
        z = z.reshape(2, batch, n, 1, 1)
        for number, level in enumerate(plan):
            left //= level.length
            z = z.reshape(2, batch, level.length, left, f, done)
            z = z.transpose(0, 1, 3, 4, 5, 2)
            done *= f
            f = level.length
            last = number + 1 == len(plan)
            with self.machine.section(f"level {number + 1}, length {f}"):
                if level.convolved:
                    shape = (2, batch * left * done, f)
                    apart = left * done > 1
                    z = cpu.arranged(z, shape, name="gather rows") if apart else z.reshape(shape)
                    z = self._convolved(z)
                else:
                    z = multiply_rows(
                        self.machine, z, left * done,
                        product=self.product, parts=self.parts, operand=self.operand.name,
                    )  # fmt: skip
                z = z.reshape(2, batch, left, done, f)
                if not last:
                    z = self._twiddled(z, self._shift(level))
            z = z.swapaxes(3, 4)
        shape = (2, batch, n)
        return z.reshape(shape) if done == 1 else cpu.arranged(z, shape, name="put digits in order")

    def _twiddled(self, z: Any, shift: int) -> Any:
        left, f = z.shape[2], z.shape[4]
        cpu, shape = self.machine.cpu, (2, left, 1, f)
        t = cpu.table(z, scaled_twiddles, f, left, shift, self.work.name, shape=shape, name="twiddle factors")
        return cpu.complex_product(z, t, name="twiddle")

    def _convolved(self, z: Any) -> Any:
        """DFTs of a prime length, by Bluestein's convolution with a chirp."""
        _, rows, p = z.shape
        length = bluestein_length(p, self.widest)
        cpu, work = self.machine.cpu, self.work.name
        turn = cpu.table(z, chirp_planes, p, self.widest, work, shape=(2, p), name="chirp factors")
        # By NumPy's transform on the host: 5 L log₂ L operations of the CPU.
        kernel = cpu.table(
            z, kernel_planes, p, self.widest, work,
            shape=(2, length), work=3 * (length - 1).bit_length(), name="kernel",
        )  # fmt: skip
        turned = cpu.complex_product(z, turn[:, None], name="chirp")
        with self.machine.section(f"convolution of length {length}"):
            image = self.transform(cpu.padded(turned, (2, rows, length)))
            image = cpu.complex_product(image, kernel[:, None], name="multiply by kernel")
            back = self.transform(image[::-1])[::-1]
        return cpu.complex_product(back[:, :, :p], turn[:, None], name="chirp")


def _steps_of_transform(machine: Machine, z: Any, product: ComplexProduct, parts: int) -> None:
    """What an executor is charged that does a transform at once."""
    ComplexDft(machine, product, parts).transform(z)
