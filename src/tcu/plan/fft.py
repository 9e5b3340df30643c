"""Discrete Fourier transforms as plans: passes over memory, levels of butterflies, twiddle factors and roundings.

Every step is an IEEE addition, multiplication or FMA, or a rounding to the format in which numbers are stored; so the
bits of a transform depend on its length and formats alone: not on the batch, on strides, or on who executes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError, unknown_name
from tcu.formats.array import whole_number
from tcu.plan.butterflies import LENGTHS, butterfly
from tcu.plan.roots import roots_at, unit_roots
from tcu.plan.version import VERSIONS

__all__ = [
    "IN_BINARY16",
    "LEAST",
    "LONGEST",
    "MOST_SHIFT",
    "TOP",
    "Coarse",
    "FftPlan",
    "Pass",
    "Storage",
    "chirp_of",
    "convolution_length",
    "fft_plan",
    "half_turn",
    "level_twiddles",
    "pass_twiddles",
]

Storage = Literal["binary16", "binary32", "binary64"]
Work = Literal["binary16", "binary32", "binary64"]
LONGEST = 1 << 31
"""The longest transform: kernels number its elements by 32 bits."""
_AT_ONCE = {"binary16": 1 << 14, "binary32": 1 << 15, "binary64": 1 << 13}
"""Numbers that a GPU's multiprocessor holds, or those of a cluster: so long transforms are one pass over memory.  A cluster's blocks that
share 2^15 numbers of binary32 took 405 us in place of 531, of binary16 423 in place of 331 (H200, 2^26 numbers)."""
_TILE = {"binary16": 16, "binary32": 8, "binary64": 4}
"""Neighbouring transforms of a pass that share what is loaded together, at least: 64 bytes of memory.  Of binary16 eight would
do, but then a multiprocessor has one block of 2,048 numbers: 2^22 as 2,048·2,048 took 660 us, as 256·128·128 530 (H200)."""
IN_BINARY16 = 1 << 12, 1 << 26
"""From which length to which transforms of an even number of pairs of binary16 are computed in binary16: shorter ones take as long in
binary32, whose errors are a quarter; longer ones would be divided by so much that small numbers are lost."""
_LANES_AT_ONCE, _LANES_WIDEST = 1 << 15, 1 << 12
"""Of these: numbers that a multiprocessor holds, and the longest pass, of eight columns at least."""
_BEHIND = 1 << 8
"""Of binary16, of the last two of three passes of a power of two, where the first one may be so long: a GPU has both in one launch.  2^26 as 1024·256·256 took 445 us, as
512·512·256 501 (H200); of binary32 830 and 794."""
_FIRST = {"binary16": 1 << 10, "binary32": 1 << 11, "binary64": 1 << 11}
"""The longest first one of two passes.  It reads and writes pieces of as many columns as a block takes, where the last one reads whole
rows: of binary32 passes of 2,048 numbers took 470 us as the first and 317 as the last, of 1,024 324 and 280, of 4,096 535 and 342 (H200,
2^26 numbers)."""
_ROOM = 14
"""Of binary16: a transform of 2^14 numbers, whose largest part is below 2, stays below 2^15.5."""
_LONGEST_BUTTERFLY = {"binary16": 32, "binary32": 32, "binary64": 16}
"""Whose numbers a GPU's thread has in registers."""
_PRIMES = (2, 3, 5, 7)
_TWIDDLE = 3.0
"""Unit roundoffs that a product by a twiddle factor loses: 2 by its FMAs (C.-P. Jeannerod, P. Kornerup, N. Louvet, J.-M. Muller,
2017), 1 by the factor's own roundings."""
_SMALL_TWIDDLE = 3.0
"""Least numbers' halves that it loses of each number besides: √2·(1 + 1), by products and FMAs."""
_COARSE = 12.0
"""The same behind a pass, where the factor is a product of four of a table, by three products."""
TOP = 15
"""A pass's transform is scaled so that its largest part is from 2^14 up to 2^15 in binary16."""
LEAST = -24
"""Of binary16's least number, 2 to this."""
MOST_SHIFT = 126
"""By what power of two a pass's transform is scaled up at most: its inverse is a normal number."""


class Pass(NamedTuple):
    """Transforms of a part of the length, all of whose numbers are in one place."""

    length: int
    radices: tuple[int, ...]
    """The lengths of its levels of butterflies."""


