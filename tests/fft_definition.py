"""Fourier transforms from the words of their plans, one number at a time: what the model and a GPU are held against.

Additions, multiplications and FMAs are those of Fractions, rounded once; nothing is shared with tcu.model but the plan's data.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.ops.fft import FftCall, plan_of, real_format
from tcu.plan.butterflies import butterfly
from tcu.plan.fft import FftPlan, chirp_of, fft_plan, pass_twiddles
from tcu.plan.roots import unit_roots

__all__ = ["Number", "call", "transform"]

Number = tuple[float, float]
"""Real and imaginary part, as float64, which holds every number of the formats."""


class Arithmetic:
    """IEEE additions, multiplications and FMAs of a format."""

    def __init__(self, work: str) -> None:
        self.work = work
        self.bits, self.least, self.most = {
            "binary16": (11, -24, 16), "binary32": (24, -149, 128), "binary64": (53, -1074, 1024)
        }[work]  # fmt: skip

    def rounded(self, value: Fraction) -> float:
        """To the nearest, ties to even."""
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        exponent -= abs(value) < Fraction(2) ** exponent
        unit = max(exponent - self.bits + 1, self.least)
        scaled = value / Fraction(2) ** unit
        found = round(scaled)  # of a Fraction: ties to even
        if abs(found) * Fraction(2) ** unit >= Fraction(2) ** self.most:
            return math.copysign(math.inf, found)
        return math.copysign(math.ldexp(found, unit), value)

    def fma(self, x: float, y: float, z: float) -> float:
        if not all(map(math.isfinite, (x, y, z))):
            with np.errstate(all="ignore"):
                product = float(np.float64(x) * np.float64(y)) if math.isinf(x) or math.isinf(y) else 0.0
                return (
                    float(np.float64(product) + np.float64(z))
                    if not any(map(math.isnan, (x, y)))
                    else math.nan
                )
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact:
            return self.rounded(exact)
        if Fraction(x) * Fraction(y) == 0 == Fraction(z):  # the sign of a sum of zeros
            return math.copysign(1, x) * math.copysign(1, y) * 0.0 + z
        return 0.0

    def add(self, x: float, y: float) -> float:
        return self.fma(1.0, x, y)

    def sub(self, x: float, y: float) -> float:
        return self.fma(1.0, x, -y)

    def mul(self, x: float, y: float) -> float:
        sign = math.copysign(1, x) * math.copysign(1, y)
        return self.fma(x, y, math.copysign(0.0, sign))

    def times(self, x: Number, root: Any) -> Number:
        """By a root: an FMA for each part, behind a product."""
        (re, im), (c, s) = x, (float(each) for each in root)
        return self.fma(re, c, -self.mul(im, s)), self.fma(re, s, self.mul(im, c))

    def scaled(self, x: Number, factor: float) -> Number:
        own = self.rounded(Fraction(factor)) if factor else factor
        return x if factor == 1 else (self.mul(x[0], own), self.mul(x[1], own))


def transform(x: list[Number], plan: FftPlan, factor: float = 1.0, *, inverse: bool = False) -> list[Number]:
    """The inverse is the same with parts exchanged before and after; the factor comes last."""
    numbers = Arithmetic(plan.work)
    if inverse:
        x = _exchanged(x)
    if plan.chirp is not None:
        result = _by_chirp(x, plan, plan.chirp, factor, numbers)
    elif plan.work == "binary16":
        wide = Arithmetic("binary32")
        result = [wide.scaled(each, factor) for each in _in_binary16(x, plan, 0, None)]
    else:
        result = [numbers.scaled(each, factor) for each in _passes(x, plan, 0, numbers)]
    return _exchanged(result) if inverse else result


def _exchanged(x: list[Number]) -> list[Number]:
    return [(im, re) for re, im in x]


def _passes(x: list[Number], plan: FftPlan, number: int, numbers: Arithmetic) -> list[Number]:
    """Number j₁·rest + j₂: along j₁ first, times the root of k₁·j₂, then along j₂; k₁ + length·k₂ of the result."""
    length, radices = plan.passes[number]
    left = len(x)
    rest = left // length
    if number + 1 == len(plan.passes):
        return _levels(x, radices, numbers)
    shift, high, low = pass_twiddles(left, plan.work)

    def root(place: int) -> Number:
        return numbers.times(tuple(map(float, high[place >> shift])), low[place & (1 << shift) - 1])

    apart = length // radices[-1]
    columns = []
    for j in range(rest):
        column = _levels(x[j::rest], radices, numbers)
        turned = []
        for k, each in enumerate(column):
            near = k % apart
            turned.append(numbers.times(each, numbers.times(root(near * j), root((k - near) * j))))
        columns.append(_as_binary16(turned) if plan.storage == "binary16" else turned)
    result: list[Number] = [(0.0, 0.0)] * left
    for k in range(length):
        result[k::length] = _passes([column[k] for column in columns], plan, number + 1, numbers)
    return result


def _in_binary16(x: list[Number], plan: FftPlan, number: int, ups: list[float] | None) -> list[Number]:
    """The same; each column is multiplied by a power of two at first, and with its roots, and its results by the inverse later: behind the
    last pass, or by the next pass, whose numbers have a power each, but for the largest of these.
    """
    length, radices = plan.passes[number]
    left, narrow, wide = len(x), Arithmetic("binary16"), Arithmetic("binary32")
    rest, last = left // length, number + 1 == len(plan.passes)
    shift, high, low = pass_twiddles(left, "binary32")

    def root(place: int) -> Number:
        return wide.times(tuple(map(float, high[place >> shift])), low[place & (1 << shift) - 1])

    def narrowed(root: Number) -> Number:
        return narrow.rounded(Fraction(root[0])), narrow.rounded(Fraction(root[1]))

    apart = length // radices[-1]
    columns, powers = [], []
    for j in range(rest):
        own, before = x[j::rest], ups and ups[j::rest]
        power = max(before) if before else _power_of(x if plan.halved else own)
        power *= 1 if before else 2.0 ** plan.falls[0]
        factors = [narrow.rounded(Fraction(up / power)) for up in before] if before else [1 / power] * length
        own = [(narrow.mul(re, c), narrow.mul(im, c)) for (re, im), c in zip(own, factors, strict=True)]
        column = _levels(own, radices, narrow)
        if plan.halved:
            roots = unit_roots(left, "binary16")
            column = [narrow.times(each, roots[j * k]) for k, each in enumerate(column)]
        elif not last:
            drop = 2.0 ** plan.falls[number + 1]
            power *= drop
            for k, each in enumerate(column):
                near, far = root(k % apart * j), narrowed(root((k - k % apart) * j))
                turn = narrow.times(narrowed((near[0] / drop, near[1] / drop)), far)
                column[k] = narrow.times(each, turn)
        columns.append(column)
        powers.append(power)
    if plan.halved:
        both = list(zip(*columns, strict=True))
        columns = [
            [tuple(map(narrow.add, a, b)) for a, b in both] + [tuple(map(narrow.sub, a, b)) for a, b in both]
        ]
    if last:
        return [(wide.mul(re, powers[0]), wide.mul(im, powers[0])) for re, im in columns[0]]
    result: list[Number] = [(0.0, 0.0)] * left
    for k in range(length):
        result[k::length] = _in_binary16([column[k] for column in columns], plan, number + 1, powers)
    return result


def _power_of(x: list[Number]) -> float:
    """The largest power of two up to the largest part, of binary16's at least; 1 beside inf or NaN."""
    parts = [abs(part) for each in x for part in each]
    if not all(map(math.isfinite, parts)):
        return 1.0
    return max(2.0**-24, math.ldexp(1.0, math.frexp(max(parts))[1] - 1)) if any(parts) else 2.0**-24


