"""Discrete Fourier transforms on the (m, ℓ)-TCU machine: Theorem 4 of Silvestri and Vella, section 4.3.

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
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct, check_product, multiply_rows, widest_row
from tcu.algorithms.constants import beside
from tcu.algorithms.fourier import (
    Level,
    bluestein_length,
    chirp_planes,
    half_circle,
    kernel_planes,
    levels,
    scaled_twiddles,
    twiddle_shift,
)
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.algorithms.transform_plan import transform_plan
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import format_of, get_format
from tcu.machine import Ledger, Machine
from tcu.machine.executors import CountExecutor
from tcu.machine.shapes import ShapeArray
from tcu.plan.transform import Planes, Transform
from tcu.units import Instruction

__all__ = ["Norm", "dft", "dft_bound", "dftn", "idft", "idftn", "irdft", "rdft"]

Norm = Literal["backward", "ortho", "forward"]
_TOP = 14
"""The parts of numbers are scaled below 2^14 at most; √2 of them or their sum is still finite in binary16."""


def dft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The discrete Fourier transform along one axis, of any length.

    Parameters
    ----------
    machine:
        Where it runs: its executor multiplies real numbers.
    x:
        Real or complex numbers, of NumPy or of a library that follows its
        protocols (CuPy).
    n, axis, norm:
        As for ``numpy.fft.fft``: the length (x is cut or padded by zeros),
        the axis, and who divides by n.
    product:
        How complex products are made of real ones: "four", "three", or
        "embedded", which has the unit add and takes half as long rows.
    parts:
        For units of 16-bit operands: split every number into 1, 2 or 3 of
        them.  :func:`~tcu.algorithms.dft_error.dft_error_bound` says what it
        gains.

    Returns
    -------
    complex128, or complex64 where the executor's results are narrower than
    binary64.  A transform with a NaN or an infinity in it is NaN throughout on
    units of narrow operands; no other transform of the batch is touched.

    Raises
    ------
    ShapeError:
        No such axis; nothing along it.
    DtypeError:
        x holds no numbers, or the executor multiplies integers only.
    ParameterError:
        n, norm, product or parts out of range; a unit too small for a DFT.
    """
    return _along_axis(machine, x, n, axis, norm, product, parts, inverse=False)


