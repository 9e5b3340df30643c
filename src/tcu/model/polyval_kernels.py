"""Values of polynomials on one core; compiled by Numba.  The order is that of :mod:`tcu.plan.polyval`."""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from tcu.model import elementary
from tcu.model.elementary import fma
from tcu.model.jit import fingerprint, jit
from tcu.plan import polyval as plan
from tcu.plan.polyval import BLOCK, COLUMNS, ROWS

__all__ = ["blocked", "one_chain", "two_chains"]

_FINGERPRINT = fingerprint(elementary, plan)
_POINTS = 64
"""Points whose powers and sums stay in a core's nearest cache; they fill its vectors."""
_AT_ONCE = 4
"""Coefficients for which a sum is read and written once."""


@numba.njit(nogil=True)
def finish(a, n, x, out):
    """By Horner's rule what is not finite yet."""
    for p in range(x.size):
        if not np.isfinite(out[p]):
            y = a[n - 1]
            for i in range(n - 2, -1, -1):
                y = fma(y, x[p], a[i])
            out[p] = y


def _build_one_chain(fingerprint):
    @jit
    def one_chain(a, n, x, out):
        """out = the value at x of a[0] + a[1]·x + ..., n of one format; a has zeros behind them, up to a multiple of 4."""
        fingerprint  # noqa: B018
        for first in range(0, x.size, _POINTS):
            points, values = x[first : first + _POINTS], out[first : first + _POINTS]
            values[:] = 0
            for i in range(a.size - 1, 0, -4):
                for p in range(points.size):
                    s = fma(fma(values[p], points[p], a[i]), points[p], a[i - 1])
                    values[p] = fma(fma(s, points[p], a[i - 2]), points[p], a[i - 3])
        finish(a, n, x, out)

    return one_chain


def _build_two_chains(fingerprint):
    @jit
    def two_chains(a, n, x, out):
        """The same by Horner's rule in x², for odd and for even powers."""
        fingerprint  # noqa: B018
        square, odd, even = np.empty(_POINTS, a.dtype), np.empty(_POINTS, a.dtype), np.empty(_POINTS, a.dtype)
        for first in range(0, x.size, _POINTS):
            points, values = x[first : first + _POINTS], out[first : first + _POINTS]
            for p in range(points.size):
                square[p] = points[p] * points[p]
            odd[:], even[:] = 0, 0
            for i in range(a.size - 1, 0, -4):
                for p in range(points.size):
                    odd[p] = fma(fma(odd[p], square[p], a[i]), square[p], a[i - 2])
                    even[p] = fma(fma(even[p], square[p], a[i - 1]), square[p], a[i - 3])
            for p in range(points.size):
                values[p] = fma(odd[p], points[p], even[p])
        finish(a, n, x, out)

    return two_chains


def _build_blocked(fingerprint):
    @jit
    def blocked(a, n, x, out):
        """The same of n coefficients in blocks; a has zeros behind them, up to a multiple of BLOCK."""
        fingerprint  # noqa: B018
        powers, step = np.empty((COLUMNS, _POINTS)), np.empty(_POINTS)
        sums = np.empty((ROWS, _POINTS))
        last = COLUMNS - (a.size - n) // (4 * ROWS) * 4
        for first in range(0, x.size, _POINTS):
            count = min(_POINTS, x.size - first)
            for p in range(count):
                z = x[first + p]
                for _ in range(4):  # x^16
                    z *= z
                powers[0, p], powers[1, p], powers[2, p] = 1, z, z * z
                powers[3, p] = powers[2, p] * z
                fourth = powers[2, p] * powers[2, p]
                for k in range(4, COLUMNS):
                    powers[k, p] = powers[k - 4, p] * fourth
                for _ in range(3):  # x^512
                    fourth *= fourth
                step[p] = fourth
            sums[:] = 0
            depth = last
            for block in range(a.size - BLOCK, -1, -BLOCK):
                for r in range(ROWS):
                    if block != a.size - BLOCK:
                        for p in range(count):
                            sums[r, p] *= step[p]
                    at = block + r
                    for k in range(0, depth, _AT_ONCE):
                        c0, c1, c2, c3 = (
                            a[at + ROWS * k], a[at + ROWS * (k + 1)], a[at + ROWS * (k + 2)], a[at + ROWS * (k + 3)],
                        )  # fmt: skip
                        for p in range(count):
                            s = fma(c1, powers[k + 1, p], fma(c0, powers[k, p], sums[r, p]))
                            sums[r, p] = fma(c3, powers[k + 3, p], fma(c2, powers[k + 2, p], s))
                depth = COLUMNS
            for p in range(count):
                v = x[first + p]
                second = v * v
                fourth = second * second
                for r in range(8):
                    sums[r, p] = fma(sums[r + 8, p], fourth * fourth, sums[r, p])
                for r in range(4):
                    sums[r, p] = fma(sums[r + 4, p], fourth, sums[r, p])
                for r in range(2):
                    sums[r, p] = fma(sums[r + 2, p], second, sums[r, p])
                out[first + p] = fma(sums[1, p], v, sums[0, p])
        finish(a, n, x, out)

    return blocked


one_chain = _build_one_chain(_FINGERPRINT)
two_chains = _build_two_chains(_FINGERPRINT)
blocked = _build_blocked(_FINGERPRINT)
