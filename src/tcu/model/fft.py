"""Fast Fourier transforms on the CPU: plans executed step by step, many transforms at once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.model import threads
from tcu.model.compiled import load
from tcu.plan.fft import (
    LEAST,
    MOST_SHIFT,
    TOP,
    FftPlan,
    chirp_of,
    fft_plan,
    half_turn,
    level_twiddles,
    pass_twiddles,
)

__all__ = ["Kernel", "convolution_kernel", "error_of", "from_real", "to_real", "transform"]

_CHUNK = 1 << 15
"""Numbers that a thread has in hand at a time: its cache holds them twice."""

Array = npt.NDArray[Any]


def transform(x: Array, plan: FftPlan, factor: float, *, inverse: bool) -> Array:
    """(rows, n, 2) of the plan's work format, transformed and then multiplied by ``factor``, rounded each time.  Numbers of binary16 are
    held as binary32, and so is what they are multiplied by last.

    The inverse is the same with real and imaginary parts exchanged, before and after.
    """
    rows, n = x.shape[:2]
    if plan.chirp is not None:
        return _by_chirp(x, plan, factor, inverse)
    if not plan.passes[0].radices or not rows:
        return _scaled(x, factor)
    done, left = 1, n
    scales = _Scales(plan, rows) if plan.work == "binary16" else None
    for number, each in enumerate(plan.passes):
        first, last = number == 0, number + 1 == len(plan.passes)
        rest = left // each.length
        x = _pass(
            x, plan, number, done, left, rest, factor if last else 1.0, scales,
            swapped_in=inverse and first, swapped_out=inverse and last,
        )  # fmt: skip
        if scales is None and plan.storage == "binary16" and not last:
            x = _stored(x, done, each.length, rest)
        done, left = done * each.length, rest
    return x


def _pass(
    x: Array, plan: FftPlan, number: int, done: int, left: int, rest: int, factor: float, scales: _Scales | None,
    *, swapped_in: bool, swapped_out: bool,
) -> Array:  # fmt: skip
    """One pass.  Its numbers lie as (rows, done, length, rest), and so do what it makes of them, but for the last pass."""
    kernels, work = load("fft_kernels"), plan.work
    lanes = kernels.LANES[work]
    length, radices = plan.passes[number]
    rows, n = x.shape[:2]
    last = number + 1 == len(plan.passes)
    lines = rows * done * rest
    real = x.dtype.type
    y = np.empty_like(x)
    flat, result = np.ascontiguousarray(x).reshape(-1), y.reshape(-1)
    tables, at_once = [], length
    for radix in radices:
        tables.append(
            level_twiddles(at_once, radix, work).astype(real, copy=False)
            if at_once > radix
            else np.zeros((0, radix - 1, 2), real)
        )
        at_once //= radix
    none = np.zeros((0, 2), real)
    shift, high, low = (0, none, none) if last else pass_twiddles(left, plan.turns)
    halves = half_turn(n, work).astype(real) if plan.halved else none
    drop = real(1)
    if scales:
        scales.begin(number, rows * done * rest)
        drop = real(0.5 ** (0 if last else plan.falls[number + 1]))
    apart = length // radices[-1]
    groups = max(1, _CHUNK // (lanes * length))
    size = groups * lanes

    def work_on(begin: int) -> None:
        line = np.arange(begin, min(begin + size, lines))
        row, inner = np.divmod(line, done * rest)
        block, column = np.divmod(inner, rest)
        starts = row * n + block * left + column
        # Behind the last pass, number k of what block b was stands at b's digits, reversed, + done·k.
        to = row * n + _reversed(block, plan, number) if last else starts
        step = done if last else rest
        if plan.halved:
            to, step = row * n + column * length, 1
        used = -(-line.size // lanes)
        z, other = (_aligned((used, length, 2, lanes), x.dtype) for _ in range(2))
        kernels.gather[work](flat, starts, rest, swapped_in, z)
        powers = none[:, 0]
        if scales:
            powers, factors = scales.of(z, line, row, block, column, rest)
            kernels.multiply(z, factors)
        stride = 1
        for radix, table in zip(radices, tables, strict=True):
            kernels.level(radix, work)(z, other, table, stride)
            z, other, stride = other, z, stride * radix
        if plan.halved:
            kernels.join(z, halves)
        turns = column if not last else line[:0]
        kernels.scatter[work](
            z,
            result,
            to,
            step,
            turns,
            apart,
            high,
            low,
            shift,
            drop,
            swapped_out,
            powers if last else powers[:0],
            real(factor),
        )

    threads.each(work_on, range(0, lines, size))
    return y


class _Scales:
    """Of binary16: by which powers of two the transforms of a pass are to be multiplied in the end."""

    def __init__(self, plan: FftPlan, rows: int) -> None:
        self._plan, self._rows = plan, rows
        self._before = self._now = np.zeros(0, np.float32)

    def begin(self, number: int, lines: int) -> None:
        self._number, self._before, self._now = number, self._now, np.empty(lines, np.float32)

    def of(
        self, z: Array, line: Array, row: Array, block: Array, column: Array, rest: int
    ) -> tuple[Array, Array]:
        """(those of lines, what their numbers in lanes are multiplied by now).  A lane without a line has any."""
        length, lanes, falls = z.shape[1], z.shape[3], (*self._plan.falls, 0)
        powers = np.ones(z.shape[0] * lanes, np.float32)
        if self._number == 0:
            largest = np.abs(z).max(axis=(1, 2)).reshape(-1)
            if self._plan.halved:  # of both lanes
                largest = np.repeat(largest.reshape(-1, 2).max(axis=1), 2)
            exponent = np.where(largest > 0, np.maximum(np.frexp(largest)[1] - 1, LEAST), LEAST)
            powers[:] = np.ldexp(np.float32(1), np.where(np.isfinite(largest), exponent, 0) + falls[0])
            factors = 1 / powers.reshape(-1, 1, lanes)
        else:
            # The pass before had transforms of the numbers of this one, each in a column of its own.
            last = self._plan.passes[self._number - 1].length
            columns = length * rest
            done = self._before.size // (self._rows * columns)
            places = ((row * done + block // last) * columns + column)[:, None] + rest * np.arange(length)
            ups = np.ones((powers.size, length), np.float32)
            ups[: line.size] = self._before[places]
            powers[:] = ups.max(axis=1)
            factors = (ups / powers[:, None]).reshape(-1, lanes, length).transpose(0, 2, 1)
            factors = np.ascontiguousarray(factors.astype(np.float16).astype(np.float32))
        self._now[line] = np.ldexp(powers[: line.size], falls[self._number + 1])
        return powers, factors


def _reversed(block: Array, plan: FftPlan, number: int) -> Array:
    """The place in the result of k₁, k₂ ... of the passes before, of which ``block`` is k₁·n₂·… + k₂·… + …."""
    place, weights = np.zeros_like(block), []
    weight = 1
    for each in plan.passes[:number]:
        weights.append(weight)
        weight *= each.length
    for each, weight in zip(plan.passes[number - 1 :: -1] if number else (), weights[::-1], strict=True):
        block, digit = np.divmod(block, each.length)
        place += digit * weight
    return place


def _aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Memory that begins at a multiple of 64 bytes, as vectors do."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    result: Array = memory[begin : begin + size].view(dtype).reshape(shape)
    return result


def _stored(x: Array, done: int, length: int, rest: int) -> Array:
    """As binary16 holds it, each transform of a pass scaled by a power of two, and back."""
    lines = x.reshape(-1, done, length, rest, 2)
    largest = np.abs(lines).max(axis=(2, 4), keepdims=True)
    _, exponent = np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 2.0**-126))
    shift = np.where(np.isfinite(largest), np.minimum(TOP - exponent, MOST_SHIFT), 0)
    with np.errstate(over="ignore", invalid="ignore"):
        codes = np.ldexp(lines, shift).astype(np.float16)
        back: Array = np.ldexp(codes.astype(x.dtype), -shift)
    return back.reshape(x.shape)


def _scaled(x: Array, factor: float) -> Array:
    result: Array = x.copy() if factor == 1 else x * x.dtype.type(factor)
    return result


class Kernel(NamedTuple):
    """What Bluestein's convolution multiplies by."""

    chirp: Array
    """(n, 2)."""
    transformed: Array
    """(L, 2): of the conjugate chirp, wrapped to length L, 1/L times its transform."""
    gain: float
    """√n times the error that a relative one of the transforms makes in the result."""


