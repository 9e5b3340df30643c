"""The parts of a discrete Fourier transform that depend on its length alone: factors, roots, twiddles, chirps."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError

__all__ = [
    "LONGEST",
    "Level",
    "bluestein_length",
    "chirp",
    "chirp_planes",
    "fourier_matrix",
    "half_circle",
    "kernel_planes",
    "levels",
    "roots",
    "scaled_twiddles",
    "twiddle_shift",
]


LONGEST = 1 << 64
"""The longest transform: up to here every length is cut into its prime factors at once."""
_WAYS = 50_000_000
"""Pairs of a divisor and a factor that are compared at most: a few seconds."""
_TRIED = 1 << 10
"""Primes up to this are found by division, longer ones by Pollard's rho."""
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
"""They tell every prime below 3.3·10^24: J. Sorenson, J. Webster, Math. Comp. 86, 2017."""


@dataclass(frozen=True)
class Level:
    """One level of Cooley-Tukey: all DFTs of one length, which divides what is left of n."""

    length: int
    convolved: bool
    """By Bluestein's convolution, for primes too long for a product with the Fourier matrix in blocks."""


@lru_cache(maxsize=256)
def levels(n: int, widest: int) -> tuple[Level, ...]:
    """n as a product of DFT lengths up to ``widest``, and of the primes above it; the fewest levels.

    Among as few levels, those that fill the unit's rows best: a DFT of length
    f leaves widest mod f columns idle.

    Raises ParameterError where there are too many such products to compare.
    """
    primes = _primes(n)
    found = [Level(prime, _convolution_pays(prime, widest)) for prime in reversed(primes) if prime > widest]
    small = [prime for prime in primes if prime <= widest]
    return (*found, *(Level(factor, False) for factor in _split(small, widest)))