def _levels(x: list[Number], radices: tuple[int, ...], numbers: Arithmetic) -> list[Number]:
    """The same within a pass."""
    if not radices:
        return x
    radix, n = radices[0], len(x)
    rest = n // radix
    roots = unit_roots(n, numbers.work)
    columns = []
    for j in range(rest):
        column = _butterfly(x[j::rest], numbers)
        if rest > 1:
            column[1:] = [numbers.times(each, roots[j * k]) for k, each in enumerate(column[1:], 1)]
        columns.append(column)
    result: list[Number] = [(0.0, 0.0)] * n
    for k in range(radix):
        result[k::radix] = _levels([column[k] for column in columns], radices[1:], numbers)
    return result


def _butterfly(x: list[Number], numbers: Arithmetic) -> list[Number]:
    program = butterfly(len(x))
    values = [part for each in x for part in each]
    for step in program.steps:
        a, b = values[step.x], values[step.y] if step.y >= 0 else 0.0
        c = step.factor(numbers.work)
        if step.kind in ("add", "sub"):
            values.append(numbers.add(a, b) if step.kind == "add" else numbers.sub(a, b))
        else:
            values.append(numbers.mul(c, a) if step.kind == "mul" else numbers.fma(c, a, b))
    found = [values[place] for place in program.results]
    return list(zip(found[::2], found[1::2], strict=True))


