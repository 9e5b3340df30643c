"""Exact sums of many rows or segments at once, each rounded once; compiled by Numba.

A row's sum is a fixed-point number in limbs of 32 bits, each in a word of 64
that takes in carries only at the end.  A row touches few limbs, and no more
than these are looked at again.
"""
# Compiled by Numba, which types it.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tcu.model.jit import jit

__all__ = ["LONGEST", "sum_rows_exactly"]

_LIMB = 32
_LOWEST = -1074 - _LIMB
"""Of the lowest bit: one limb is left below the smallest number of binary64, for quotients."""
_LIMBS = (1024 - _LOWEST) // _LIMB + 3
LONGEST = 1 << 29
"""Numbers of a row: with more of them a limb could overflow."""


@jit
def sum_rows_exactly(codes, starts, stops, fraction, bias, fields, mean, target, out):
    """The codes of the rows' sums, or of their means.

    ``codes``: the numbers as signed integers of their width; ``fraction``,
    ``bias`` and ``fields`` (the exponent field of inf) are their format's, and
    ``target`` has the same of the result's and its NaN.  Returns the first row that
    holds inf and -inf and no NaN, -1 if there is none; its code is that of NaN.
    """
    limbs, parts = np.zeros(_LIMBS, np.int64), np.zeros(5, np.uint64)
    digits_of = (np.int64(1) << fraction) - 1
    clash = -1
    for row in range(starts.size):
        low, high = _LIMBS, -1
        nans = plus = minus = False
        for i in range(starts[row], stops[row]):
            code = np.int64(codes[i])
            field = (code >> fraction) & fields
            digits = code & digits_of
            if field == fields:
                if digits:
                    nans = True
                elif code < 0:
                    minus = True
                else:
                    plus = True
                continue
            if field:
                digits |= np.int64(1) << fraction
            else:
                field = np.int64(1)
            place = field - bias - fraction - _LOWEST
            at, shift = place >> 5, place & 31
            first = (digits & 0xFFFFFFFF) << shift
            second = (digits >> 32) << shift
            low, high = min(low, at), max(high, at + 2)
            middle = (first >> 32) + (second & 0xFFFFFFFF)
            if code < 0:
                limbs[at] -= first & 0xFFFFFFFF
                limbs[at + 1] -= middle
                limbs[at + 2] -= second >> 32
            else:
                limbs[at] += first & 0xFFFFFFFF
                limbs[at + 1] += middle
                limbs[at + 2] += second >> 32
        count = stops[row] - starts[row]
        if nans or (plus and minus) or (mean and count == 0):
            out[row] = target[3]
            if clash < 0 and not nans and count:
                clash = row
        elif plus or minus:
            sign = (target[2] + 1) << target[0] if minus else np.int64(0)
            out[row] = sign | target[2] << target[0]
        else:
            out[row] = _rounded(limbs, low, high, count if mean else np.int64(1), parts, target)
        for i in range(low, min(high + 3, _LIMBS)):
            limbs[i] = 0
    return clash


@jit
def _rounded(limbs, low, high, divisor, parts, target):
    """The code of limbs ``low`` to ``high``, divided; they change, and so do ``parts``."""
    if high < 0:
        return np.int64(0)
    high = min(high + 2, _LIMBS - 1)  # where the carry of the highest can get to
    carry = np.int64(0)
    for i in range(low, high + 1):
        carry += limbs[i]
        limbs[i] = carry & 0xFFFFFFFF
        carry >>= 32
    negative = carry < 0
    if negative:
        carry = np.int64(1)
        for i in range(low, high + 1):
            carry += 0xFFFFFFFF - limbs[i]
            limbs[i] = carry & 0xFFFFFFFF
            carry >>= 32
    while high >= low and limbs[high] == 0:
        high -= 1
    if high < low:
        return np.int64(0)
    # The highest four limbs, divided, give more bits than any format has; of the rest only matters whether it is zero.
    parts[:] = 0
    rest = np.uint64(0)
    wide = np.uint64(divisor)
    for i in range(5):
        at = high - i
        digit = np.uint64(limbs[at]) if at >= low else np.uint64(0)
        if at < 0:
            break
        if divisor > 1:
            rest = rest << np.uint64(32) | digit
            digit = rest // wide
            rest -= digit * wide
        parts[i] = digit
    sticky = rest != 0
    for i in range(low, high - 4):
        sticky |= limbs[i] != 0
    top = 0
    while top < 4 and parts[top] == 0:
        top += 1
    leading = parts[top]
    following = parts[top + 1] if top < 4 else np.uint64(0)
    last = parts[top + 2] if top < 3 else np.uint64(0)
    for i in range(top + 3, 5):
        sticky |= parts[i] != 0
    magnitude = leading << np.uint64(32) | following
    zeros = np.uint64(0)
    while not magnitude >> np.uint64(63):
        magnitude <<= np.uint64(1)
        zeros += np.uint64(1)
    if zeros:
        magnitude |= last >> (np.uint64(32) - zeros)
        sticky |= (last << zeros & np.uint64(0xFFFFFFFF)) != 0
    else:
        sticky |= last != 0
    exponent = _LOWEST + 32 * (high - top - 1) - np.int64(zeros)
    code = _to_nearest(magnitude, exponent, sticky, target)
    return code | _sign(target) if negative else code


@jit
def _sign(target):
    return (target[2] + 1) << target[0]


@jit
def _to_nearest(magnitude, exponent, sticky, target):
    """magnitude · 2^exponent, the highest bit set, a little more if ``sticky``."""
    fraction, bias, fields = target[0], target[1], target[2]
    unbiased, lowest = exponent + 63, 1 - bias
    drop = 63 - fraction + max(np.int64(0), lowest - unbiased)
    if drop > 64:
        return np.int64(0)
    half = np.uint64(1) << np.uint64(63)
    kept, rest = np.uint64(0), magnitude
    if drop < 64:
        kept, rest = magnitude >> np.uint64(drop), magnitude << np.uint64(64 - drop)
    up = rest > half or (rest == half and (sticky or kept & np.uint64(1) == 1))
    base = (unbiased - lowest) << fraction if unbiased >= lowest else np.int64(0)
    code = base + np.int64(kept) + np.int64(up)
    infinity = fields << fraction
    return code if code < infinity and unbiased <= bias else infinity
