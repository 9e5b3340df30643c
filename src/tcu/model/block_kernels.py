"""The fast model of late, grouped, scaled and exact sums: one output at a time, in 64-bit integers, compiled by Numba.

Flushed trees are in binary32, as the unit adds them, one row of outputs at a time.

Why 64 bits hold everything but exact blocks.  A product of two significands has
at most 22 bits.  At F up to 42 bits below the common exponent it is below
2^44, a block of 64 below 2^50; a group of e2m1 is below 2^13 at its scales'
exponent and F at most 36; a late sum is below 2^41.

An exact block adds up in digits of 32 bits from 2^-320 on, which hold every
product and c.
"""
# Compiled by Numba, which types them.
# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from tcu.model.jit import jit

__all__ = ["exact_blocks", "flushed_trees", "grouped_sums", "late_sums", "scaled_sums"]

INFINITE, NEGATIVE, NAN = 1, 2, 4
"""Bits of what takes part in a sum: +inf, -inf, NaN."""
NONE = -100_000
"""An exponent of zero; half of it lies below every sum of two others, and above that of any with it."""
_INF_CODE, _NAN_CODE, _SIGN = 0x7F800000, 0x7FFFFFFF, 1 << 31
_LOWEST, _DIGITS, _DIGIT = -320, 19, 32
_LEAST = np.float32(2.0**-126)
"""The least normal number of binary32."""


@numba.njit(nogil=True, inline="always")
def _length(n):
    """Bits of a number that is not negative."""
    bits = 0
    for step in (32, 16, 8, 4, 2, 1):
        if n >> step:
            n >>= step
            bits += step
    return bits + (n > 0)


@numba.njit(nogil=True, inline="always")
def _encode(total, unit, rounding):
    """The code in binary32 of total · 2^unit; zero is +0, what rounds to zero keeps its sign."""
    if total == 0:
        return np.int64(0)
    negative = total < 0
    magnitude = abs(total)
    exponent = max(_length(magnitude) - 1 + unit, -126)
    shift = exponent - 23 - unit
    if shift <= 0:
        kept, rest, half = magnitude << -shift, np.int64(0), np.int64(1)
    elif shift >= 63:
        # Below half where shift exceeds 63.
        kept, rest, half = np.int64(0), np.int64(1) if shift > 63 else magnitude, np.int64(1) << 62
    else:
        kept, half = magnitude >> shift, np.int64(1) << (shift - 1)
        rest = magnitude - (kept << shift)
    up = False
    if rounding == 0:
        up = rest > half or (rest == half and kept & 1 == 1 and shift > 0)
    elif rounding == 2:
        up = rest > 0 and not negative
    elif rounding == 3:
        up = rest > 0 and negative
    elif rounding == 4:
        up = rest > 0 and kept & 1 == 0
    code = (np.int64(exponent + 126) << 23) + kept + up
    return min(code, np.int64(_INF_CODE)) | (np.int64(_SIGN) if negative else np.int64(0))


@numba.njit(nogil=True, inline="always")
def _decode(code):
    """(significand with its sign, exponent, what special it is) of a code of binary32."""
    field, fraction = (code >> 23) & 0xFF, code & 0x7FFFFF
    negative = code >> 31 & 1
    if field == 0xFF:
        if fraction:
            return np.int64(0), NONE, NAN
        return np.int64(0), NONE, NEGATIVE if negative else INFINITE
    significand = fraction | (0x800000 if field else 0)
    return (-significand if negative else significand), max(field, 1) - 127, 0


@numba.njit(nogil=True, inline="always")
def _specials(sa, ka, sb, kb, i, j, k0, k1):
    """What takes part in a sum of products, beside numbers."""
    seen = 0
    for k in range(k0, k1):
        p, q = ka[i, k], kb[j, k]
        if p | q:
            if (p | q) & NAN or (p == 0 and sa[i, k] == 0) or (q == 0 and sb[j, k] == 0):
                seen |= NAN
            else:
                minus = (p == NEGATIVE or sa[i, k] < 0) != (q == NEGATIVE or sb[j, k] < 0)
                seen |= NEGATIVE if minus else INFINITE
    return seen