@lru_cache(maxsize=16)
def convolution_kernel(n: int, length: int, work: str) -> Kernel:
    """Computed in binary64 by its own plan."""
    wide = chirp_of(n, "binary64")
    wrapped = np.zeros((1, length, 2))
    wrapped[0, :n] = wide
    wrapped[0, length - n + 1 :] = wide[:0:-1]
    wrapped[..., 1] *= -1
    spectrum = transform(wrapped, fft_plan(length, "binary64"), 1.0, inverse=False)[0]
    gain = float(np.hypot(*spectrum.T).max())
    dtype = np.float64 if work == "binary64" else np.float32
    return Kernel(chirp_of(n, work), (spectrum / length).astype(dtype), gain)


def _by_chirp(x: Array, plan: FftPlan, factor: float, inverse: bool) -> Array:
    """Σ x[j]·w^jk, jk = (j² + k² - (k - j)²)/2: a convolution with a chirp."""
    inner = plan.chirp
    assert inner is not None
    n, length, times = plan.length, inner.length, load("fft_kernels").times
    kernel = convolution_kernel(n, length, plan.work)
    if inverse:
        x = x[..., ::-1]
    x, real = np.ascontiguousarray(x), x.dtype.type
    padded = np.empty((len(x), length, 2), x.dtype)
    times(x, kernel.chirp, n, real(1), padded)
    spectrum = transform(padded, inner, 1.0, inverse=False)
    times(spectrum, kernel.transformed, length, real(1), padded)
    spectrum = transform(padded, inner, 1.0, inverse=True)
    result = np.empty_like(x)
    times(spectrum, kernel.chirp, n, real(factor), result)
    return result[..., ::-1] if inverse else result


