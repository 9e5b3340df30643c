"""Exact sums of whole arrays, eight numbers at a time.

A number x is cut at two fixed places: q = (x + S) - S holds its bits from the
place of S on, r = x - q the rest, both without an error (Dekker's cut, as in
Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans. Computers
64(7), 2015, and in the GPU's kernel).  The largest number of a stretch puts
the first place; so the q's of a stretch add up without rounding, and so do
the cuts of the r's.  What is left after the second cut must be nothing:
where it is not, or where inf or NaN is met, the stretch goes into bins,
number by number.  Three times as fast as the bins where it applies, which
is wherever the numbers of a stretch span no more than 2^33 (binary64).
"""
# Compiled by Numba, which types them; the intrinsic takes one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from tcu.model import lanes
from tcu.model import vectors as vec
from tcu.model.kernels import _FINGERPRINT, _compiled, add_to_bins, add_to_wide_bins

__all__ = ["add_by_cuts"]

LANES = vec.LANES
STRETCH = 1 << 12
"""Numbers that are read twice, so they must fit the first cache: 32 KB of binary64."""
WINDOW = 43
"""Bits above a cut: STRETCH / LANES numbers of them add up below 2^53."""
LOWEST, HIGHEST = -1074, 1023


@intrinsic
def _cut(typingctx, high, low, left, numbers, first, second):
    """high += q; low += the same of r; left |= whatever is left, for registers and the bits of two S."""

    def codegen(context, builder, signature, args):
        x = vec.load(builder, args[3], vec.V64)
        s, t = (builder.bitcast(vec.splat(builder, bits, vec.W64), vec.V64) for bits in (args[4], args[5]))
        q = builder.fsub(builder.fadd(x, s), s)
        r = builder.fsub(x, q)
        u = builder.fsub(builder.fadd(r, t), t)
        rest = builder.bitcast(builder.fsub(r, u), vec.W64)
        vec.store(builder, builder.fadd(vec.load(builder, args[0], vec.V64), q), args[0])
        vec.store(builder, builder.fadd(vec.load(builder, args[1], vec.V64), u), args[1])
        so_far = builder.bitcast(vec.load(builder, args[2], vec.V64), vec.W64)
        vec.store(builder, builder.bitcast(builder.or_(so_far, rest), vec.V64), args[2])
        return context.get_dummy_value()

    return types.void(high, low, left, numbers, types.int64, types.int64), codegen


@intrinsic
def _raise_to(typingctx, largest, numbers):
    """largest = max(largest, |numbers|), as bits, by which inf and NaN are the largest."""

    def codegen(context, builder, signature, args):
        bits = builder.bitcast(vec.load(builder, args[1], vec.V64), vec.W64)
        magnitude = builder.bitcast(builder.and_(bits, vec.constant(vec.W64, (1 << 63) - 1)), vec.W64)
        before = builder.bitcast(vec.load(builder, args[0], vec.V64), vec.W64)
        top = vec.call(builder, "smax", vec.W64, before, magnitude)
        vec.store(builder, builder.bitcast(top, vec.V64), args[0])
        return context.get_dummy_value()

    return types.void(largest, numbers), codegen


def _build_add_by_cuts(fingerprint):
    @_compiled
    def add_by_cuts(numbers, codes, half, fraction_bits, sign_shift, special_field, narrow, wide):
        """Add numbers into exact bins; true if one is inf or NaN.

        numbers: float64, float32, or codes of binary16 (half) or bfloat16; codes: the same, as integers.
        narrow: bins of :func:`kernels.add_to_bins`, for all but binary64, wide:
        of :func:`kernels.add_to_wide_bins`, whose units they share.
        """
        fingerprint  # noqa: B018
        one = np.int64(1)
        x, high, low, left = (
            lanes.f64_register(), lanes.f64_register(), lanes.f64_register(), lanes.f64_register()
        )  # fmt: skip
        sums = np.empty((3, LANES))
        wider = np.empty(STRETCH)
        special = False
        for start in range(0, codes.size, STRETCH):
            stop = min(start + STRETCH, codes.size)
            whole = start + (stop - start) // LANES * LANES
            lanes.clear(high)
            for i in range(start, whole, LANES):
                lanes.load_wide(x, numbers, i, half)
                lanes.store(x, wider, i - start)
                _raise_to(high, x)
            lanes.store(high, sums[0], 0)
            top = sums[0].view(np.int64).max()
            exponent = max(top >> 52, 1) - 1022  # |x| < 2^exponent
            first = max(exponent - WINDOW, LOWEST)
            second = max(first - 1 - WINDOW, LOWEST)
            if first + 52 > HIGHEST:  # inf and NaN, too
                whole = start
            lanes.clear(high)
            lanes.clear(low)
            lanes.clear(left)
            place, next_place = _three_halves(first + 52), _three_halves(second + 52)
            for i in range(0, whole - start, LANES):
                lanes.load_f64(x, wider, i)
                _cut(high, low, left, x, place, next_place)
            lanes.store(high, sums[0], 0)
            lanes.store(low, sums[1], 0)
            lanes.store(left, sums[2], 0)
            for j in range(LANES):
                if sums[2, j] != 0:
                    whole = start
            if whole > start:
                for row, cut in ((0, first), (1, second)):
                    for j in range(LANES):
                        value = np.int64(math.ldexp(sums[row, j], -cut))
                        wide[0, cut + 1075, 0] += value & ((one << 26) - one)
                        wide[0, cut + 1075, 1] += value >> 26
            if whole < stop:
                special |= _into_bins(
                    codes[whole:stop], fraction_bits, sign_shift, special_field, narrow, wide
                )
        return special

    return add_by_cuts


@_compiled
def _three_halves(exponent):
    """The bits of 1.5 · 2^exponent."""
    return ((exponent + 1023) << 52) | (np.int64(1) << 51)


@_compiled
def _into_bins(codes, fraction_bits, sign_shift, special_field, narrow, wide):
    if fraction_bits == 52:
        return add_to_wide_bins(codes, wide)
    return add_to_bins(codes, fraction_bits, sign_shift, special_field, narrow)


add_by_cuts = _build_add_by_cuts(_FINGERPRINT)
