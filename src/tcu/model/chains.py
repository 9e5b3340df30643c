"""The fast model of any chain of narrow formats: the definition's arithmetic, eight columns at a time.

A product of two inputs has at most 48 bits, so float64 holds it.  A sum is
rounded to odd in float64, more than two bits wider than the result, and then
once more to the result, which rounds the exact sum.  Specials travel apart, as
in :mod:`tcu.model.kernels`, and where NaN operands come through, so do their
bits: a register holds the NaN that a lane's sum is if it is one.
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tcu.model import kernels, lane_rounding, lanes
from tcu.model import vectors as vec
from tcu.model.jit import fingerprint, jit
from tcu.model.kernels import RD, decode_row, round_units

__all__ = ["chain_mma"]

LANES = vec.LANES
_UNBOUNDED = -700
"""An emin below every exponent of a sum."""


@intrinsic
def _nan_codes(typingctx, codes, index, fields, target, at):
    """target[at : at + 8] = the NaNs among codes[index : index + 8] as quiet binary32 codes, and 0 for the others.

    fields: (shift, exponent bits, fraction bits, largest finite code).
    """

    def codegen(context, builder, signature, args):
        array, index, fields, target, at = args
        shift, width, fraction, largest = (builder.extract_value(fields, i) for i in range(4))
        bits = signature.args[0].dtype.bitwidth
        code = vec.elements(
            context, builder, signature.args[0], array, index, ir.VectorType(ir.IntType(bits), LANES)
        )
        code = code if bits == 32 else builder.zext(code, vec.W32)
        code = builder.lshr(code, vec.splat(builder, shift, vec.W32))
        one = ir.Constant(vec.I32, 1)
        sign_at = builder.add(width, fraction)
        magnitude = builder.and_(
            code, vec.splat(builder, builder.sub(builder.shl(one, sign_at), one), vec.W32)
        )
        rest = builder.and_(code, vec.splat(builder, builder.sub(builder.shl(one, fraction), one), vec.W32))
        sign = builder.shl(
            builder.lshr(code, vec.splat(builder, sign_at, vec.W32)), vec.constant(vec.W32, 31)
        )
        up = vec.splat(builder, builder.sub(ir.Constant(vec.I32, 23), fraction), vec.W32)
        nan = builder.or_(builder.or_(sign, builder.shl(rest, up)), vec.constant(vec.W32, 0x7FC00000))
        is_nan = builder.and_(
            builder.icmp_unsigned(">", magnitude, vec.splat(builder, largest, vec.W32)),
            builder.icmp_unsigned("!=", rest, vec.constant(vec.W32, 0)),
        )
        nan = builder.select(is_nan, nan, vec.constant(vec.W32, 0))
        data = vec.data_of(context, builder, signature.args[3], target)
        vec.store(builder, nan, builder.gep(data, [at]))
        return context.get_dummy_value()

    fields_type = types.UniTuple(types.int32, 4)
    return types.void(codes, types.intp, fields_type, target, types.intp), codegen


@intrinsic
def _fill(typingctx, register, word):
    """register = the word, in every lane."""

    def codegen(context, builder, signature, args):
        vec.store(builder, vec.splat(builder, args[1], vec.W32), args[0])
        return context.get_dummy_value()

    return types.void(register, types.int32), codegen


def _first(builder, candidate, other):
    """The candidate where there is one, else the other."""
    none = builder.icmp_unsigned("==", candidate, vec.constant(vec.W32, 0))
    return builder.select(none, other, candidate)


@intrinsic
def _take_nan(typingctx, nan, scalar, array, index):
    """nan = scalar, else array[index : index + 8], else what it is: the first that is not 0."""

    def codegen(context, builder, signature, args):
        found = vec.elements(context, builder, signature.args[2], args[2], args[3], vec.W32)
        found = _first(builder, found, vec.load(builder, args[0], vec.W32))
        vec.store(builder, _first(builder, vec.splat(builder, args[1], vec.W32), found), args[0])
        return context.get_dummy_value()

    return types.void(nan, types.int32, array, types.intp), codegen


@intrinsic
def _prefer(typingctx, nan, kind, other):
    """nan = that of the first operand where its kind is NaN, else the other's."""

    def codegen(context, builder, signature, args):
        kind = vec.load(builder, args[1], vec.V64)
        mine, other = (vec.load(builder, slot, vec.W32) for slot in (args[0], args[2]))
        is_nan = builder.fcmp_unordered("uno", kind, kind)
        vec.store(builder, builder.select(is_nan, mine, other), args[0])
        return context.get_dummy_value()

    return types.void(nan, kind, other), codegen