def _as_binary16(x: list[Number]) -> list[Number]:
    """Scaled so that the largest part is from 2^14 up to 2^15, but by 2^126 at most, rounded, and scaled back."""
    parts = [abs(part) for each in x for part in each]
    largest = math.nan if any(map(math.isnan, parts)) else max(parts)
    exponent = math.frexp(largest)[1] if math.isfinite(largest) and largest else -125
    shift = min(15 - exponent, 126) if math.isfinite(largest) else 0

    def stored(part: float) -> float:
        with np.errstate(over="ignore"):
            return math.ldexp(float(np.float16(math.ldexp(part, shift))), -shift)

    return [(stored(re), stored(im)) for re, im in x]


def _by_chirp(
    x: list[Number], plan: FftPlan, inner: FftPlan, factor: float, numbers: Arithmetic
) -> list[Number]:
    """L. I. Bluestein's: a convolution with exp(πij²/n), between two products by its conjugate."""
    n, length = plan.length, inner.length
    wide = [tuple(map(float, each)) for each in chirp_of(n, "binary64")]
    wrapped: list[Number] = [(0.0, 0.0)] * length
    for j, (c, s) in enumerate(wide):
        wrapped[j] = wrapped[-j] = c, -s
    spectrum = transform(wrapped, fft_plan(length, "binary64"))
    kernel = [
        [numbers.rounded(Fraction(part) / length) if part else 0.0 for part in each] for each in spectrum
    ]
    if length & (length - 1):  # then the quotient is rounded to binary64 before it is to the format
        kernel = [
            [float(np.float32(part / length)) if numbers.bits == 24 else part / length for part in each]
            for each in spectrum
        ]
    chirp = chirp_of(n, plan.work)
    padded = [numbers.times(each, root) for each, root in zip(x, chirp, strict=True)]
    around = transform(padded + [(0.0, 0.0)] * (length - n), inner)
    around = [numbers.times(each, root) for each, root in zip(around, kernel, strict=True)]
    back = transform(around, inner, inverse=True)[:n]
    return [numbers.scaled(numbers.times(each, root), factor) for each, root in zip(back, chirp, strict=True)]


def _from_real(x: list[float], plan: FftPlan, factor: float) -> list[Number]:
    """Even and odd numbers as one complex transform of half the length."""
    n, numbers = len(x), Arithmetic(plan.work)
    half, roots = n // 2, unit_roots(n, plan.work)
    z = transform(list(zip(x[::2], x[1::2], strict=True)), plan)
    result = []
    for k in range(half + 1):
        near, far = z[k % half], z[-k % half]
        even = numbers.add(near[0], far[0]), numbers.sub(near[1], far[1])
        odd = numbers.times((numbers.add(near[1], far[1]), numbers.sub(far[0], near[0])), roots[k])
        total = numbers.add(even[0], odd[0]), numbers.add(even[1], odd[1])
        own = numbers.rounded(Fraction(factor) / 2)
        result.append((numbers.mul(total[0], own), numbers.mul(total[1], own)))
    return result


def _to_real(x: list[Number], plan: FftPlan, factor: float) -> list[float]:
    half, numbers = plan.length, Arithmetic(plan.work)
    roots = unit_roots(2 * half, plan.work)
    z = []
    for k in range(half):
        (ar, ai), (br, bi) = x[k], x[half - k]
        if k == 0:
            ai = bi = 0.0
        even = numbers.add(ar, br), numbers.sub(ai, bi)
        c, s = map(float, roots[k])
        odd = numbers.times((numbers.sub(ar, br), numbers.add(ai, bi)), (c, -s))
        z.append((numbers.sub(even[0], odd[1]), numbers.add(even[1], odd[0])))
    return [part for each in transform(z, plan, factor, inverse=True) for part in each]


def call(request: FftCall, plan: FftPlan | None = None) -> npt.NDArray[Any]:
    """What an engine gives for one line: numbers along its only axis (and pairs), cut or padded already.

    As float64, before it is rounded to the result's format, with parts along a last axis.
    """
    real = real_format(request.x.dtype)
    plan = plan or plan_of(request, real)
    n, factor = request.n, request.factor
    if request.kind == "from_real":
        line = [float(each) for each in request.x]
        if n % 2 == 0:
            return np.array(_from_real(line, plan, factor))
        return np.array(transform([(each, 0.0) for each in line], plan, factor)[: n // 2 + 1])
    x = [(float(re), float(im)) for re, im in request.x]
    if request.kind == "to_real":
        if n % 2 == 0:
            return np.array(_to_real(x, plan, factor))
        mirrored = [(x[0][0], 0.0), *x[1:], *((re, -im) for re, im in x[:0:-1])]
        return np.array([re for re, _ in transform(mirrored, plan, factor, inverse=True)])
    return np.array(transform(x, plan, factor, inverse=request.kind == "inverse"))