def error_of(plan: FftPlan) -> float:
    """‖computed - exact‖₂ ≤ error · ‖exact‖₂, of what comes before the result is rounded to its format."""
    if plan.chirp is None:
        return plan.error
    u = 2.0**-53 if plan.work == "binary64" else 2.0**-24
    kernel = convolution_kernel(plan.length, plan.chirp.length, plan.work)
    inner = plan.chirp.error
    wide = fft_plan(plan.chirp.length, "binary64").error * math.sqrt(plan.chirp.length)
    # Both transforms and the product between them see the convolution; what the kernel itself is off counts by its norm.
    amplified = kernel.gain / math.sqrt(plan.length)
    within = (2 * inner + inner**2 + 6 * u + wide) * amplified * (1 + 2.0**-10)
    return within + 8 * u * (1 + within)


def from_real(x: Array, plan: FftPlan, factor: float) -> Array:
    """(rows, n) real numbers, n even: the first n/2 + 1 numbers of their transforms, by the plan of n/2."""
    rows, n = x.shape
    z = transform(np.ascontiguousarray(x).reshape(rows, n // 2, 2), plan, 1.0, inverse=False)
    y = np.empty((rows, n // 2 + 1, 2), x.dtype)
    load("fft_kernels").unfold(z, half_turn(n, plan.work), x.dtype.type(factor / 2), y)
    return y


def to_real(x: Array, plan: FftPlan, factor: float) -> Array:
    """n real numbers, n even, from (rows, n/2 + 1) numbers of their transforms, by the plan of n/2."""
    rows, half = len(x), plan.length
    z = np.empty((rows, half, 2), x.dtype)
    load("fft_kernels").fold(np.ascontiguousarray(x), half_turn(2 * half, plan.work), z)
    return transform(z, plan, factor, inverse=True).reshape(rows, 2 * half)
