"""The plan of a polynomial's value at a point: a_0 + a_1·x + ... + a_{n-1}·x^(n-1).

It depends on n, the format and x alone.  Every operation is one of IEEE 754, rounded to nearest.

*In one chain*, for fewer than ``CHAINED_FROM`` coefficients of binary64: Horner's rule, s = 0, then s = fma(s, x, a_i).

*In two chains*, for binary32, or for fewer than ``BLOCKED_FROM``: Horner's rule in x², for even powers and for odd ones,
s = 0, then s = fma(s, x·x, a_i); the value is fma(s of the odd, x, s of the even).  One long chain waits for its own results on a GPU.

*In blocks*, for the others: the MMAs of a unit, which are chains of fused multiply-adds, do nearly all of it.

1. Coefficients are cut into blocks of 512, each ROWS × COLUMNS: row r, column k has a_{512·t + 16·k + r}.  The last block is
   filled up with zeros to a multiple of four columns.
2. z = x^16 by squaring; z² = z·z, z³ = z²·z, z⁴ = z²·z²; z^(k + 4) = z^k · z⁴ for k to 27; x^512 = z^32 by squaring z⁴.
3. From the last block to the first, s_r = Σ_k a_{512·t + 16·k + r}·z^k: a chain of fused multiply-adds, k ascending, that
   begins at s_r·x^512, rounded; in the last block at 0.
4. s_r = fma(s_{r+8}, x^8, s_r) for r to 7, then likewise with x^4, x^2 and x; powers by squaring.

Powers overflow earlier than values: where these steps make no finite number, the value is that of Horner's rule in x, y = a_{n-1},
then y = fma(y, x, a_i) for i from n - 2 down to 0.  Every NaN is the one with all fraction bits set.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format

__all__ = [
    "BLOCK", "BLOCKED_FROM", "CHAINED_FROM", "COLUMNS", "ROWS", "chains", "is_blocked", "polynomial_error_bound", "polyval_error_bound",
]  # fmt: skip

ROWS, COLUMNS = 16, 32
BLOCK = ROWS * COLUMNS
BLOCKED_FROM = 576
"""Coefficients from which blocks are faster on an H100, where 512 fill one and 64 more are a step of the unit."""


CHAINED_FROM = 80
"""Coefficients of binary64 from which two chains are not slower on an H100: a point has two operations more, and few points wait half as
long.  Of binary32 they never are."""


def chains(n: int, name: str) -> int:
    """Of n coefficients of a format that are not taken in blocks."""
    return 1 if n < CHAINED_FROM and name == "binary64" else 2


def is_blocked(n: int, name: str) -> bool:
    """Whether n coefficients of a format are taken in blocks."""
    return name == "binary64" and n >= BLOCKED_FROM


def polyval_error_bound(
    coefficients: npt.NDArray[np.floating], points: npt.NDArray[np.floating], work: Format
) -> npt.NDArray[np.float64]:
    """Bounds on |value by the plan - exact value| of one polynomial.

    A term meets at most n roundings by Horner's rule, in x or, with those of x², in x².  In blocks, its power of x^16 has one less than its exponent, the first chain
    COLUMNS, every later block one for the product, 511 of x^512 and COLUMNS, and the last sums four and the powers to x^8.
    """
    n = coefficients.size
    roundings = n
    if is_blocked(n, work.name):
        roundings += math.ceil(n / BLOCK) * (COLUMNS + 1) + 4 + ROWS
    return polynomial_error_bound(coefficients, points, roundings, work)


def polynomial_error_bound(
    coefficients: npt.NDArray[np.floating], points: npt.NDArray[np.floating], roundings: int, work: Format
) -> npt.NDArray[np.float64]:
    """γ_N · Σ|a_i||x|^i with γ_N = N·u / (1 - N·u) for N roundings at most of a term, and what underflow loses.

    inf where an overflow cannot be excluded; NaN where inf or NaN is among the numbers.

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1.
    """
    a, x = (np.abs(np.asarray(each, np.float64)) for each in (coefficients, points))
    n = max(a.size, 1)
    gamma = roundings * work.unit_roundoff / (1 - roundings * work.unit_roundoff)
    with np.errstate(over="ignore", invalid="ignore"):
        mass, largest = np.zeros(x.shape), np.zeros(x.shape)
        for coefficient in a[::-1]:
            mass = mass * x + coefficient
            largest = largest * np.maximum(x, 1) + coefficient
        # Each operation may lose half of the smallest number, which later powers of |x| > 1 enlarge.
        tiny = work.min_subnormal * n * (float(a.sum()) + 2 * np.maximum(x, 1) ** (n - 1))
        bound = (gamma * mass + tiny) * (1 + 4 * n * 2.0**-53)
    bound = np.where(largest * (1 + gamma) <= work.max_finite, bound, np.inf)
    return np.where(np.isfinite(x) & np.isfinite(a).all(), bound, np.nan)
