"""The parts of a discrete Fourier transform that depend on its length alone: factors, roots, twiddles, chirps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
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
    """
    small, large = 1, []
    for prime in _primes(n):
        if prime > widest:
            large.append(prime)
        else:
            small *= prime
    found = [Level(prime, _convolution_pays(prime, widest)) for prime in sorted(large, reverse=True)]
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


def _split(n: int, widest: int) -> list[int]:
    divisors = [d for low in range(1, math.isqrt(n) + 1) if n % low == 0 for d in {low, n // low}]
    best: dict[int, tuple[int, float, tuple[int, ...]]] = {1: (0, 0.0, ())}
    for value in sorted(divisors)[1:]:
        best[value] = min(
            (count + 1, width + widest / (d * (widest // d)), (d, *rest))
            for d in divisors
            if 1 < d <= widest and value % d == 0
            for count, width, rest in [best[value // d]]
        )
    return sorted(best[n][2], reverse=True)


def _primes(n: int) -> list[int]:
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1 if p == 2 else 2
    return [*found, n] if n > 1 else found


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