@intrinsic
def _negate(typingctx, register):
    """register = -register."""

    def codegen(context, builder, signature, args):
        vec.store(builder, builder.fneg(vec.load(builder, args[0], vec.V64)), args[0])
        return context.get_dummy_value()

    return types.void(register), codegen


@intrinsic
def _store(typingctx, value, kind, nan, array, index):
    """array[index : index + 8] = the bits of float32(value), or inf, or the NaN."""

    def codegen(context, builder, signature, args):
        value, kind = (vec.load(builder, slot, vec.V64) for slot in args[:2])
        infinite = builder.fcmp_ordered(
            "==", vec.call(builder, "fabs", vec.V64, kind), vec.constant(vec.V64, float("inf"))
        )
        bits = builder.bitcast(builder.fptrunc(builder.select(infinite, kind, value), vec.V32), vec.W32)
        is_nan = builder.fcmp_unordered("uno", kind, kind)
        bits = builder.select(is_nan, vec.load(builder, args[2], vec.W32), bits)
        data = vec.data_of(context, builder, signature.args[3], args[3])
        vec.store(builder, bits, builder.gep(data, [args[4]]))
        return context.get_dummy_value()

    return types.void(value, kind, nan, array, types.intp), codegen


@numba.njit(nogil=True, inline="always")
def _round(value, kind, quantum, rounds):
    rounding, emin, kept, smallest, limit = rounds
    lane_rounding.to_units(value, quantum, emin if smallest == 0.0 else _UNBOUNDED, kept)
    round_units(value, rounding)
    lane_rounding.from_units(value, quantum, kind, limit, np.inf, 0.0, -0.0)
    lane_rounding.flush(value, smallest)


@numba.njit(nogil=True, inline="always")
def _add(value, kind, other, other_kind, quantum, rounds):
    """value += other, rounded once."""
    if rounds[0] == RD:  # toward -inf, x - x is -0
        _negate(value)
        _negate(other)
        lanes.add_to_odd(value, other)
        _negate(value)
    else:
        lanes.add_to_odd(value, other)
    lanes.add(kind, other_kind)
    _round(value, kind, quantum, rounds)