def idft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The inverse of :func:`dft`, with its parameters, results and errors."""
    return _along_axis(machine, x, n, axis, norm, product, parts, inverse=True)


def rdft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The first n // 2 + 1 numbers of the DFT of real numbers, as ``numpy.fft.rfft``.

    Of even n it is one complex transform of half the length.  Parameters,
    results and errors of :func:`dft`; DtypeError for complex numbers.
    """
    x = _numbers(machine, x)
    if np.iscomplexobj(x):
        raise DtypeError(f"x has dtype {x.dtype}: rdft takes real numbers; dft takes complex ones")
    x, axis, n = _resized(x, n, axis)
    options = Options(machine, product, parts)
    factor = _factor(norm, n, inverse=False)
    rows, batch = _rows(x, axis)
    with machine.section("rdft"):
        if n % 2:
            z = np.zeros((2, len(rows), n), options.work, like=x)
            z[0] = rows
            z = options.transform(z)[:, :, : n // 2 + 1]
        else:
            z = np.stack([rows[:, 0::2], rows[:, 1::2]]).astype(options.work, copy=False)
            z = _unfold(machine, options.transform(z), n)
    return _complex(machine, z, batch, axis, factor)


def irdft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """n real numbers from the first n // 2 + 1 of their DFT, as ``numpy.fft.irfft``.

    The inverse of :func:`rdft`; n is 2 (numbers - 1) unless given.  The
    imaginary parts of the first and, for even n, of the last number do not
    count, as in NumPy.  Parameters and errors of :func:`dft`.
    """
    x = _numbers(machine, x)
    axis = _axis(x, axis)
    if n is None:
        n = 2 * (x.shape[axis] - 1)
    n = _length(n)
    x, axis, half = _resized(x, n // 2 + 1, axis)
    options = Options(machine, product, parts)
    factor = _factor(norm, n, inverse=True)
    rows, batch = _rows(x, axis)
    with machine.section("irdft"):
        z = _planes(rows, options.work)
        z[1, :, 0] = 0
        if n % 2:
            mirrored = z[:, :, :0:-1]
            z = np.concatenate([z, np.stack([mirrored[0], -mirrored[1]])], axis=2)
            real = options.transform(z[::-1])[1]
        else:
            z[1, :, half - 1] = 0
            z = options.transform(_fold(machine, z, n)[::-1])[::-1]
            real = np.stack([z[0], z[1]], axis=-1).reshape(z.shape[1], n)
        if factor != 1:
            machine.step(real.size, "normalize")
            real = real * real.dtype.type(factor)
    return np.moveaxis(real.reshape(*batch, n), -1, axis)


def dftn(
    machine: Machine,
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The DFT along several axes, one after another, as ``numpy.fft.fftn``.

    s: the lengths; axes: all, or the last len(s), unless given.  Other
    parameters, results and errors of :func:`dft`; ParameterError where s and
    axes do not pair.
    """
    for n, axis in _axes(x, s, axes):
        x = dft(machine, x, n, axis, norm, product=product, parts=parts)
    return x


def idftn(
    machine: Machine,
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The inverse of :func:`dftn`, with its parameters, results and errors."""
    for n, axis in _axes(x, s, axes):
        x = idft(machine, x, n, axis, norm, product=product, parts=parts)
    return x


def dft_bound(machine: MachineLike, n: int) -> float:
    """(n + ℓ)·log_m n of Theorem 4; at least one level: n + ℓ where n is at most m."""
    m, latency = parameters(machine)
    return (n + latency) * max(1.0, math.log(max(n, 2)) / math.log(m))


def _along_axis(
    machine: Machine,
    x: Any,
    n: int | None,
    axis: int,
    norm: Norm,
    product: ComplexProduct,
    parts: int,
    *,
    inverse: bool,
) -> Any:
    x, axis, n = _resized(_numbers(machine, x), n, axis)
    options = Options(machine, product, parts)
    factor = _factor(norm, n, inverse=inverse)
    rows, batch = _rows(x, axis)
    with machine.section("idft" if inverse else "dft"):
        result = options.complex_at_once(rows, factor, inverse=inverse)
        if result is not None:
            return _moved(result.reshape(*batch, n), -1, axis)
        z = _planes(rows, options.work)
        # Real and imaginary parts exchanged, before and after, turn the transform into its inverse.
        z = options.transform(z[::-1])[::-1] if inverse else options.transform(z)
        return _complex(machine, z, batch, axis, factor)


class Options:
    """How the transforms of one call are done, on which machine.  Raises what :func:`dft` raises for them."""

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
                return result
        plan = levels(z.shape[2], self.widest)
        with np.errstate(over="ignore", invalid="ignore"):  # as NumPy's transforms pass on inf and NaN
            return self._scaled(z, plan) if self.scaled else self._levels(z, plan)

    def complex_at_once(self, rows: Any, factor: float, *, inverse: bool) -> Any | None:
        """The transforms of (batch, n) numbers by the executor in one go; None where it takes the steps."""
        if not self.machine.executor.at_once or rows.shape[0] == 0 or rows.shape[1] == 1:
            return None
        result = np.empty(rows.shape, np.complex128 if self.work == np.float64 else np.complex64, like=rows)
        source = (rows.real, rows.imag if np.iscomplexobj(rows) else None)
        target = (result.real, result.imag)
        if inverse:
            source, target = source[::-1], target[::-1]
        if not self._at_once(source, target, factor):
            return None
        if factor != 1:
            self.machine.step(2 * rows.size, "normalize")
        return result

    def plan_at_once(self, n: int) -> Transform | None:
        """The levels of a transform as data; None where an executor cannot do them at once."""
        top = self.top_of(levels(n, self.widest)) if self.scaled else None
        side = self.machine.side
        return transform_plan(n, side, self.product, self.parts, self.operand.name, self.work.name, top)

    def _at_once(self, source: Planes, target: Planes, factor: float) -> bool:
        machine = self.machine
        batch, n = target[0].shape
        plan = self.plan_at_once(n)
        if plan is None or not machine.executor.transform(plan, source, target, factor):
            return False
        instruction = getattr(machine.executor, "instruction", None)
        machine.record(_ledger_of(machine.m, machine.weak, instruction, self.product, self.parts, batch, n))
        return True

    def _scaled(self, z: Any, plan: tuple[Level, ...]) -> Any:
        down, up = self._scales(z, self.top_of(plan))
        self.machine.step(z.size, "scale")
        z = self._levels(z * down, plan)
        self.machine.step(z.size, "scale back")
        return z * up * z.dtype.type(2.0 ** sum(map(self._shift, plan[:-1])))

    def _scales(self, z: Any, top: int) -> tuple[Any, Any]:
        """Powers of two that bring the largest part of each transform to [2^(top-1), 2^top), and back; (batch, 1) each.

        Found on the host, by frexp: no GPU library promises exact powers of two.
        """
        if isinstance(z, ShapeArray):
            scale = ShapeArray((z.shape[1], 1), z.dtype)
            return scale, scale
        largest = self.machine.executor.largest(z)
        _, exponent = np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 1))
        # A factor beyond binary32's normal numbers would be inexact; numbers that small lose bits instead.
        shift = np.clip(top - exponent, -126, 126)
        down, up = np.ldexp(1.0, shift), np.ldexp(1.0, -shift)
        down[~np.isfinite(largest)] = np.nan
        scales = (np.asarray(scale[:, None].astype(z.dtype), like=z) for scale in (down, up))
        return tuple(scales)  # type: ignore[return-value]

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
                    z = self._convolved(z.reshape(2, batch * left * done, f))
                else:
                    z = multiply_rows(
                        self.machine, z, left * done,
                        product=self.product, parts=self.parts, operand=self.operand.name,
                    )  # fmt: skip
                z = z.reshape(2, batch, left, done, f)
                if not last:
                    z = self._twiddled(z, self._shift(level))
            z = z.swapaxes(3, 4)
        return z.reshape(2, batch, n)

    def _twiddled(self, z: Any, shift: int) -> Any:
        left, f = z.shape[2], z.shape[4]
        t = beside(z, scaled_twiddles, f, left, shift, self.work.name, shape=(2, left, 1, f))
        return complex_product(self.machine, z, t, "twiddle")

    def _convolved(self, z: Any) -> Any:
        """DFTs of a prime length, by Bluestein's convolution with a chirp."""
        _, rows, p = z.shape
        length = bluestein_length(p, self.widest)
        machine, work = self.machine, self.work.name
        turn = beside(z, chirp_planes, p, self.widest, work, shape=(2, p))
        kernel = beside(z, kernel_planes, p, self.widest, work, shape=(2, length))
        padded = np.zeros((2, rows, length), z.dtype, like=z)
        padded[:, :, :p] = complex_product(machine, z, turn[:, None], "chirp")
        with machine.section(f"convolution of length {length}"):
            image = complex_product(machine, self.transform(padded), kernel[:, None], "multiply by kernel")
            back = self.transform(image[::-1])[::-1]
        return complex_product(machine, back[:, :, :p], turn[:, None], "chirp")


def complex_product(machine: Machine, x: Any, y: Any, name: str) -> Any:
    """x·y of planes, each part by two products and one sum, rounded one by one."""
    machine.step(3 * x.size, name)
    return machine.executor.complex_product(x, y)


@lru_cache(maxsize=256)
def _ledger_of(
    m: int,
    weak: bool,
    instruction: Instruction | None,
    product: ComplexProduct,
    parts: int,
    batch: int,
    n: int,
) -> Ledger:
    """What the steps of transforms cost that an executor does at once: those of the same program, counted."""
    machine = Machine(m, executor=CountExecutor(instruction), weak=weak)
    options = Options(machine, product, parts)
    options.transform(ShapeArray((2, batch, n), options.work))
    return machine.ledger


def _unfold(machine: Machine, z: Any, n: int) -> Any:
    """The DFT of n real numbers from that of the complex numbers x[2j] + i x[2j + 1]."""
    near = np.concatenate([z, z[:, :, :1]], axis=2)
    far = near[:, :, ::-1]
    even = np.stack([near[0] + far[0], near[1] - far[1]])
    odd = np.stack([near[1] + far[1], far[0] - near[0]])
    t = beside(z, half_circle, n, 0.5, z.dtype.name, shape=(2, n // 2 + 1))
    machine.step(4 * near.size, "unfold")
    return even * z.dtype.type(0.5) + complex_product(machine, odd, t[:, None], "twiddle")


def _fold(machine: Machine, z: Any, n: int) -> Any:
    """Twice what :func:`_unfold` was given."""
    near, far = z[:, :, :-1], z[:, :, :0:-1]
    odd = np.stack([near[0] - far[0], near[1] + far[1]])
    t = beside(z, half_circle, n, 1.0, z.dtype.name, shape=(2, n // 2 + 1))[:, None, :-1]
    turned = complex_product(machine, odd, np.stack([t[0], -t[1]]), "twiddle")
    machine.step(3 * near.size, "fold")
    return np.stack([near[0] + far[0] - turned[1], near[1] - far[1] + turned[0]])


def _numbers(machine: Machine, x: Any) -> Any:
    x = machine.array(x)
    if x.dtype.kind not in "fiubcV":
        raise DtypeError(f"x has dtype {x.dtype}: give real or complex numbers")
    return x


def _axis(x: Any, axis: int) -> int:
    try:
        index = operator.index(axis)
    except TypeError:
        raise ParameterError(f"axis={axis!r}: give an integer") from None
    if not -x.ndim <= index < x.ndim:
        raise ShapeError(f"axis={axis}: x has shape {x.shape}")
    return index % int(x.ndim)


def _length(n: Any) -> int:
    try:
        length = operator.index(n)
    except TypeError:
        raise ParameterError(f"n={n!r}: give the length of the transform, an integer") from None
    if length < 1:
        raise ShapeError(f"a DFT of length {length}: give at least one number")
    return length


def _resized(x: Any, n: int | None, axis: int) -> tuple[Any, int, int]:
    """x with n numbers along the axis, the axis, and n."""
    axis = _axis(x, axis)
    have = x.shape[axis]
    n = _length(have if n is None else n)
    lead = (slice(None),) * axis
    if n < have:
        x = x[(*lead, slice(n))]
    elif n > have:
        longer = np.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, like=x)
        longer[(*lead, slice(have))] = x
        x = longer
    return x, axis, n


def _rows(x: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """(transforms, n), and the other dimensions."""
    x = _moved(x, axis, -1)
    batch = x.shape[:-1]
    return x.reshape(math.prod(batch), x.shape[-1]), batch


def _moved(x: Any, source: int, target: int) -> Any:
    """``np.moveaxis``, which takes its time where nothing moves."""
    return x if (source - target) % len(x.shape) == 0 else np.moveaxis(x, source, target)


def _planes(rows: Any, work: np.dtype[Any]) -> Any:
    z = np.zeros((2, *rows.shape), work, like=rows)
    z[0] = rows.real
    if np.iscomplexobj(rows):
        z[1] = rows.imag
    return z


def _complex(machine: Machine, z: Any, batch: tuple[int, ...], axis: int, factor: float) -> Any:
    if factor != 1:
        machine.step(z.size, "normalize")
        z = z * z.dtype.type(factor)
    result = np.empty(z.shape[1:], np.complex128 if z.dtype == np.float64 else np.complex64, like=z)
    result.real[...] = z[0]
    result.imag[...] = z[1]
    return np.moveaxis(result.reshape(*batch, z.shape[2]), -1, axis)


def _factor(norm: Norm, n: int, *, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    if norm not in ("backward", "forward"):
        raise ParameterError(f"norm={norm!r}: choose 'backward', 'ortho' or 'forward'")
    return 1 / n if inverse == (norm == "backward") else 1.0


def _axes(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    rank = len(np.shape(x))
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    lengths: Sequence[int | None] = [None] * len(axes) if s is None else s
    if len(lengths) != len(axes):
        raise ParameterError(f"s={s}, axes={axes}: give one length for each axis")
    # The last axis first, as NumPy does.
    return list(zip(lengths, axes, strict=True))[::-1]
