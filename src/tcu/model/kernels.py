"""The fast model of any sum: the definition's arithmetic, eight columns at a time, compiled by Numba.

Sums that fit 32-bit words are left to :mod:`tcu.model.narrow_kernels`, chains of narrow formats to
:mod:`tcu.model.chains`.

Why float64 is exact here.  A product of two inputs has at most 48 bits.  Scaled
by 2^(F - e) its integer part is below 2^(F+2), so the truncation is
``trunc`` and a block of up to 64 of them, F up to 42, adds up below 2^53:
every float64 operation before the rounding is exact.

Specials travel apart: ``kind`` holds inf, NaN or the sign of each number,
their products and sums follow IEEE rules, and inf or NaN overrides the sum.
"""
# Compiled by Numba, which types them; the intrinsics take one argument less than Python sees.
# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from tcu.model import lane_rounding, lane_rows, lanes, vectors
from tcu.model.jit import fingerprint, jit

__all__ = [
    "CHAIN_ROWS", "RD", "add_chunks", "add_loads", "aligned_mma", "decode_row", "fma_groups", "fused_chain", "round_units",
]  # fmt: skip

LANES = vectors.LANES
CHAIN_ROWS, CHAIN_DEPTH = 32, 256
"""Of a tile of a chain in binary64, and the piece of K whose rows of B are in L1."""
RNE, RZ, RU, RD = 0, 1, 2, 3

_FINGERPRINT = fingerprint(vectors, lanes, lane_rounding, lane_rows)


@numba.njit(nogil=True, inline="always")
def decode_row(codes, start, count, shift, width, fraction, largest, flush, values, exponents, kinds, at):
    """Decode ``count`` codes (a multiple of 8) from ``start`` into scratch from ``at`` on."""
    value, kind = lanes.f64_register(), lanes.f64_register()
    exponent = lanes.i32_register()
    special = False
    for k in range(0, count, LANES):
        special |= lanes.decode(
            codes, start + k, shift, width, fraction, largest, flush, value, exponent, kind
        )
        lanes.store(value, values, at + k)
        lanes.store(exponent, exponents, at + k)
        lanes.store(kind, kinds, at + k)
    return special


@numba.njit(nogil=True, inline="always")
def round_units(value, rounding):
    """Of a value in units of the last place that is kept."""
    if rounding == RZ:
        lane_rounding.round_zero(value)
    elif rounding == RNE:
        lane_rounding.round_nearest(value)
    elif rounding == RU:
        lane_rounding.round_up(value)
    elif rounding == RD:
        lane_rounding.round_down(value)
    else:
        lane_rounding.round_odd(value)


