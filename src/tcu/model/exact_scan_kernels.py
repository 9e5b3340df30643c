"""Running sums that are each rounded once; compiled by Numba.

A running sum is three numbers of binary64 that are added up without an error
(Knuth's two-sums) while that is possible: s takes the numbers, e what s loses, f
what e loses.  Where f would lose something, or s overflows, the segment goes
on in limbs of 32 bits (:mod:`tcu.model.exact_rows`).
"""
# Compiled by Numba, which types it.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tcu.model.exact_rows import _LIMB, _LIMBS, _LOWEST, _rounded
from tcu.model.jit import jit

__all__ = ["LIMB", "LIMBS", "LOWEST", "scan_exactly"]

LIMB, LIMBS, LOWEST = _LIMB, _LIMBS, _LOWEST
"""Of the fixed-point number that a sum is carried in: bits of a limb, their number, the exponent of the lowest bit."""
_MOST = np.finfo(np.float64).max


@jit
def scan_exactly(
    x, offsets, exclusive, reverse, to_double, goal, before, in_limbs, limbs, flags, values, codes, slow
):
    """The running sums of the segments of a line of binary64; how many are in ``codes``.

    A sum is in ``values``, rounded to odd, or to nearest if ``to_double``; or,
    where ``slow`` says so, in ``codes``, of the format that ``goal`` describes
    (:func:`tcu.model.exact_rows.sum_rows_exactly`).  ``before``, or ``limbs`` if ``in_limbs``,
    is the sum before a single segment, ``flags`` whether there was inf, -inf or NaN.
    """
    scratch, parts = np.zeros(LIMBS, np.int64), np.zeros(5, np.uint64)
    three = np.zeros(3)
    codes_of_three, codes_of_x, bits = three.view(np.int64), x.view(np.int64), values.view(np.int64)
    low, high = np.int64(0), np.int64(LIMBS - 3)
    count, shift = 0, 1 if exclusive else 0
    for segment in range(offsets.size - 1):
        start, stop = offsets[segment], offsets[segment + 1]
        s, e, f = before[0], before[1], before[2]
        plus, minus, nan = flags[0], flags[1], flags[2]
        narrow = not in_limbs
        for k in range(start - shift, stop - shift):
            if k >= start:
                at = start + stop - 1 - k if reverse else k
                v = x[at]
                a = s + v
                if narrow and np.abs(a) <= _MOST:
                    b = a - s
                    t = (s - (a - b)) + (v - b)
                    c = e + t
                    b = c - e
                    u = (e - (c - b)) + (t - b)
                    d = f + u
                    b = d - f
                    narrow = (f - (d - b)) + (u - b) == 0.0
                    if narrow:
                        s, e, f = a, c, d
                elif not np.abs(v) <= _MOST:
                    nan |= v != v
                    plus |= v > 0
                    minus |= v < 0
                    v = 0.0
                else:
                    narrow = False
                if not narrow:
                    if s != 0.0 or e != 0.0 or f != 0.0:
                        limbs[:] = 0
                        three[0], three[1], three[2] = s, e, f
                        for i in range(3):
                            _add(limbs, codes_of_three[i])
                        s = e = f = 0.0
                    if v != 0.0:
                        _add(limbs, codes_of_x[at])
            to = start + stop - 1 - k - shift if reverse else k + shift
            if plus or minus or nan:
                values[to] = np.nan if nan or (plus and minus) else np.inf if plus else -np.inf
                continue
            if narrow:
                if e == 0.0 and f == 0.0:
                    values[to] = s
                    continue
                first, second, third = _in_order(s, e, f)
                if first + second != first or second + third != second:
                    first, second, third = _in_order(first, second, third)
                if first + second == first and second + third == second and np.abs(first) <= _MOST:
                    if to_double:
                        if (second > 0.0 and third > 0.0) or (second < 0.0 and third < 0.0):
                            up = first + 2 * second
                            if up - first == 2 * second:  # second is half a unit, and third decides
                                first = up
                        values[to] = first
                        continue
                    rest = second if second != 0.0 else third
                    values[to] = first
                    if rest != 0.0 and bits[to] & 1 == 0:
                        bits[to] += 1 if (rest > 0.0) == (first > 0.0) else -1
                    continue
                three[0], three[1], three[2] = s, e, f
                scratch[:] = 0
                for i in range(3):
                    _add(scratch, codes_of_three[i])
            else:
                scratch[:] = limbs
            codes[to] = _rounded(scratch, low, high, np.int64(1), parts, goal)
            values[to] = 0.0
            slow[to] = True
            count += 1
    return count


@jit
def _in_order(x, y, z):
    """The same sum, the larger numbers first."""
    c = y + z
    b = c - y
    w = (y - (c - b)) + (z - b)
    a = x + c
    b = a - x
    t = (x - (a - b)) + (c - b)
    u = t + w
    b = u - t
    return a, u, (t - (u - b)) + (w - b)


@jit
def _add(limbs, code):
    """The number of a finite code, without carries."""
    field, digits = (code >> 52) & 0x7FF, code & ((np.int64(1) << 52) - 1)
    if field:
        digits |= np.int64(1) << 52
    else:
        field = np.int64(1)
    place = field - 1075 - LOWEST
    at, shift = place >> 5, place & 31
    first, second = (digits & 0xFFFFFFFF) << shift, (digits >> 32) << shift
    sign = np.int64(-1) if code < 0 else np.int64(1)
    limbs[at] += sign * (first & 0xFFFFFFFF)
    limbs[at + 1] += sign * ((first >> 32) + (second & 0xFFFFFFFF))
    limbs[at + 2] += sign * (second >> 32)
