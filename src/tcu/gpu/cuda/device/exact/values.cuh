// Sums of numbers without an error (exact.cu says how).

#pragma once

#include "device/exact/chunk.cuh"

namespace tcu::exact {

// A warp's sum: high · 2^high_exponent + low · 2^low_exponent, if `proved`.
struct ValueSum {
    i64 high, low;
    int high_exponent, low_exponent;
    bool proved;
    int top;  // the largest exponent field
};

template <typename Real, int STEPS, typename Read>
__device__ inline ValueSum add_share(const ExactSum& p, i64 chunk, int window, const Read& read) {
    typedef Arithmetic<Real> A;
    // There are two accumulators of each kind, emptied after TERMS numbers each.
    constexpr bool NARROW = A::PRECISION == 24;
    constexpr int LOADS = NARROW ? 1 : STEPS;
    constexpr int TERMS = LOADS * PER_LOAD / 2;
    constexpr int ROOM = A::ROOM;
    constexpr int HEADROOM = ELEMENT == BINARY16 ? 0 : NARROW ? 3 : 8;

    Range range;
    Real high_anchor, low_anchor;
    i64 high = 0, low = 0;
    Real leftover = 0;
    int high_exponent = 0, low_exponent = 0;
    int escaped = 0;

#pragma unroll 1
    for (int step = 0; step < p.loads; step += STEPS) {
        Vector x[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; ++i) x[i] = read(p.x, vector_of(p, chunk, step + i));
        if (ELEMENT != BINARY16 || !NARROW) {
#pragma unroll
            for (int i = 0; i < STEPS; ++i) range.see(x[i]);
        }
        if (step == 0) {
            if (ELEMENT == BINARY16)
                window = 16;
            else if (window == UNKNOWN)
                window = max(warp::reduce_max(range.top()), 1) - BIAS + 1 + HEADROOM;
            window = min(max(window, A::LOWEST_WINDOW), A::HIGHEST_WINDOW);
            high_exponent = window + logarithm(TERMS) - ROOM;
            low_exponent = high_exponent + logarithm(TERMS) - 1 - ROOM;
            high_anchor = A::power_and_half(high_exponent + A::PRECISION - 1);
            low_anchor = A::power_and_half(low_exponent + A::PRECISION - 1);
        }
#pragma unroll
        for (int first = 0; first < STEPS; first += LOADS) {
            Real s[2] = {high_anchor, high_anchor}, c[2] = {low_anchor, low_anchor};
#pragma unroll
            for (int i = 0; i < LOADS * PER_LOAD; ++i) {
                const Real value = A::of(x[first + i / PER_LOAD].codes[i % PER_LOAD]);
                const Real next = s[i % 2] + value;
                const Real rest = value - (next - s[i % 2]);
                s[i % 2] = next;
                const Real lower = c[i % 2] + rest;
                if (!NARROW) leftover += fabs(rest - (lower - c[i % 2]));
                c[i % 2] = lower;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                high += A::bits(s[i]) - A::bits(high_anchor);
                low += A::bits(c[i]) - A::bits(low_anchor);
                if (ELEMENT == BINARY16 && NARROW) escaped |= A::bits(s[i]) ^ A::bits(high_anchor);
            }
        }
    }

    bool proved;
    if (NARROW && ELEMENT == BINARY16) {
        proved = (escaped & 0x7f800000) == 0;  // inf and NaN; all others fit the window
    } else {
        proved = range.top() < min(window + BIAS, FIELDS) && leftover == 0;
#if ELEMENT == BFLOAT16
        // The last bit of a number, 2^(field - BIAS - FRACTION), must be in the window.
        if (NARROW) proved = proved && max(range.bottom(), 1) - BIAS - FRACTION >= low_exponent;
#endif
    }
    proved = __all_sync(ALL, proved);
    return {warp::reduce_add(high), warp::reduce_add(low), high_exponent, low_exponent, proved,
            warp::reduce_max(range.top())};
}

__device__ inline void add_to(int* limb, int part) { atomicAdd(limb, part); }
__device__ inline void add_to(i64* limb, i64 part) { atomicAdd(reinterpret_cast<u64*>(limb), static_cast<u64>(part)); }

// One number; inf and NaN are counted.
template <typename Limb>
__device__ inline void add_code(u64 code, Limb* own) {
    const bool negative = code >> (8 * sizeof(Code) - 1);
    const int field = static_cast<int>(code >> FRACTION) & FIELDS;
    u64 digits = code & ((1ull << FRACTION) - 1);
    if (field == FIELDS) {
        add_to(own + LIMBS + (digits ? NAN_COUNT : negative ? NEGATIVE_INFINITY : POSITIVE_INFINITY), 1);
        return;
    }
    if (field) digits |= 1ull << FRACTION;
    const int place = max(field, 1) - BIAS - FRACTION - LOWEST, shift = place % LIMB;
    const u64 parts[2] = {(digits & 0xffffffff) << shift, digits >> 32 << shift};
    for (int half = 0; half < (FRACTION > 31 ? 2 : 1); ++half)
        for (int l = 0; l < 3; ++l) {
            const int part = static_cast<int>(parts[half] >> (LIMB * l) & 0xffff);
            if (part) add_to(own + place / LIMB + 2 * half + l, negative ? -part : part);
        }
}

__device__ inline void add_number(const ExactSum& p, i64 at, int* own) { add_code(load::element(p.x, at), own); }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
typedef float Fast;
#else
typedef double Fast;
#endif

template <typename Read>
__device__ inline void add_chunk(const ExactSum& p, i64 chunk, i64* limbs, const Read& read) {
    ValueSum share = add_share<Fast, TOGETHER>(p, chunk, UNKNOWN, read);
    if (!share.proved && ELEMENT != BINARY16 && share.top < FIELDS)
        share = add_share<double, 1>(p, chunk, max(share.top, 1) - BIAS + 1, read);
    if (share.proved)
        add_to_limbs(limbs, share.high, share.high_exponent, share.low, share.low_exponent);
    else
        add_numbers(p, chunk, limbs);
}

// Adds the chunk to the limbs, also where the array ends in it.
__device__ inline void add_whole_chunk(const ExactSum& p, i64 chunk, i64* limbs) {
    if ((chunk + 1) * p.loads * THREADS <= load::whole_vectors(p.x)) {
        add_chunk(p, chunk, limbs, [](const load::Array& a, i64 v) { return load::whole_vector(a, v); });
    } else {
        const load::End x(p.x);
        add_chunk(p, chunk, limbs, [&](const load::Array& a, i64 v) { return load::vector_or_padding(a, x, v); });
    }
}

}  // namespace tcu::exact