def _build_aligned_mma(fingerprint):
    @jit
    def aligned_mma(
        a, b, c, ia, ib, ic, start, stop, in_a, in_b, out, block, order, late_c, normalized, flush, result
    ):
        """D = A·B + C of every batch member from ``start`` to ``stop``, by aligned sums.

        a: (batches of A, M, K) codes; b: (.., K, N); c: (.., M, N); ia, ib, ic: which
        of them batch member t takes.  N and the padded K are multiples of 8.
        in_a, in_b: (shift, exponent bits, fraction bits, largest finite code, multiply
        of k).  result: (batch, M, N) bits of binary32 values.
        """
        fingerprint  # noqa: B018
        M, K, N = a.shape[1], a.shape[2], b.shape[2]
        depth, fraction_bits, floor, wraps_at = block
        (
            shift_c,
            width_c,
            fraction_c,
            largest_c,
            rounding,
            kept,
            emin,
            nan_code,
            signed_zeros,
            most,
            most_c,
        ) = out
        flush_in, flush_out = flush
        zero = -0.0 if signed_zeros else 0.0
        k_step = order.size
        K_used = in_a[4]
        limit = 2.0 ** (2 - emin)  # 2^(emax + 1)
        smallest = 2.0**emin if flush_out else 0.0
        rows = max(1, min(M, (1 << 15) // max(K, 1)))
        av, ae, ak = np.empty(rows * K), np.empty(rows * K, np.int32), np.empty(rows * K)
        bv, be, bk = np.empty(K * LANES), np.empty(K * LANES, np.int32), np.empty(K * LANES)
        row_special = np.empty(rows, np.bool_)
        a_flat, b_flat, c_flat, d_flat = a.reshape(-1), b.reshape(-1), c.reshape(-1), result.reshape(-1)

        exponent, c_exponent = lanes.i32_register(), lanes.i32_register()
        scale, unit, total = lanes.f64_register(), lanes.f64_register(), lanes.f64_register()
        value, kind = lanes.f64_register(), lanes.f64_register()
        c_value, c_kind = lanes.f64_register(), lanes.f64_register()
        quantum = lanes.f64_register()

        for t in range(start, stop):
            for i0 in range(0, M, rows):
                i1 = min(M, i0 + rows)
                for i in range(i0, i1):
                    row_special[i - i0] = decode_row(
                        a_flat, (ia[t] * M + i) * K, K, in_a[0], in_a[1], in_a[2], in_a[3], flush_in,
                        av, ae, ak, (i - i0) * K,
                    )  # fmt: skip
                for j in range(0, N, LANES):
                    column_special = False
                    for k in range(K_used):
                        column_special |= decode_row(
                            b_flat, (ib[t] * K + k) * N + j, LANES, in_b[0], in_b[1], in_b[2], in_b[3], flush_in,
                            bv, be, bk, k * LANES,
                        )  # fmt: skip
                    for i in range(i0, i1):
                        row = (i - i0) * K
                        lanes.decode(
                            c_flat, (ic[t] * M + i) * N + j, shift_c, width_c, fraction_c, largest_c, flush_in,
                            c_value, c_exponent, c_kind,
                        )  # fmt: skip
                        special = column_special or row_special[i - i0]
                        lanes.move(value, c_value)
                        lanes.move(kind, c_kind)
                        for k0 in range(0, K_used, k_step):
                            if late_c:
                                if flush_in:
                                    lane_rounding.flush(value, 2.0**emin)
                                lanes.move(c_value, value)
                                lanes.move(c_kind, kind)
                                lanes.clear(value)
                                lanes.clear(kind)
                            for p0 in range(0, k_step, depth):
                                p1 = min(k_step, p0 + depth)
                                if flush_in:
                                    lane_rounding.flush(value, 2.0**emin)
                                lane_rounding.exponents_of(exponent, value, emin)
                                if normalized:
                                    for p in range(p0, p1):
                                        k = k0 + order[p]
                                        lanes.max_product_exponent(exponent, av[row + k], bv, k * LANES)
                                else:
                                    for p in range(p0, p1):
                                        k = k0 + order[p]
                                        lanes.max_exponent(exponent, ae[row + k], be, k * LANES)
                                lanes.exponent_scale(scale, exponent, floor, fraction_bits, 1)
                                lanes.exponent_scale(unit, exponent, floor, fraction_bits, -1)
                                lanes.truncate(total, value, scale)
                                for p in range(p0, p1):
                                    k = k0 + order[p]
                                    lanes.add_truncated(total, av[row + k], bv, k * LANES, scale)
                                if wraps_at:
                                    lanes.wrap(total, wraps_at)
                                lanes.move(value, total)
                                lanes.multiply(value, unit)
                                if special:
                                    for p in range(p0, p1):
                                        k = k0 + order[p]
                                        lanes.add_product(kind, ak[row + k], bk, k * LANES)
                                lane_rounding.to_units(value, quantum, emin, kept)
                                round_units(value, rounding)
                                lane_rounding.from_units(value, quantum, kind, limit, most, smallest, zero)
                            if late_c:
                                if flush_in:
                                    lane_rounding.flush(value, 2.0**emin)
                                lanes.add(value, c_value)
                                lanes.add(kind, c_kind)
                                lane_rounding.to_units(value, quantum, emin, fraction_c)
                                lane_rounding.round_nearest(value)
                                lane_rounding.from_units(value, quantum, kind, limit, most_c, smallest, zero)
                        lanes.store_f32(value, kind, d_flat, (t * M + i) * N + j, nan_code)

    return aligned_mma


aligned_mma = _build_aligned_mma(_FINGERPRINT)


@numba.njit(nogil=True, inline="always")
def _chain_with_nan(x, a, b, ia, ib, i, n):
    """The chain of one number from x on, with the NaN that it deserves."""
    for k in range(a.shape[2]):
        p, q = a[ia, i, k], b[ib, k, n]
        if np.isnan(q):
            x = lanes.quiet(q)
        elif np.isnan(x):
            x = lanes.quiet(x)
        elif np.isnan(p):
            x = lanes.quiet(p)
        else:
            x = lanes.fma(p, q, x)
            if np.isnan(x):
                x = lanes.negative_nan()
    return x


def _build_fused_chain(fingerprint):
    @jit
    def fused_chain(a, b, c, ia, ib, ic, start, stop, result):
        """D = A·B + C in binary64 by one fused multiply-add after another; N a multiple of 8.

        Tiles of CHAIN_ROWS rows of a member of the batch, from ``start`` to ``stop``.  A panel of B, 8 columns of
        CHAIN_DEPTH rows, stays in L1 while the tile's rows go by, eight at a time: one chain alone waits for its own
        results, and took 13 to 30 times as long.
        """
        fingerprint  # noqa: B018
        M, K, N = a.shape[1], a.shape[2], b.shape[2]
        a_flat, b_flat, c_flat, d_flat = a.reshape(-1), b.reshape(-1), c.reshape(-1), result.reshape(-1)
        down = (M + CHAIN_ROWS - 1) // CHAIN_ROWS
        rows = lane_rows.f64_rows()
        for tile in range(start, stop):
            t, first = tile // down, tile % down * CHAIN_ROWS
            last = min(first + CHAIN_ROWS, M)
            for k0 in range(0, max(K, 1), CHAIN_DEPTH):
                for j in range(0, N, LANES):
                    for i in range(first, last, lane_rows.ROWS):
                        left, at = last - 1 - i, (t * M + i) * N + j
                        if k0:
                            lane_rows.load_rows(rows, d_flat, at, N, left)
                        else:
                            lane_rows.load_rows(rows, c_flat, (ic[t] * M + i) * N + j, N, left)
                        x, y = (ia[t] * M + i) * K, ib[t] * K * N + j
                        for k in range(k0, min(k0 + CHAIN_DEPTH, K)):
                            lane_rows.fma_rows(rows, a_flat, x + k, K, left, b_flat, y + k * N)
                        lane_rows.store_rows(rows, d_flat, at, N, left)
            nan = False
            for value in d_flat[(t * M + first) * N : (t * M + last) * N]:
                nan |= value != value
            if nan:
                for i in range(first, last):
                    for n in range(N):
                        if np.isnan(result[t, i, n]):
                            result[t, i, n] = _chain_with_nan(c[ic[t], i, n], a, b, ia[t], ib[t], i, n)

    return fused_chain


fused_chain = _build_fused_chain(_FINGERPRINT)


def _build_fma_groups(fingerprint):
    @jit
    def fma_groups(x, y, half, length, sums):
        """sums[g, i] = the sum of x[g, r, i] · y[g, r, i] over r, one fused multiply-add after another.

        x, y: (groups, length, inner) in one line, binary16 or bfloat16 codes
        (``half``: binary16), float32 or float64; sums: (groups, inner), inner a
        multiple of 8.
        """
        fingerprint  # noqa: B018
        inner = sums.shape[1]
        total = sums.reshape(-1)
        p, q, acc = lanes.f64_register(), lanes.f64_register(), lanes.f64_register()
        for g in range(sums.shape[0]):
            for r in range(length):
                at = (g * length + r) * inner
                for i in range(0, inner, LANES):
                    if r == 0:
                        lanes.clear_negative(acc)
                    else:
                        lanes.load_f64(acc, total, g * inner + i)
                    lanes.load_wide(p, x, at + i, half)
                    lanes.load_wide(q, y, at + i, half)
                    lanes.fma_registers(acc, p, q)
                    lanes.store(acc, total, g * inner + i)

    return fma_groups


fma_groups = _build_fma_groups(_FINGERPRINT)


def _build_add_loads(fingerprint):
    @jit
    def add_loads(codes, half, sums):
        """sums[i] = the tree over the eight numbers from 8 · i on: binary16 (``half``) or bfloat16 codes, added in binary64."""
        fingerprint  # noqa: B018
        numbers, v = lanes.f64_register(), np.empty(LANES)
        for i in range(sums.size):
            lanes.load_wide(numbers, codes, i * LANES, half)
            lanes.store(numbers, v, 0)
            sums[i] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))

    return add_loads