@dataclass(frozen=True)
class FftPlan:
    """How a transform is computed.

    Number j of n = n₁·n₂ is j₁·n₂ + j₂: the first pass transforms along j₁ and multiplies by exp(-2πi·k₁·j₂/n), the passes
    that follow transform what is left, and number k₂ of these is number k₁ + n₁·k₂ of the result.  Within a pass the levels
    do the same (T. G. Stockham's order).
    """

    length: int
    work: Work
    """Of all additions and multiplications.  In binary16, transforms of the first pass are each scaled by a power of two before their first
    level, so that their largest part is from 1 up to 2, and divided by 2 to the first of ``falls``; behind a pass roots are divided by 2 to the next of these.
    Numbers of a later pass first lose what the passes before scaled them by, but for the largest of it.  Results are scaled back in binary32."""
    storage: Storage
    """Of real and imaginary parts between passes.  In binary16 behind work in binary32, a pass's transforms are each scaled by a power
    of two, so that their largest part is from 2^14 up to 2^15, or it is 2^126."""
    passes: tuple[Pass, ...]
    chirp: FftPlan | None = None
    """Of a length with a prime factor above 7: the transforms of Bluestein's convolution."""
    halved: bool = False
    """Whether the one pass, of half the length, transforms the numbers of even and of odd place; then those of the odd are multiplied by
    exp(-2πik/n), and butterflies of 2 make of both what is wanted."""
    version: int = VERSIONS["fft"]

    @property
    def turns(self) -> Work:
        """Of the roots between passes: those of binary16 are products in binary32, rounded, and multiplied by one another."""
        return "binary32" if self.work == "binary16" else self.work

    @property
    def falls(self) -> tuple[int, ...]:
        """Of binary16: by 2 to what numbers are divided before each pass, or behind the one before, so that no step of it overflows."""
        totals, done = [0], 2 if self.halved else 1
        for each in self.passes:
            done *= each.length
            totals.append(max(0, (done - 1).bit_length() - _ROOM))
        return tuple(after - before for before, after in pairwise(totals))

    @property
    def error(self) -> float:
        """‖computed - exact‖₂ ≤ error · ‖exact‖₂, of what comes before the result is rounded to its format.

        Of a chirp's plan it depends on tables: :func:`tcu.model.fft.error_of`.
        """
        assert self.chirp is None
        return _error(self)

    @property
    def operations(self) -> int:
        """Additions, multiplications and FMAs of a transform, without those for roots that all of a pass share."""
        n = self.length
        if self.chirp is not None:
            return 2 * self.chirp.operations + 4 * (2 * n + self.chirp.length)
        total, left = 0, n
        for number, each in enumerate(self.passes):
            at_once = each.length
            for radix in each.radices:
                total += n // radix * len(butterfly(radix).steps)
                total += 4 * (n - n // radix) if at_once > radix else 0
                at_once //= radix
            left //= each.length
            if self.halved:
                total += 4 * n  # products by roots, and sums
            if number + 1 < len(self.passes):
                total += 8 * n + 4 * (n // each.radices[-1])
        return total

    def __str__(self) -> str:
        if self.chirp is not None:
            return f"fft {self.length}: chirp, {self.chirp}"
        ways = "; ".join("·".join(map(str, each.radices)) or "1" for each in self.passes)
        stored = "" if self.storage == self.work else f", stored as {self.storage}"
        halves = " and 2" if self.halved else ""
        return f"fft {self.length} = {ways}{halves} in {self.work}{stored}"


@lru_cache(maxsize=1024, typed=True)
def fft_plan(n: int, storage: Storage) -> FftPlan:
    """The plan of transforms of n numbers whose parts are stored in that format.

    Raises ParameterError for n that is no whole number from 1 to 2^31, UnknownNameError for another format.
    """
    length = whole_number(n)
    if length is None or length < 1:
        raise ParameterError(f"n={n!r}: give a whole number from 1 on")
    if storage not in _AT_ONCE:
        raise unknown_name("format of a transform", storage, _AT_ONCE)
    n = length
    if n > LONGEST:
        raise ParameterError(f"a transform of {n:,} numbers: give at most 2^31; cut them into several")
    work: Work = "binary64" if storage == "binary64" else "binary32"
    rest = n
    for prime in _PRIMES:
        while rest % prime == 0:
            rest //= prime
    if rest > 1:
        length = convolution_length(2 * n - 1)
        if length > LONGEST:
            raise ParameterError(
                f"a transform of {n:,} numbers, of which {rest:,} has no prime factor up to 7, needs one of {length:,}: "
                "give at most 2^30, or a length of factors 2, 3, 5 and 7"
            )
        return FftPlan(n, work, work, (), fft_plan(length, work))
    if storage == "binary16" and n % 2 == 0 and IN_BINARY16[0] <= n <= IN_BINARY16[1]:
        return _in_binary16(n)
    lengths = _passes(n, storage)
    return FftPlan(n, work, storage, tuple(Pass(each, _radices(each, work)) for each in lengths))


def _in_binary16(n: int) -> FftPlan:
    halved = n <= _LANES_AT_ONCE
    rest, over = divmod(n, _BEHIND * _BEHIND)
    lengths: tuple[int, ...]
    if halved:
        lengths = (n // 2,)
    elif not over and _BEHIND <= rest <= _FIRST["binary16"] and rest & rest - 1 == 0:
        lengths = rest, _BEHIND, _BEHIND
    else:
        lengths = _several(n, _FIRST["binary16"], _LANES_WIDEST)
    passes = []
    for each in lengths:
        radices = _radices(each, "binary16")
        if not halved and len(radices) > 2:
            # Along columns, not the shortest level last, behind which a GPU's thread makes a root for each butterfly: 2^22 as
            # 16·8·16 twice took 405 us, as 16·16·8 420 (H200).
            radices = (*radices[:-2], radices[-1], radices[-2])
        passes.append(Pass(each, radices))
    return FftPlan(n, "binary16", "binary16", tuple(passes), halved=halved)


def convolution_length(least: int) -> int:
    """The shortest of 2^k, 3·2^k, 5·2^k and 9·2^k."""
    return min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5, 9))


def _passes(n: int, storage: Storage) -> tuple[int, ...]:
    """The lengths of the passes: as few as a multiprocessor can do in whole tiles."""
    if n <= _AT_ONCE[storage]:
        return (n,)
    return _several(n, _FIRST[storage], _AT_ONCE[storage] // _TILE[storage])


def _several(n: int, first: int, widest: int) -> tuple[int, ...]:
    """Two passes, the last one of up to four times the length of the first one, if that is possible; or three of like length.

    2^20 numbers of binary32 as 512·2048 took 582 us, as 1024·1024 604; 2^22 as 1024·4096 682, as 2048·2048 790; 2^24 as 256·256·256 850, as
    4096·4096 883; 2^16 of binary16 as 128·512 280, as 256·256 273 (H200, 2^26 numbers).
    """
    two = [
        (max(2 * each, n // each), abs(each - 256), each)
        for each in _divisors(n)
        if each <= first and n // each <= widest
    ]
    if two:
        each = min(two)[-1]
        return each, n // each
    found: tuple[int, ...] = ()
    while not found:
        found = _three(n, widest)
        widest *= 2
    return found


def _three(n: int, widest: int) -> tuple[int, ...]:
    """n as three factors up to ``widest``, the largest first and as small as can be."""
    return min(
        (
            (x, y, n // (x * y))
            for x in _divisors(n)
            if x <= widest
            for y in _divisors(n // x)
            if y <= x and n // (x * y) <= y
        ),
        default=(),
    )


@lru_cache(maxsize=1024)
def _divisors(n: int) -> tuple[int, ...]:
    found = {1}
    for prime in _PRIMES:
        power = prime
        while n % power == 0:
            found |= {each * prime for each in found if n % (each * prime) == 0}
            power *= prime
    return tuple(found)


@lru_cache(maxsize=1024)
def _radices(n: int, work: str) -> tuple[int, ...]:
    """The fewest levels, and among these the fewest operations."""
    return _cheapest(n, _LONGEST_BUTTERFLY[work])[2]


def _place_of(radix: int) -> tuple[bool, int]:
    """Levels of 16 come first, behind them longer ones, then shorter ones: so a GPU's threads are least in each other's way in
    shared memory (H200: 2^13 numbers of binary16 as 16·16·32 186 us, as 32·16·16 205 to 220, 2^11 as 16·16·8 160, as 8·16·16 174).
    """
    return radix < 16, abs(radix - 16)


@lru_cache(maxsize=1 << 14)
def _cheapest(n: int, longest: int) -> tuple[int, float, tuple[int, ...]]:
    if n == 1:
        return 0, 0.0, ()
    found = []
    for radix in LENGTHS:
        if radix <= longest and n % radix == 0:
            count, operations, rest = _cheapest(n // radix, longest)
            own = len(butterfly(radix).steps) / radix
            found.append((count + 1, operations + own, tuple(sorted((radix, *rest), key=_place_of))))
    return min(found)


# The tables.


@lru_cache(maxsize=64)
def level_twiddles(length: int, radix: int, work: str) -> npt.NDArray[Any]:
    """(length/radix, radix - 1, 2): exp(-2πi·q·k/length), k from 1, behind a level of which ``length`` is left."""
    q, k = np.arange(length // radix), np.arange(1, radix)
    return unit_roots(length, work)[np.outer(q, k)]


class Coarse(NamedTuple):
    """exp(-2πi·a/n) as high[a >> shift] · low[a mod 2^shift].

    Behind a pass, number k = p + s·i of a transform, s its length over the last radix, is multiplied by the root of
    p·j times that of s·i·j, j the place of the transform among those that are left.  So a thread that has all k of
    one p needs one root of its own, and the others are shared by all p.
    """

    shift: int
    high: npt.NDArray[Any]
    low: npt.NDArray[Any]


@lru_cache(maxsize=64)
def pass_twiddles(n: int, work: str) -> Coarse:
    """Behind a pass at whose beginning transforms of n numbers are left."""
    shift = (n.bit_length() + 1) // 2
    return Coarse(
        shift, roots_at(np.arange(0, n, 1 << shift), n, work), roots_at(np.arange(1 << shift), n, work)
    )


@lru_cache(maxsize=32)
def half_turn(n: int, work: str) -> npt.NDArray[Any]:
    """(n/2 + 1, 2): exp(-2πik/n), k up to n/2."""
    return roots_at(np.arange(n // 2 + 1), n, work)


def chirp_of(n: int, work: str) -> npt.NDArray[Any]:
    """(n, 2): exp(-πi·j²/n)."""
    j = np.arange(n, dtype=np.int64)
    return roots_at(j * j % (2 * n), 2 * n, work)


# The error.


@lru_cache(maxsize=1024)
def _error(plan: FftPlan) -> float:
    if plan.work == "binary16":
        return _error_in_binary16(plan)
    u = 2.0**-53 if plan.work == "binary64" else 2.0**-24
    total = 0.0
    for number, each in enumerate(plan.passes):
        last = number + 1 == len(plan.passes)
        for level, radix in enumerate(each.radices):
            own = butterfly(radix).error * u
            own += _TWIDDLE * u if level + 1 < len(each.radices) else 0.0 if last else _COARSE * u
            total += own + total * own
        if plan.storage == "binary16" and not last:
            # The smallest numbers are multiples of 2^-24, where a transform's largest part is 2^14 or more.
            own = 2.0**-11 + math.sqrt(2 * each.length) * 2.0**-39
            total += own + total * own
    return total * (1 + 2.0**-10)


def _error_in_binary16(plan: FftPlan) -> float:
    """Roundings that are relative, and those of small numbers: by 2^-25 at most, over the norm of what is transformed.

    Of the first pass's transform that was divided by the most, the norm is 2^-falls[0] or more; what k numbers become has √k times
    it, and all falls divide it.  The others belong to the same transform, whose norm is no smaller.
    """
    u, small, total = 2.0**-11, 2.0**-25, 0.0
    done, fall, twin = 1, 0, 2 if plan.halved else 1

    def add(relative: float, absolute: float, made: int) -> float:
        """Roundings of numbers that ``made`` each became of."""
        own = relative + absolute * small * math.sqrt(numbers / made) * 2.0**fall
        return total + own + total * own

    for number, each in enumerate(plan.passes):
        last = number + 1 == len(plan.passes)
        fall = fall if number else plan.falls[0]
        numbers, made = done * each.length * twin, done
        # Products by powers of two.  Of a pass before, 2^-25 and less is none of binary16: numbers of a transform are up to √8·√done,
        # in the mean of squares, over such a power.
        total = add(0.0, math.sqrt(2.0) + (3.0 * math.sqrt(done) / 2.0**fall if number else 0.0), made)
        for level, radix in enumerate(each.radices):
            made *= radix
            total = add(butterfly(radix).error * u, butterfly(radix).absolute_error, made)
            if level + 1 < len(each.radices) or plan.halved:
                total = add(_TWIDDLE * u, _SMALL_TWIDDLE, made)
            elif not last:
                # Two roots, each a product in binary32 and rounded, and their product.
                fall += plan.falls[number + 1]
                total = add(2 * _TWIDDLE * u + _COARSE * 2.0**-24, 2 * _SMALL_TWIDDLE, made)
        done *= each.length
    if plan.halved:
        total = add(butterfly(2).error * u, butterfly(2).absolute_error, 2 * done)
    return total * (1 + 2.0**-10)
