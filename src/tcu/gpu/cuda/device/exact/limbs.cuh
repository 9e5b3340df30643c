// A fixed-point number that is wide enough for every sum: limbs of 16 bits in words of 64, so that carries can wait.
// Additions are exact, so their order does not matter, and atomic additions are allowed.

#pragma once

#include "device/types/options.cuh"
#include "device/types/types.cuh"

namespace tcu::exact {

#include "generated/sums/LIMBS_OF_TERMS.inc"
// The exponent of the lowest bit: a limb below the smallest number of binary64, or the smallest product of two.
constexpr int LOWEST = TERM == VALUE ? VALUE_LOWEST : PRODUCT_LOWEST;
constexpr int LIMBS = TERM == VALUE ? VALUE_LIMBS : PRODUCT_LIMBS;
constexpr int WORDS = LIMBS + COUNTS;

enum Special { POSITIVE_INFINITY, NEGATIVE_INFINITY, NAN_COUNT };

// Limb i of value · 2^exponent, which takes five limbs, in two's complement.  Lanes 0 to 4 give one each.
__device__ inline i64 limb_of(i64 value, int exponent, int i) {
    const int shift = (exponent - LOWEST) % LIMB;
    const u64 low = static_cast<u64>(value) << shift;
    const i64 high = shift ? value >> (64 - shift) : value >> 63;
    return i < 4 ? static_cast<i64>(low >> (LIMB * i) & 0xffff) : high;
}

__device__ inline int first_limb(int exponent) { return (exponent - LOWEST) / LIMB; }

// A lane adds limb i of value · 2^exponent.
__device__ inline void add_limb(i64* limbs, i64 value, int exponent, int i) {
    const i64 part = limb_of(value, exponent, i);
    if (part != 0)
        atomicAdd(reinterpret_cast<u64*>(limbs + first_limb(exponent) + i), static_cast<u64>(part));
}

// Lanes 0 to 9 of a warp add high · 2^high_exponent + low · 2^low_exponent.
__device__ inline void add_to_limbs(i64* limbs, i64 high, int high_exponent, i64 low, int low_exponent) {
    const int lane = threadIdx.x % WARP;
    if (lane >= 10) return;
    add_limb(limbs, lane < 5 ? high : low, lane < 5 ? high_exponent : low_exponent, lane % 5);
}

}  // namespace tcu::exact