@numba.njit(nogil=True, inline="always")
def _special_code(seen):
    if seen & NAN or seen == INFINITE | NEGATIVE:
        return np.int64(_NAN_CODE)
    return np.int64(_INF_CODE) | (np.int64(_SIGN) if seen == NEGATIVE else np.int64(0))


@numba.njit(nogil=True, inline="always")
def _cut(significand, below):
    """Toward zero, without its last ``below`` bits."""
    magnitude = abs(significand) >> min(below, 63)
    return -magnitude if significand < 0 else magnitude


@numba.njit(nogil=True, inline="always")
def _floored(total, shift):
    """total · 2^shift toward -inf."""
    return total << shift if shift >= 0 else total >> min(-shift, 63)


@numba.njit(nogil=True, inline="always")
def _aligned(sa, ea, sb, eb, i, j, k0, k1, step, top, left, right):
    """Every ``step``-th product, in units of 2^(top - F); left, right: how F and the factors' fractions differ."""
    total = np.int64(0)
    for k in range(k0, k1, step):
        product = np.int64(sa[i, k]) * np.int64(sb[j, k])
        total += _cut(product << left, right + top - (ea[i, k] + eb[j, k]))
    return total


@numba.njit(nogil=True, inline="always")
def _largest(ea, eb, i, j, k0, k1, step):
    top = 2 * NONE
    for k in range(k0, k1, step):
        top = max(top, ea[i, k] + eb[j, k])
    return top


@jit
def late_sums(sa, ea, ka, sb, eb, kb, special, c, k_step, fractions, rules, result):
    """c and the result are codes of binary32, (M, N); A (M, K), B (N, K) in parts.  rules: those of LateSum."""
    block, kept, late, groups, drops = rules
    left, right = max(kept - fractions, 0), max(fractions - kept, 0)
    for i in range(sa.shape[0]):
        for j in range(sb.shape[0]):
            code = np.int64(c[i, j])
            for start in range(0, sa.shape[1], k_step):
                for k0 in range(start, start + k_step, block):
                    k1 = min(k0 + block, start + k_step)
                    sc, ec, seen = _decode(code)
                    if special:
                        seen |= _specials(sa, ka, sb, kb, i, j, k0, k1)
                    top = _largest(ea, eb, i, j, k0, k1, 1)
                    if top >= 126:  # a product may reach 2^128
                        for k in range(k0, k1):
                            product = np.int64(sa[i, k]) * np.int64(sb[j, k])
                            if _length(abs(product)) - fractions + ea[i, k] + eb[j, k] > 128:
                                seen |= NEGATIVE if product < 0 else INFINITE
                    if seen:
                        code = _special_code(seen)
                        continue
                    total, exponent = np.int64(0), max(ec, -126)
                    common = exponent
                    if top > NONE // 2:
                        for group in range(groups):
                            own = _largest(ea, eb, i, j, k0 + group, k1, groups)
                            if own > NONE // 2:
                                part = _aligned(
                                    sa, ea, sb, eb, i, j, k0 + group, k1, groups, own, left, right
                                )
                                total += _floored(part, own - top)
                        common = max(top, exponent)
                        total = _floored(total, late + 1 - kept - (common - top))
                    if not (drops and exponent < common - kept - 1):
                        total += _floored(sc, kept - 23 - (common - exponent)) << (late + 1 - kept)
                    unit = common - late - 1
                    if total:
                        own = max(_length(abs(total)) - 1 + unit, -126) - late
                        if own > unit:
                            total, unit = total >> (own - unit), own
                    code = _encode(total, unit, 0)
            result[i, j] = code