def _build_chain_mma(fingerprint):
    @jit
    def chain_mma(
        a, b, c, ia, ib, ic, start, stop, in_a, in_b, out, used, order, rounds, rules, flush, nans, result
    ):
        """D = A·B + C of every batch member from ``start`` to ``stop``, by a chain.

        a, b, c, ia, ib, ic, result: see aligned_mma, as are the fields of formats in in_a, in_b and out.
        used: K, a multiple of k.  rounds: (rounding, emin, fraction bits, below which results are flushed, limit).
        rules: (rounded products, group, lanes, late c).  flush: (a and b, c).  nans: (the NaN of an invalid
        operation, whether NaN operands come through).
        """
        fingerprint  # noqa: B018
        M, K, N = a.shape[1], a.shape[2], b.shape[2]
        rounded, group, sums, late_c = rules
        flush_in, flush_c = flush
        invalid, propagate = nans
        step = order.size
        rows = max(1, min(M, (1 << 15) // max(K, 1)))
        av, ae, ak = np.empty(rows * K), np.empty(rows * K, np.int32), np.empty(rows * K)
        bv, be, bk = np.empty(K * LANES), np.empty(K * LANES, np.int32), np.empty(K * LANES)
        an, bn, cn = np.zeros(rows * K, np.int32), np.zeros(K * LANES, np.int32), np.zeros(LANES, np.int32)
        row_special = np.empty(rows, np.bool_)
        a_flat, b_flat, c_flat, d_flat = a.reshape(-1), b.reshape(-1), c.reshape(-1), result.reshape(-1)

        exponent, quantum = lanes.i32_register(), lanes.f64_register()
        state, state_kind, state_nan = lanes.f64_register(), lanes.f64_register(), lanes.i32_register()
        total, total_kind, total_nan = lanes.f64_register(), lanes.f64_register(), lanes.i32_register()
        value, kind, nan = lanes.f64_register(), lanes.f64_register(), lanes.i32_register()
        product, product_kind, product_nan = lanes.f64_register(), lanes.f64_register(), lanes.i32_register()
        second, second_kind, second_nan = lanes.f64_register(), lanes.f64_register(), lanes.i32_register()

        for t in range(start, stop):
            for i0 in range(0, M, rows):
                i1 = min(M, i0 + rows)
                for i in range(i0, i1):
                    at, to = (ia[t] * M + i) * K, (i - i0) * K
                    row_special[i - i0] = decode_row(
                        a_flat, at, K, in_a[0], in_a[1], in_a[2], in_a[3], flush_in, av, ae, ak, to
                    )
                    if propagate and row_special[i - i0]:
                        for k in range(0, K, LANES):
                            _nan_codes(a_flat, at + k, in_a, an, to + k)
                    elif propagate:
                        an[to : to + K] = 0
                for j in range(0, N, LANES):
                    column_special = False
                    for k in range(used):
                        at = (ib[t] * K + k) * N + j
                        column_special |= decode_row(
                            b_flat,
                            at,
                            LANES,
                            in_b[0],
                            in_b[1],
                            in_b[2],
                            in_b[3],
                            flush_in,
                            bv,
                            be,
                            bk,
                            k * LANES,
                        )
                        if propagate:
                            _nan_codes(b_flat, at, in_b, bn, k * LANES)
                    for i in range(i0, i1):
                        row = (i - i0) * K
                        special = column_special or row_special[i - i0]
                        at = (ic[t] * M + i) * N + j
                        lanes.decode(
                            c_flat, at, out[0], out[1], out[2], out[3], flush_c, state, exponent, state_kind
                        )
                        _fill(state_nan, invalid)
                        if propagate:
                            _nan_codes(c_flat, at, out, cn, 0)
                            _take_nan(state_nan, np.int32(0), cn, 0)
                        for k0 in range(0, used, step):
                            for lane in range(sums):
                                if lane == 0 and not late_c:
                                    lanes.move(value, state)
                                    lanes.move(kind, state_kind)
                                    lanes.move(nan, state_nan)
                                else:
                                    lanes.clear(value)
                                    lanes.clear(kind)
                                    _fill(nan, invalid)
                                for p in range(lane * group, step, sums * group):
                                    k = k0 + order[p]
                                    lanes.clear_negative(product)
                                    lanes.clear(product_kind)
                                    lanes.add_product(product, av[row + k], bv, k * LANES)
                                    if special:
                                        lanes.add_product(product_kind, ak[row + k], bk, k * LANES)
                                    if group == 1 and not rounded:
                                        if propagate and special:
                                            _take_nan(nan, an[row + k], bn, k * LANES)
                                    else:
                                        _fill(product_nan, invalid)
                                        if rounded:
                                            _round(product, product_kind, quantum, rounds)
                                        if group == 2:
                                            other = k0 + order[p + 1]
                                            lanes.clear_negative(second)
                                            lanes.clear(second_kind)
                                            lanes.add_product(second, av[row + other], bv, other * LANES)
                                            if special:
                                                lanes.add_product(
                                                    second_kind, ak[row + other], bk, other * LANES
                                                )
                                            if rounded:
                                                _round(second, second_kind, quantum, rounds)
                                            if propagate and special:
                                                _fill(second_nan, invalid)
                                                _take_nan(second_nan, an[row + other], bn, other * LANES)
                                                if rounded:
                                                    _take_nan(product_nan, an[row + k], bn, k * LANES)
                                                    _prefer(product_nan, product_kind, second_nan)
                                                else:
                                                    lanes.move(product_nan, second_nan)
                                                    _take_nan(product_nan, an[row + k], bn, k * LANES)
                                            _add(product, product_kind, second, second_kind, quantum, rounds)
                                        elif propagate and special:
                                            _take_nan(product_nan, an[row + k], bn, k * LANES)
                                        if propagate:
                                            _prefer(nan, kind, product_nan)
                                    _add(value, kind, product, product_kind, quantum, rounds)
                                if lane == 0:
                                    lanes.move(total, value)
                                    lanes.move(total_kind, kind)
                                    lanes.move(total_nan, nan)
                                else:
                                    _prefer(total_nan, total_kind, nan)
                                    _add(total, total_kind, value, kind, quantum, rounds)
                            if late_c:
                                _prefer(state_nan, state_kind, total_nan)
                                _add(state, state_kind, total, total_kind, quantum, rounds)
                            else:
                                lanes.move(state, total)
                                lanes.move(state_kind, total_kind)
                                lanes.move(state_nan, total_nan)
                        _store(state, state_kind, state_nan, d_flat, (t * M + i) * N + j)

    return chain_mma


chain_mma = _build_chain_mma(fingerprint(vec, lanes, lane_rounding, kernels))
