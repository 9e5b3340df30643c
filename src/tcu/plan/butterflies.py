"""Discrete Fourier transforms of a few numbers as programs: which additions, multiplications and FMAs, in which order.

A program is data.  The CPU's kernels and the GPU's are both made from it, so that both have the same bits; and it is
counted, and its error bounded, without being run.  Lengths are put together from 2, 3, 4, 5 and 7: by the theorem of
Chinese remainders where these have no common divisor (I. J. Good, 1958), else by twiddle factors.  A factor c + is is
taken as c·(1 + it), t = s/c of magnitude 1 at most: two FMAs now, and c goes into an FMA in place of the addition that
comes next (E. Linzer, E. Feig, 1993).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.plan.roots import DIGITS, circle, rounded

__all__ = ["LENGTHS", "Butterfly", "Step", "butterfly"]

LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 20, 25, 27, 32)


class Step(NamedTuple):
    """x + y, x - y, c·x, or c·x + y rounded once; the result is the next number."""

    kind: Literal["add", "sub", "mul", "fma"]
    x: int
    """The place of a number: first real and imaginary parts of the inputs in turns, then what steps came to."""
    y: int = -1
    constant: int = 0
    """Of c, in fixed point."""

    def factor(self, work: str) -> float:
        """c as "binary32" or "binary64"."""
        return rounded(self.constant, work)


@dataclass(frozen=True)
class Butterfly:
    """X[k] = Σ x[j]·exp(-2πijk/length)."""

    length: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    """The places of real and imaginary parts of the results in turns."""

    @property
    def error(self) -> float:
        """How far, in unit roundoffs and Euclidean norms, results can be from exact ones, over the exact ones' norm.

        To first order.  A step's error is at most its result's share of a unit roundoff, and as much again for the rounding
        of c.  With C the matrix that makes of inputs what is rounded, and S the one that makes of errors what results see of
        them, results are off by S·diag(δ)·C·x, |δ| ≤ u: at most u·‖S·w‖₂·‖C/w‖₂ for any weights w.
        """
        return _errors(self)[0]

    @property
    def absolute_error(self) -> float:
        """How far results can be off, in Euclidean norms over √length, if each step's result is off by 1 at most: of numbers so small
        that their format holds multiples of its least number only.
        """
        return _errors(self)[1]


class _Value(NamedTuple):
    """A real number of a program under way: scale · value[place], or its negative."""

    place: int
    negative: bool = False
    scale: int = 0
    """In fixed point; 0: 1."""


_Complex = tuple[_Value, _Value]
_ONE = 1 << DIGITS


class _Builder:
    def __init__(self, inputs: int) -> None:
        self.steps: list[Step] = []
        self._count = inputs

    def _put(self, *step: Any, negative: bool = False, scale: int = 0) -> _Value:
        self.steps.append(Step(*step))
        self._count += 1
        return _Value(self._count - 1, negative, scale)

    def plain(self, x: _Value) -> _Value:
        """Without a scale."""
        return self._put("mul", x.place, -1, x.scale, negative=x.negative) if x.scale else x

    def settled(self, x: _Value) -> int:
        """Without a scale or a sign."""
        x = self.plain(x)
        return self._put("mul", x.place, -1, -_ONE).place if x.negative else x.place

    def add(self, x: _Value, y: _Value) -> _Value:
        if x.scale and y.scale:
            if x.scale == y.scale:  # stays a factor of the sum
                return self.add(x._replace(scale=0), y._replace(scale=0))._replace(scale=x.scale)
            ratio = _quotient(y.scale, x.scale)
            if abs(ratio) > _ONE:
                return self.add(y, x)
            return self._fused(ratio, y, x._replace(scale=0))._replace(scale=x.scale)
        if x.scale or y.scale:
            scaled, other = (x, y) if x.scale else (y, x)
            return self._fused(scaled.scale, scaled, other)
        if x.negative and y.negative:
            return self._put("add", x.place, y.place, negative=True)
        if y.negative:
            return self._put("sub", x.place, y.place)
        if x.negative:
            return self._put("sub", y.place, x.place)
        return self._put("add", x.place, y.place)

    def sub(self, x: _Value, y: _Value) -> _Value:
        return self.add(x, _negative(y))

    def _fused(self, c: int, x: _Value, y: _Value) -> _Value:
        """c·x + y; the negative of it where y is negative."""
        c = -c if x.negative != y.negative else c
        return self._put("fma", x.place, y.place, c, negative=y.negative)

    def scaled(self, c: int, x: _Value) -> _Value:
        """c·x, later."""
        x = self.plain(x)
        return _Value(x.place, x.negative != (c < 0), abs(c))

    def fma(self, c: int, x: _Value, y: _Value) -> _Value:
        return self._fused(c, self.plain(x), self.plain(y))

    def turned(self, x: _Complex, k: int, n: int) -> _Complex:
        """x · exp(-2πik/n)."""
        re, im = x
        k %= n
        if 8 * k % n == 0 and (8 * k // n) % 2 == 0:
            for _ in range(4 * k // n):  # times -i
                re, im = im, _negative(re)
            return re, im
        cosine, sine = circle(k, n)
        sine = -sine
        re, im = self.plain(re), self.plain(im)
        if abs(abs(cosine) - abs(sine)) < 1 << 20:  # the diagonal: no FMA is needed before the scale
            same = (cosine < 0) == (sine < 0)
            one, other = (
                (self.sub(re, im), self.add(re, im)) if same else (self.add(re, im), self.sub(im, re))
            )
            return self.scaled(cosine, one), self.scaled(cosine, other)
        if abs(sine) <= abs(cosine):
            t = _quotient(sine, cosine)
            return self.scaled(cosine, self._fused(-t, im, re)), self.scaled(cosine, self._fused(t, re, im))
        t = _quotient(cosine, sine)
        # (re·c - im·s, im·c + re·s) = s·(re·t - im, im·t + re)
        return (
            self.scaled(sine, self._fused(t, re, _negative(im))),
            self.scaled(sine, self._fused(t, im, re)),
        )


def _negative(x: _Value) -> _Value:
    return x._replace(negative=not x.negative)


def _quotient(a: int, b: int) -> int:
    return (a << DIGITS) // b


@cache
def butterfly(length: int) -> Butterfly:
    """The program of one of :data:`LENGTHS`."""
    builder = _Builder(2 * length)
    inputs = [(_Value(2 * i), _Value(2 * i + 1)) for i in range(length)]
    results = [(builder.settled(re), builder.settled(im)) for re, im in _transformed(builder, inputs)]
    return Butterfly(length, tuple(builder.steps), tuple(place for pair in results for place in pair))


def _transformed(builder: _Builder, x: list[_Complex]) -> list[_Complex]:
    n = len(x)
    if n == 2:
        return _pair(builder, *x)
    if n == 4:
        (a, b), (c, d) = _pair(builder, x[0], x[2]), _pair(builder, x[1], x[3])
        first, third = _pair(builder, a, c)
        d = builder.turned(d, 1, 4)
        second, fourth = _pair(builder, b, d)
        return [first, second, third, fourth]
    if n in (3, 5, 7):
        return _odd(builder, x)
    factor = {6: 2, 8: 4, 9: 3, 10: 2, 12: 4, 14: 2, 15: 3, 16: 4, 20: 4, 25: 5, 27: 3, 32: 8}[n]
    return _composite(builder, x, factor, n // factor)


def _pair(builder: _Builder, x: _Complex, y: _Complex) -> list[_Complex]:
    return [
        (builder.add(x[0], y[0]), builder.add(x[1], y[1])),
        (builder.sub(x[0], y[0]), builder.sub(x[1], y[1])),
    ]


def _composite(builder: _Builder, x: list[_Complex], a: int, b: int) -> list[_Complex]:
    n, result = a * b, list(x)
    if math.gcd(a, b) == 1:
        inner = [_transformed(builder, [x[(b * i + a * j) % n] for i in range(a)]) for j in range(b)]
        for k in range(a):
            column = _transformed(builder, [inner[j][k] for j in range(b)])
            for m, value in enumerate(column):
                result[next(i for i in range(n) if i % a == k and i % b == m)] = value
        return result
    inner = [_transformed(builder, x[j::b]) for j in range(b)]
    for k in range(a):
        column = [builder.turned(inner[j][k], j * k, n) for j in range(b)]
        result[k::a] = _transformed(builder, column)
    return result


def _odd(builder: _Builder, x: list[_Complex]) -> list[_Complex]:
    """Of a prime: numbers j and n - j share a cosine and, up to the sign, a sine."""
    n, half = len(x), len(x) // 2
    x = [(builder.plain(re), builder.plain(im)) for re, im in x]
    sums, differences = [], []
    for j in range(1, half + 1):
        both, apart = _pair(builder, x[j], x[n - j])
        sums.append(both)
        differences.append(apart)
    result = list(x)
    total = x[0]
    for each in sums:
        total = builder.add(total[0], each[0]), builder.add(total[1], each[1])
    result[0] = total
    for k in range(1, half + 1):
        even, odd = list(x[0]), []
        for part in (0, 1):
            for j in range(1, half + 1):
                even[part] = builder.fma(circle(j * k, n)[0], sums[j - 1][part], even[part])
            largest = circle(k, n)[1]
            terms = differences[0][part]
            for j in range(2, half + 1):
                terms = builder.fma(_quotient(circle(j * k, n)[1], largest), differences[j - 1][part], terms)
            odd.append(builder.scaled(largest, terms))
        # -i·(odd) is (odd[1], -odd[0]).
        result[k] = builder.add(even[0], odd[1]), builder.sub(even[1], odd[0])
        result[n - k] = builder.sub(even[0], odd[1]), builder.add(even[1], odd[0])
    return result


@cache
def _errors(program: Butterfly) -> tuple[float, float]:
    inputs, steps = 2 * program.length, program.steps
    rows = [np.eye(inputs)[i] for i in range(inputs)]
    rounded_rows, injected = [], []
    for at, step in enumerate(steps):
        c = math.ldexp(step.constant, -DIGITS) if step.constant else 1.0
        x = rows[step.x]
        product = c * x if step.kind in ("mul", "fma") else x
        if step.kind == "mul" and abs(c) == 1:
            rows.append(product)
            continue
        other = rows[step.y] if step.y >= 0 else 0 * x
        value = product - other if step.kind == "sub" else product + other
        rows.append(value)
        rounded_rows.append(value)
        injected.append(at)
        if step.kind in ("mul", "fma"):  # c is rounded, too
            rounded_rows.append(product)
            injected.append(at)
    # What results see of an error behind each step, backwards.
    seen = np.zeros((inputs + len(steps), inputs))
    for number, place in enumerate(program.results):
        seen[place, number] += 1
    for at in range(len(steps) - 1, -1, -1):
        step, own = steps[at], seen[inputs + at]
        c = math.ldexp(step.constant, -DIGITS) if step.constant else 1.0
        seen[step.x] += (c if step.kind in ("mul", "fma") else 1.0) * own
        if step.y >= 0:
            seen[step.y] += (-1.0 if step.kind == "sub" else 1.0) * own
    made: npt.NDArray[Any] = np.array(rounded_rows)
    sees = seen[inputs + np.array(injected)]
    weights = np.sqrt(np.linalg.norm(made, axis=1) / np.linalg.norm(sees, axis=1))
    bound = np.linalg.norm(sees * weights[:, None], 2) * np.linalg.norm(made / weights[:, None], 2)
    least = np.linalg.norm(seen[inputs + np.unique(injected)], 2) * math.sqrt(len(set(injected)))
    scale = (1 + 2.0**-20) / math.sqrt(program.length)
    return float(bound * scale), float(least * scale)
