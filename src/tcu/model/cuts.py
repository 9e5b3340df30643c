"""Exact sums of whole arrays, sixteen numbers at a time.

A number x is cut at two fixed places: with S = 1.5 · 2^k, s + x rounded is s
with x's bits from the place of S on, and x minus what s has gained is the
rest, both without an error (Dekker's cut, as in Demmel and Nguyen, "Parallel
Reproducible Summation", IEEE Trans. Computers 64(7), 2015, and in the GPU's
kernel).  The largest number of a stretch puts the first place; so what s gains
in a stretch is exact, and so is what the rests give the second.  What is left
after the second cut must be nothing: where it is not, or where inf or NaN is
met, the stretch goes into bins, number by number.  That is ten times slower
(0.66 instead of 6.4 · 10^9 numbers a second on a core of an EPYC 9005), and
needed only where the numbers of a stretch span more than 2^33 (binary64).
"""
# Compiled by Numba, which types them; the intrinsic takes one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from tcu.model import kernels, lanes
from tcu.model import vectors as vec
from tcu.model.jit import fingerprint, jit
from tcu.model.kernels import add_to_bins, add_to_wide_bins

__all__ = ["add_by_cuts"]

LANES = vec.LANES
STRETCH = 1 << 12
"""Numbers that are read twice, so they must fit the first cache: 32 KB of binary64."""
PAIR = 2 * LANES
"""Two registers take turns, or every addition would wait for the one before."""
WINDOW = 43
"""Bits above a cut: STRETCH / PAIR numbers of them add up to 2^51 units at most, by which S stays in its binade."""
LOWEST, HIGHEST = -1074, 1023


@intrinsic
def _cut(typingctx, high, low, left, numbers):
    """high += numbers, low += what is lost by that, left |= what is lost by that, too."""

    def codegen(context, builder, signature, args):
        s, t, left, x = (vec.load(builder, register, vec.V64) for register in args)
        gained = builder.fadd(s, x)
        r = builder.fsub(x, builder.fsub(gained, s))
        gained_low = builder.fadd(t, r)
        rest = builder.fsub(r, builder.fsub(gained_low, t))
        vec.store(builder, gained, args[0])
        vec.store(builder, gained_low, args[1])
        either = builder.or_(builder.bitcast(left, vec.W64), builder.bitcast(rest, vec.W64))
        vec.store(builder, builder.bitcast(either, vec.V64), args[2])
        return context.get_dummy_value()

    return types.void(high, low, left, numbers), codegen


@intrinsic
def _fill(typingctx, register, bits):
    """register = a number in all lanes, given by its bits."""

    def codegen(context, builder, signature, args):
        vec.store(builder, builder.bitcast(vec.splat(builder, args[1], vec.W64), vec.V64), args[0])
        return context.get_dummy_value()

    return types.void(register, types.int64), codegen


@intrinsic
def _keep(typingctx, register, numbers, wider, index):
    """wider[index : index + 8] = register, unless they are binary64 as they lie."""

    def codegen(context, builder, signature, args):
        if signature.args[1].dtype != types.float64:
            data = vec.data_of(context, builder, signature.args[2], args[2])
            vec.store(builder, vec.load(builder, args[0], vec.V64), builder.gep(data, [args[3]]))
        return context.get_dummy_value()

    return types.void(register, numbers, wider, types.intp), codegen


@intrinsic
def _load_again(typingctx, register, numbers, start, wider, index):
    """register = numbers[start + index : start + index + 8], as :func:`_keep` kept them."""

    def codegen(context, builder, signature, args):
        as_they_lie = signature.args[1].dtype == types.float64
        array_type, array, index = (
            (signature.args[1], args[1], builder.add(args[2], args[4]))
            if as_they_lie
            else (signature.args[3], args[3], args[4])
        )
        vec.store(builder, vec.elements(context, builder, array_type, array, index, vec.V64), args[0])
        return context.get_dummy_value()

    return types.void(register, numbers, types.intp, wider, types.intp), codegen


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
    @jit
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
        y, high2, low2, left2 = (
            lanes.f64_register(), lanes.f64_register(), lanes.f64_register(), lanes.f64_register()
        )  # fmt: skip
        ends = np.empty((3, PAIR))
        bits = ends.view(np.int64)
        wider = np.empty(STRETCH)
        special = False
        for start in range(0, codes.size, STRETCH):
            stop = min(start + STRETCH, codes.size)
            whole = start + (stop - start) // PAIR * PAIR
            lanes.clear(high)
            lanes.clear(high2)
            for i in range(0, whole - start, PAIR):
                lanes.load_wide(x, numbers, start + i, half)
                _keep(x, numbers, wider, i)
                _raise_to(high, x)
                lanes.load_wide(y, numbers, start + i + LANES, half)
                _keep(y, numbers, wider, i + LANES)
                _raise_to(high2, y)
            lanes.store(high, ends[0], 0)
            lanes.store(high2, ends[0], LANES)
            top = np.int64(0)
            for j in range(PAIR):
                top = max(top, bits[0, j])
            exponent = max(top >> 52, 1) - 1022  # |x| < 2^exponent
            first = max(exponent - WINDOW, LOWEST)
            second = max(first - 1 - WINDOW, LOWEST)
            if first + 52 > HIGHEST:  # inf and NaN, too
                whole = start
            place, next_place = _three_halves(first + 52), _three_halves(second + 52)
            _fill(high, place)
            _fill(high2, place)
            _fill(low, next_place)
            _fill(low2, next_place)
            lanes.clear(left)
            lanes.clear(left2)
            for i in range(0, whole - start, PAIR):
                _load_again(x, numbers, start, wider, i)
                _cut(high, low, left, x)
                _load_again(y, numbers, start, wider, i + LANES)
                _cut(high2, low2, left2, y)
            lanes.store(high, ends[0], 0)
            lanes.store(high2, ends[0], LANES)
            lanes.store(low, ends[1], 0)
            lanes.store(low2, ends[1], LANES)
            lanes.store(left, ends[2], 0)
            lanes.store(left2, ends[2], LANES)
            lost, sum_high, sum_low = False, np.int64(0), np.int64(0)
            for j in range(PAIR):
                lost |= ends[2, j] != 0
                # Numbers of one binade lie as far apart as their bits, in units of the last place.
                sum_high += bits[0, j] - place
                sum_low += bits[1, j] - next_place
            if lost:
                whole = start
            elif whole > start:
                wide[0, first + 1075, 0] += sum_high & ((one << 26) - one)
                wide[0, first + 1075, 1] += sum_high >> 26
                wide[0, second + 1075, 0] += sum_low & ((one << 26) - one)
                wide[0, second + 1075, 1] += sum_low >> 26
            if whole < stop:
                special |= _into_bins(
                    codes[whole:stop], fraction_bits, sign_shift, special_field, narrow, wide
                )
        return special

    return add_by_cuts


@jit
def _three_halves(exponent):
    """The bits of 1.5 · 2^exponent."""
    return ((exponent + 1023) << 52) | (np.int64(1) << 51)


@jit
def _into_bins(codes, fraction_bits, sign_shift, special_field, narrow, wide):
    if fraction_bits == 52:
        return add_to_wide_bins(codes, wide)
    return add_to_bins(codes, fraction_bits, sign_shift, special_field, narrow)


add_by_cuts = _build_add_by_cuts(fingerprint(vec, lanes, kernels))
