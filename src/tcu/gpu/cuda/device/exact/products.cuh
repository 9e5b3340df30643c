// Sums of products x·y without an error: as exact/values.cuh adds up numbers, in binary64.
//
// Products of 16- and 32-bit elements are exact.  A product of binary64 elements is p + e with p = x·y rounded and e
// = fma(x, y, -p), which is exact where nothing overflows or underflows.  The exponent of p tells whether that is so.
// (Dekker, "A floating-point technique for extending the available precision", Numer.  Math.  18, 1971.)

#pragma once

#include "device/exact/chunk.cuh"

namespace tcu::exact {

constexpr int PRODUCT_BIAS = 1023, PRODUCT_FIELDS = 2047, HIGHEST_WINDOW = 1010;
// A product with this exponent field ends at 2^-1074 or above, even with 53 bits in each factor.
constexpr u32 LEAST_SAFE = 55u << 20;
// Accumulators, one below the other, that together must hold all bits of a product.
constexpr int LEVELS = ELEMENT == BINARY64 ? 3 : 2;

template <int DEPTH>
struct ProductSum {
    i64 parts[DEPTH];  // the sum of parts[i] · 2^exponents[i], if proved
    int exponents[DEPTH];
    bool proved;
    int top;  // the largest exponent field; PRODUCT_FIELDS where a second try is hopeless
};

__device__ inline double rounded_product(Code x, Code y) {
    if constexpr (ELEMENT == BINARY16)
        return to_binary32(x) * to_binary32(y);  // 22 bits, from 2^-48 to 2^32: exact, and one conversion less
    else
        return __dmul_rn(to_binary64(x), to_binary64(y));  // never fused with an addition
}

__device__ inline u32 high_word(double x) { return static_cast<u32>(__double2hiint(x)) & 0x7fffffff; }

// Adds the value to the accumulators from FIRST on: each takes what the one above it cannot hold.  Returns what is
// left over, which is not zero if the value has bits below the last accumulator.
template <int FIRST, int DEPTH>
__device__ inline double add_below(double (&sums)[DEPTH][2], int way, double value) {
#pragma unroll
    for (int l = FIRST; l < DEPTH; ++l) {
        const double next = sums[l][way] + value;
        value -= next - sums[l][way];
        sums[l][way] = next;
    }
    return fabs(value);
}

// With a `window` all products must be below 2^window.  With UNKNOWN the first products place the window.
template <int DEPTH, int STEPS, typename Read>
__device__ inline ProductSum<DEPTH> add_share(const ExactSum& p, i64 chunk, int window, const Read& read) {
    typedef Arithmetic<double> A;
    // There are two accumulators of each level, emptied after TERMS products.  Those below the first take the errors
    // e as well.
    constexpr int TERMS = STEPS * PER_LOAD / 2;
    constexpr int GROWTH = logarithm(TERMS) + (ELEMENT == BINARY64);
    constexpr int LOWEST_WINDOW = -1074 + DEPTH * (A::ROOM + 1);
    constexpr int HEADROOM = ELEMENT == BINARY64 ? 4 : 8;
    static_assert(ELEMENT != BINARY16 || 2 * (A::ROOM - GROWTH) + 1 >= 32 + 48, "all products fit the window");

    ProductSum<DEPTH> share;
    double anchors[DEPTH];
    u64 parts[DEPTH] = {};
    double leftover = 0;
    u32 largest = 0, escaped = 0;
    bool unsafe = false;

#pragma unroll 1
    for (int step = 0; step < p.loads; step += STEPS) {
        Vector x[STEPS], y[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; ++i) x[i] = read(p.x, vector_of(p, chunk, step + i));
#pragma unroll
        for (int i = 0; i < STEPS; ++i) {
            if constexpr (TERM == PRODUCT)
                y[i] = read(p.y, vector_of(p, chunk, step + i));
            else
                y[i] = x[i];
        }
        if (step == 0) {
            if (ELEMENT == BINARY16) {
                window = 32;
            } else if (window == UNKNOWN) {
                u32 first = 0;
#pragma unroll
                for (int i = 0; i < STEPS * PER_LOAD; ++i) {
                    const Code a = x[i / PER_LOAD].codes[i % PER_LOAD], b = y[i / PER_LOAD].codes[i % PER_LOAD];
                    first = max(first, high_word(rounded_product(a, b)));
                }
                window = max(warp::reduce_max(first >> 20), 1) - PRODUCT_BIAS + 1 + HEADROOM;
            }
            window = min(max(window, LOWEST_WINDOW), HIGHEST_WINDOW);
#pragma unroll
            for (int l = 0; l < DEPTH; ++l) {
                share.exponents[l] = window + GROWTH - A::ROOM - l * (A::ROOM + 1 - GROWTH);
                anchors[l] = A::power_and_half(share.exponents[l] + A::PRECISION - 1);
            }
        }
        double sums[DEPTH][2];
#pragma unroll
        for (int l = 0; l < DEPTH; ++l) sums[l][0] = sums[l][1] = anchors[l];
#pragma unroll
        for (int i = 0; i < STEPS * PER_LOAD; ++i) {
            const Code a = x[i / PER_LOAD].codes[i % PER_LOAD], b = y[i / PER_LOAD].codes[i % PER_LOAD];
            const double product = rounded_product(a, b);
            const double left = add_below<0>(sums, i % 2, product);
            if (ELEMENT == BINARY16) continue;  // the window holds them all
            leftover += left;
            largest = max(largest, high_word(product));
            if constexpr (ELEMENT == BINARY64) {
                const double first = to_binary64(a), second = to_binary64(b);
                // The error is below the last place of the first accumulator, which it would not change.
                leftover += add_below<1>(sums, i % 2, __fma_rn(first, second, -product));
                unsafe |= (high_word(product) < LEAST_SAFE) & (first != 0) & (second != 0);
            }
        }
#pragma unroll
        for (int l = 0; l < DEPTH; ++l) parts[l] += A::bits(sums[l][0]) + A::bits(sums[l][1]);
        if (ELEMENT == BINARY16) escaped |= (high_word(sums[0][0]) | high_word(sums[0][1])) ^ high_word(anchors[0]);
    }

    int top = unsafe ? PRODUCT_FIELDS : static_cast<int>(largest >> 20);
    bool proved;
    if (ELEMENT == BINARY16)
        proved = (escaped & 0x7ff00000) == 0;  // inf and NaN
    else
        proved = top < window + PRODUCT_BIAS && leftover == 0;
    share.proved = __all_sync(ALL, proved);
    share.top = warp::reduce_max(top);
#pragma unroll
    for (int l = 0; l < DEPTH; ++l) {
        const u64 batches = p.loads / STEPS;
        share.parts[l] = warp::reduce_add(static_cast<i64>(parts[l] - 2 * batches * static_cast<u64>(A::bits(anchors[l]))));
    }
    return share;
}

// Five lanes of a warp for each part.
template <int DEPTH>
__device__ inline void add_to_limbs(i64* limbs, const ProductSum<DEPTH>& share) {
    const int lane = threadIdx.x % WARP;
    i64 value = 0;
    int exponent = LOWEST;
#pragma unroll
    for (int l = 0; l < DEPTH; ++l) {
        if (lane / 5 != l) continue;
        value = share.parts[l];
        exponent = share.exponents[l];
    }
    add_limb(limbs, value, exponent, lane % 5);
}

// One product, as an integer of up to 106 bits.
__device__ inline void add_number(const ExactSum& p, i64 at, int* own) {
    const u64 codes[2] = {load::element(p.x, at), load::element(TERM == PRODUCT ? p.y : p.x, at)};
    constexpr u64 SIGN = 1ull << (8 * sizeof(Code) - 1), INFINITE = static_cast<u64>(FIELDS) << FRACTION;
    const bool negative = (codes[0] ^ codes[1]) & SIGN;
    u64 digits[2];
    int place = -LOWEST;
    bool special = false, nan = false;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const u64 magnitude = codes[i] & (SIGN - 1);
        const int field = static_cast<int>(magnitude >> FRACTION);
        digits[i] = magnitude & ((1ull << FRACTION) - 1);
        if (field) digits[i] |= 1ull << FRACTION;
        place += max(field, 1) - BIAS - FRACTION;
        special |= field == FIELDS;
        nan |= magnitude > INFINITE || magnitude == 0;  // 0 · inf
    }
    if (special) {
        atomicAdd(own + LIMBS + (nan ? NAN_COUNT : negative ? NEGATIVE_INFINITY : POSITIVE_INFINITY), 1);
        return;
    }
    const int shift = place % LIMB;
    const u64 low = digits[0] * digits[1], high = __umul64hi(digits[0], digits[1]);
    const u64 parts[2] = {low << shift, high << shift | low >> 1 >> (63 - shift)};
#pragma unroll
    for (int l = 0; l < 8; ++l) {
        const int part = static_cast<int>(parts[l / 4] >> (LIMB * (l % 4)) & 0xffff);
        if (part) atomicAdd(own + place / LIMB + l, negative ? -part : part);
    }
}

template <typename Read>
__device__ inline void add_chunk(const ExactSum& p, i64 chunk, i64* limbs, const Read& read) {
    const ProductSum<LEVELS> share = add_share<LEVELS, TOGETHER>(p, chunk, UNKNOWN, read);
    if (share.proved) {
        add_to_limbs(limbs, share);
        return;
    }
    if (ELEMENT != BINARY16 && share.top < PRODUCT_FIELDS) {
        const auto again = add_share<LEVELS + 1, 1>(p, chunk, max(share.top, 1) - PRODUCT_BIAS + 1, read);
        if (again.proved) {
            add_to_limbs(limbs, again);
            return;
        }
    }
    add_numbers(p, chunk, limbs);
}

}  // namespace tcu::exact