def _convolution_pays(p: int, widest: int) -> bool:
    """Whether Bluestein's two transforms of length L cost less than ⌈p / widest⌉² blocks of the Fourier matrix.

    Both in CPU operations without latency: a level of L numbers is 4L of the
    unit and 8L of the CPU, a product by a chirp or the kernel 6.
    """
    blocks = -(-p // widest)
    length = bluestein_length(p, widest)
    depth = math.ceil(math.log(length) / math.log(widest) - 1e-9)
    return 4 * blocks**2 * widest + 4 * p * blocks > 2 * 12 * depth * length + 6 * (length + 2 * p)


def _split(primes: Sequence[int], widest: int) -> list[int]:
    """The product of the primes as factors up to ``widest``."""
    divisors = [1]
    for prime, power in Counter(primes).items():
        divisors = [d * prime**i for d in divisors for i in range(power + 1)]
    idle = {d: widest / (d * (widest // d)) for d in sorted(divisors) if 1 < d <= widest}
    usable = list(idle)
    if len(divisors) * len(usable) > _WAYS:
        n = math.prod(primes)
        raise ParameterError(
            f"a DFT of length {n}: {len(divisors):,} divisors, {len(usable):,} of them up to {widest}, make too many "
            f"products to compare; take a length of fewer divisors, such as 2^{n.bit_length() - 1}, or a smaller m"
        )

    @cache
    def best(value: int) -> tuple[int, float, int]:
        """How many factors, how many times the columns that they use, and the first factor."""
        if value <= widest:
            return (1, idle[value], value) if value > 1 else (0, 0.0, 1)
        count, reach = 1, 1  # of what the other factors reach
        while reach * widest < value:
            count, reach = count + 1, reach * widest
        found = shortest(value, usable[bisect_left(usable, -(-value // reach)) :])
        return found if found[0] == count else shortest(value, usable)

    def shortest(value: int, factors: Iterable[int]) -> tuple[int, float, int]:
        return min(
            ((count + 1, width + idle[d], d) for d in factors if value % d == 0 for count, width, _ in [best(value // d)]),
            default=(value, 0.0, 1),
        )  # fmt: skip

    found = []
    value = math.prod(primes)
    while value > 1:
        found.append(best(value)[2])
        value //= found[-1]
    return sorted(found, reverse=True)


def _primes(n: int) -> list[int]:
    """The prime factors, in ascending order."""
    found, p = [], 2
    while p * p <= n and p <= _TRIED:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1 if p == 2 else 2
    return found + sorted(_long_primes(n)) if n > 1 else found


def _long_primes(n: int) -> list[int]:
    """The prime factors of a number that has none up to ``_TRIED``."""
    if n <= _TRIED**2 or _is_prime(n):
        return [n]
    divisor = _divisor(n)
    return _long_primes(divisor) + _long_primes(n // divisor)


def _is_prime(n: int) -> bool:
    """By Miller and Rabin, for odd numbers above the witnesses."""
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for witness in _WITNESSES:
        x = pow(witness, (n - 1) >> twos, n)
        if x != 1 and all(pow(x, 1 << i, n) != n - 1 for i in range(twos)):
            return False
    return True


def _divisor(n: int) -> int:
    """One of a number that is not prime, by Pollard's rho."""
    divisor, step = n, 0
    while divisor == n:
        divisor, step = 1, step + 1
        slow = fast = 2
        while divisor == 1:
            slow = (slow * slow + step) % n
            fast = (fast * fast + step) % n
            fast = (fast * fast + step) % n
            divisor = math.gcd(slow - fast, n)
    return divisor


@lru_cache(maxsize=8)
def roots(n: int) -> npt.NDArray[np.complex128]:
    """exp(-2πi k/n) for k = 0 ... n - 1, each part within one unit in the last place.

    The angle is reduced to [0, π/4] in integers, so that the roots have all
    the symmetries of the circle: ±1 and ±i are exact, and conjugates are.
    """
    quadrant, rest = np.divmod(4 * np.arange(n, dtype=np.int64), n)
    mirrored = 2 * rest > n
    angle = (np.pi / 2) * (np.where(mirrored, n - rest, rest) / n)
    diagonal = 2 * rest == n  # where cosine and sine, rounded, may differ
    cosine, sine = (np.where(diagonal, math.sqrt(0.5), part(angle)) for part in (np.cos, np.sin))
    cosine, sine = np.where(mirrored, sine, cosine), np.where(mirrored, cosine, sine)
    result = np.empty(n, np.complex128)
    result.real = np.choose(quadrant, (cosine, -sine, -cosine, sine))
    result.imag = -np.choose(quadrant, (sine, cosine, -sine, -cosine))
    return result


def fourier_matrix(f: int) -> npt.NDArray[np.complex128]:
    """The f × f matrix of exp(-2πi rc/f)."""
    k = np.arange(f)
    matrix: npt.NDArray[np.complex128] = roots(f)[np.outer(k, k) % f]
    return matrix


def twiddle_shift(f: int) -> int:
    """e with f ≤ 2^e: after a DFT of length f, 2^-e of it is no larger than its input was."""
    return (f - 1).bit_length()


def scaled_twiddles(f: int, rest: int, shift: int, dtype: str) -> npt.NDArray[Any]:
    """(2, rest, 1, f): real and imaginary parts of 2^-shift · exp(-2πi bc/(f·rest)), for every b and c."""
    table = roots(f * rest)[np.outer(np.arange(rest), np.arange(f))]
    return _planes(table * 2.0**-shift, dtype)[:, :, None, :]


def half_circle(n: int, scale: float, dtype: str) -> npt.NDArray[Any]:
    """(2, n/2 + 1): real and imaginary parts of scale · exp(-2πik/n)."""
    return _planes(scale * roots(n)[: n // 2 + 1], dtype)


def bluestein_length(p: int, widest: int) -> int:
    """The shortest q·widest^k of at least 2p - 1: as few levels as any length that holds the convolution."""
    power = 1
    while power * widest <= 2 * p - 1:
        power *= widest
    return power * -(-(2 * p - 1) // power)


@dataclass(frozen=True)
class Chirp:
    """Bluestein's sequences for one prime length."""

    length: int
    chirp: npt.NDArray[np.complex128]
    """exp(-πi j²/p), j = 0 ... p - 1."""
    kernel: npt.NDArray[np.complex128]
    """1/L times the DFT of its conjugate, wrapped to length L."""


@lru_cache(maxsize=8)
def chirp(p: int, widest: int) -> Chirp:
    """x's DFT is chirp · (x · chirp ∗ conjugate chirp); the convolution's kernel is transformed beforehand."""
    length = bluestein_length(p, widest)
    j = np.arange(p, dtype=np.int64)
    sequence = roots(2 * p)[j * j % (2 * p)]
    wrapped = np.zeros(length, np.complex128)
    wrapped[:p] = sequence.conj()
    wrapped[length - p + 1 :] = sequence[:0:-1].conj()
    return Chirp(length, sequence, np.fft.fft(wrapped) / length)


def chirp_planes(p: int, widest: int, dtype: str) -> npt.NDArray[Any]:
    """(2, p): real and imaginary parts of the chirp."""
    return _planes(chirp(p, widest).chirp, dtype)


def kernel_planes(p: int, widest: int, dtype: str) -> npt.NDArray[Any]:
    """(2, L): real and imaginary parts of the kernel."""
    return _planes(chirp(p, widest).kernel, dtype)


def _planes(values: npt.NDArray[np.complex128], dtype: str) -> npt.NDArray[Any]:
    return np.stack([values.real, values.imag]).astype(dtype)