add_loads = _build_add_loads(_FINGERPRINT)


@numba.njit(nogil=True, inline="always")
def _add_halves(numbers, count, half, sums):
    """The sums, ``count`` of them, of each ``half`` numbers and the next as many: short loops are spelled out, or they stay scalar."""
    if half == 1:
        for i in range(count):
            sums[i] = numbers[2 * i] + numbers[2 * i + 1]
    elif half == 2:
        for i in range(count // 2):
            sums[2 * i] = numbers[4 * i] + numbers[4 * i + 2]
            sums[2 * i + 1] = numbers[4 * i + 1] + numbers[4 * i + 3]
    else:
        for at in range(0, count, half):
            left, right = numbers[2 * at : 2 * at + half], numbers[2 * at + half : 2 * (at + half)]
            out = sums[at : at + half]
            for i in range(half):
                out[i] = left[i] + right[i]


@jit
def add_chunks(numbers, length, inner, widths, sums):
    """sums[g] = the chunk g of ``length`` times ``inner`` numbers: added in order, then by trees of neighbours.

    numbers: float32 or float64, added in binary64; widths: powers of two, whose product is ``inner``.
    """
    totals, others = np.empty(inner), np.empty(inner)
    for g in range(sums.size):
        at = g * length * inner
        row = numbers[at : at + inner]
        for i in range(inner):
            totals[i] = row[i]
        for r in range(1, length):
            row = numbers[at + r * inner : at + (r + 1) * inner]
            for i in range(inner):
                totals[i] += row[i]
        left = inner
        for width in widths:
            half = width // 2
            while half:
                left //= 2
                _add_halves(totals, left, half, others)
                totals, others = others, totals
                half //= 2
        sums[g] = totals[0]


@jit
def gather_tiles(numbers, order, tiles, together, out):
    """Lay ``tiles`` groups of numbers out as operands: out[b, i, s · dots + d].

    Group b · together + s takes its i-th factor of dot product d from
    ``order[i, d]``; what lies past the last group is zero.
    """
    factors, dots = order.shape
    group = factors * dots
    for b in range(out.shape[0]):
        for s in range(together):
            tile = b * together + s
            for i in range(factors):
                for d in range(dots):
                    if tile < tiles:
                        out[b, i, s * dots + d] = numbers[tile * group + order[i, d]]
                    else:
                        out[b, i, s * dots + d] = 0


@jit
def add_to_bins(codes, fraction_bits, sign_shift, special_field, bins):
    """Add numbers of up to 32 bits into exact bins, one per exponent field; true if one is inf or NaN.

    bins: (4, fields) int64.  Four rows, because two additions to one bin in a
    row would wait for each other.
    """
    one = np.int64(1)
    low = (one << fraction_bits) - one
    hidden = one << fraction_bits
    mask = (one << sign_shift) - one
    special = False
    for i in range(codes.size):
        code = np.int64(codes[i])
        magnitude = code & mask
        field = magnitude >> fraction_bits
        significand = (magnitude & low) + (hidden if field > 0 else 0)
        special |= field == special_field
        sign = -(code >> sign_shift)  # 0 or -1
        bins[i & 3, field] += (significand ^ sign) - sign
    return special


@jit
def add_to_wide_bins(codes, bins):
    """The same for binary64, in two halves of 26 and 27 bits; bins: (2, 2048, 2) int64."""
    one = np.int64(1)
    special = False
    for i in range(codes.size):
        code = np.int64(codes[i])
        magnitude = code & ((one << 63) - one)
        field = magnitude >> 52
        significand = (magnitude & ((one << 52) - one)) + ((one << 52) if field > 0 else 0)
        special |= field == 0x7FF
        sign = code >> 63  # arithmetic: 0 or -1
        way = i & 1
        bins[way, field, 0] += ((significand & ((one << 26) - one)) ^ sign) - sign
        bins[way, field, 1] += ((significand >> 26) ^ sign) - sign
    return special


@jit
def add_products_to_bins(x, y, bins):
    """Add the exact products of binary64 codes into bins, one per sum of exponent fields.

    bins: (2, 4096, 4) int64; a bin holds four digits of 27 bits in units of
    2^(sum of fields - 2 - 2 · 1074), where a subnormal has field 1.  Pairs
    with inf or NaN are left out; true if there is one.
    """
    one = np.int64(1)
    low = (one << 27) - one
    special = False
    for i in range(x.size):
        p, q = x[i], y[i]
        p_field, q_field = (p >> 52) & 0x7FF, (q >> 52) & 0x7FF
        if p_field == 0x7FF or q_field == 0x7FF:
            special = True
            continue
        p_significand = (p & ((one << 52) - one)) + ((one << 52) if p_field > 0 else 0)
        q_significand = (q & ((one << 52) - one)) + ((one << 52) if q_field > 0 else 0)
        field = max(p_field, 1) + max(q_field, 1)
        p0, p1 = p_significand & low, p_significand >> 27
        q0, q1 = q_significand & low, q_significand >> 27
        first, middle, last = p0 * q0, p0 * q1 + p1 * q0, p1 * q1
        sign = (p ^ q) >> 63  # arithmetic: 0 or -1
        way = i & 1
        bins[way, field, 0] += ((first & low) ^ sign) - sign
        bins[way, field, 1] += (((first >> 27) + (middle & low)) ^ sign) - sign
        bins[way, field, 2] += (((middle >> 27) + (last & low)) ^ sign) - sign
        bins[way, field, 3] += ((last >> 27) ^ sign) - sign
    return special