@jit
def scaled_sums(sa, ea, ka, sb, eb, kb, special, xa, xb, c, k_step, per_scale, fractions, rules, result):
    """The same for aligned sums with scales; xa (M, K / per_scale), xb (N, ..): their exponents, NAN where NaN."""
    block, kept, floor, rounding = rules
    left, right = max(kept - fractions, 0), max(fractions - kept, 0)
    raised_a, raised_b = np.empty_like(ea), np.empty_like(eb)
    for i in range(ea.shape[0]):
        for k in range(ea.shape[1]):
            raised_a[i, k] = ea[i, k] + xa[i, k // per_scale]
    for j in range(eb.shape[0]):
        for k in range(eb.shape[1]):
            raised_b[j, k] = eb[j, k] + xb[j, k // per_scale]
    for i in range(sa.shape[0]):
        for j in range(sb.shape[0]):
            code = np.int64(c[i, j])
            for start in range(0, sa.shape[1], k_step):
                for k0 in range(start, start + k_step, block):
                    k1 = min(k0 + block, start + k_step)
                    sc, ec, seen = _decode(code)
                    if special:
                        seen |= _specials(sa, ka, sb, kb, i, j, k0, k1)
                    if seen:
                        code = _special_code(seen)
                        continue
                    top = _largest(raised_a, raised_b, i, j, k0, k1, 1)
                    if sc:
                        top = max(top, ec)
                    if top < NONE // 2:
                        code = np.int64(0)
                        continue
                    top = max(top, floor)
                    total = _aligned(sa, raised_a, sb, raised_b, i, j, k0, k1, 1, top, left, right)
                    total += _cut(sc << max(kept - 23, 0), max(23 - kept, 0) + top - max(ec, -126))
                    code = _encode(total, top - kept, rounding)
                    if code == _SIGN:
                        code = np.int64(0)
            result[i, j] = code


@jit
def grouped_sums(sa, sb, xa, fa, xb, fb, c, k_step, per_scale, fractions, scale_fraction, rules, result):
    """The same for grouped sums; sa, sb: values in units of the smallest; xa, fa: exponents and significands of scales.

    fractions: minus the exponent of the unit of a product.
    """
    block, group, kept, floor = rules
    lowest = fractions + 2 * scale_fraction
    for i in range(sa.shape[0]):
        for j in range(sb.shape[0]):
            code = np.int64(c[i, j])
            for start in range(0, sa.shape[1], k_step):
                for k0 in range(start, start + k_step, block):
                    k1 = min(k0 + block, start + k_step)
                    sc, ec, seen = _decode(code)
                    top = ec if sc else NONE
                    # First the common exponent, then the terms.
                    for k in range(k0, k1, group):
                        s = k // per_scale
                        if fa[i, s] < 0 or fb[j, s] < 0:
                            seen |= NAN
                        present = False
                        for p in range(k, min(k + group, k1)):
                            present |= sa[i, p] != 0 and sb[j, p] != 0
                        if present and fa[i, s] and fb[j, s]:
                            top = max(top, xa[i, s] + xb[j, s])
                    if seen:
                        code = _special_code(seen)
                        continue
                    if top == NONE:
                        code = np.int64(0)
                        continue
                    top = max(top, floor)
                    total = _cut(sc << max(kept - 23, 0), max(23 - kept, 0) + top - max(ec, -126))
                    for k in range(k0, k1, group):
                        s = k // per_scale
                        part = np.int64(0)
                        for p in range(k, min(k + group, k1)):
                            part += np.int64(sa[i, p]) * np.int64(sb[j, p])
                        if part:
                            part *= np.int64(fa[i, s]) * np.int64(fb[j, s])
                            below = max(lowest - kept, 0) + top - (xa[i, s] + xb[j, s])
                            total += _cut(part << max(kept - lowest, 0), below)
                    code = _encode(total, top - kept, 1)
                    if code == _SIGN:
                        code = np.int64(0)
            result[i, j] = code


@numba.njit(nogil=True, inline="always")
def _add_to_digits(digits, significand, exponent):
    """digits += significand · 2^exponent, for up to 30 bits."""
    place = exponent - _LOWEST
    at, shift = place // _DIGIT, place % _DIGIT
    word = abs(significand) << shift
    low, high = word & 0xFFFFFFFF, word >> _DIGIT
    if significand < 0:
        low, high = -low, -high
    digits[at] += low
    digits[at + 1] += high


@numba.njit(nogil=True, inline="always")
def _carried(digits):
    """Digits of 32 bits but for the last one, which has the sign."""
    for at in range(_DIGITS - 1):
        digits[at + 1] += digits[at] >> _DIGIT
        digits[at] &= 0xFFFFFFFF


@numba.njit(nogil=True, inline="always")
def _encode_digits(digits):
    _carried(digits)
    negative = digits[_DIGITS - 1] < 0
    if negative:
        for at in range(_DIGITS):
            digits[at] = -digits[at]
        _carried(digits)
    top = _DIGITS - 1
    while top > 0 and digits[top] == 0:
        top -= 1
    word, unit = digits[top], _LOWEST + _DIGIT * top
    if top > 0:
        word, unit = word << 30 | digits[top - 1] >> 2, unit - 30
        rest = digits[top - 1] & 3
        for at in range(top - 1):
            rest |= digits[at]
        # A sticky bit behind 31 bits or more: to a rounding to 24 it is all there is to know.
        if rest:
            word = word | 1
    return _encode(-word if negative else word, unit, 0)


@jit
def exact_blocks(sa, ea, ka, sb, eb, kb, special, c, k_step, fractions, block, result):
    """The same for exact blocks."""
    digits = np.empty(_DIGITS, np.int64)
    for i in range(sa.shape[0]):
        for j in range(sb.shape[0]):
            code = np.int64(c[i, j])
            for start in range(0, sa.shape[1], k_step):
                for k0 in range(start, start + k_step, block):
                    k1 = min(k0 + block, start + k_step)
                    sc, ec, seen = _decode(code)
                    if special:
                        seen |= _specials(sa, ka, sb, kb, i, j, k0, k1)
                    if seen:
                        code = _special_code(seen)
                        continue
                    digits[:] = 0
                    _add_to_digits(digits, sc, max(ec, -126) - 23)
                    for k in range(k0, k1):
                        product = np.int64(sa[i, k]) * np.int64(sb[j, k])
                        if product:
                            _add_to_digits(digits, product, ea[i, k] + eb[j, k] - fractions)
                    code = _encode_digits(digits)
            result[i, j] = code


@numba.njit(nogil=True, inline="always")
def _flushed(x):
    """Zero of the same sign in place of a subnormal number."""
    return x * np.float32(0) if abs(x) < _LEAST else x


@jit
def flushed_trees(a, b, c, k_step, group, result):
    """Flushed trees; a (M, K), b (K, N), c and the result (M, N) in binary32; a and b have no subnormal numbers and no -0."""
    columns = b.shape[1]
    sums = np.empty((group, columns), np.float32)
    for i in range(a.shape[0]):
        result[i] = c[i]
        for start in range(0, a.shape[1], k_step):
            for j in range(columns):  # a zero that the instruction before left is +0 to this one
                result[i, j] = np.float32(0) if abs(result[i, j]) < _LEAST else result[i, j]
            for k0 in range(start, start + k_step, group):
                width = min(group, start + k_step - k0)
                for k in range(width):
                    x = a[i, k0 + k]
                    for j in range(columns):
                        sums[k, j] = _flushed(x * b[k0 + k, j])
                while width > 1:
                    for k in range(width // 2):
                        for j in range(columns):
                            sums[k, j] = _flushed(sums[2 * k, j] + sums[2 * k + 1, j])
                    if width % 2:
                        sums[width // 2] = sums[width - 1]
                    width = (width + 1) // 2
                for j in range(columns):
                    result[i, j] = _flushed(result[i, j] + sums[0, j])
