// Arithmetic modulo p = 2^64 - 2^32 + 1, of numbers below p.
//
// 2^64 is 2^32 - 1 modulo p, and 2^96 is -1: a product of 128 bits is reduced by one subtraction and one addition.

#pragma once

#include "device/types/types.cuh"

namespace tcu::modular {

constexpr u64 PRIME = 0xffffffff00000001;
constexpr u64 EPSILON = 0xffffffff;  // 2^64 modulo p, and 2^64 - p

__device__ inline u64 below(u64 x) { return x >= PRIME ? x - PRIME : x; }

__device__ inline u64 plus(u64 x, u64 y) {
    const u64 sum = x + y;
    return sum < x || sum >= PRIME ? sum - PRIME : sum;
}

__device__ inline u64 minus(u64 x, u64 y) { return x >= y ? x - y : x - y + PRIME; }

__device__ inline u64 times(u64 x, u64 y) {
    const u64 low = x * y, high = __umul64hi(x, y), top = high >> 32;
    u64 first = low - top;
    if (low < top) first -= EPSILON;
    const u64 second = (high & EPSILON) * EPSILON;
    u64 sum = first + second;
    if (sum < second) sum += EPSILON;
    return below(sum);
}

}  // namespace tcu::modular
