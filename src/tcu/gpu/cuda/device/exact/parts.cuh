// A sum as two integers at two places, its one rounding, and the slow way of a warp where there is no such sum.

#pragma once

#include "device/exact/segment_parts.cuh"
#include "device/exact/values.cuh"

namespace tcu::exact {

// high · 2^(exponent + shift) + low · 2^exponent, if `proved`; shift is 1 to 63.
struct Parts {
    i64 high, low;
    int shift, exponent;
    bool proved;
};

// Stores magnitude · 2^exponent, of which magnitude[0] are the upper 64 bits, divided and rounded once.  With `sticky` the
// number is a little larger.
__device__ inline void store_magnitude(u64 (&magnitude)[2], bool sticky, bool negative, int exponent, u32 divisor, void* out,
                                       finish::Target target) {
    const auto normalize = [&] {
        if (magnitude[0] == 0) magnitude[0] = magnitude[1], magnitude[1] = 0, exponent -= 64;
        const int zeros = __clzll(magnitude[0]);
        if (zeros) magnitude[0] = magnitude[0] << zeros | magnitude[1] >> (64 - zeros), magnitude[1] <<= zeros;
        exponent -= zeros;
    };
    u64 code = 0;
    if (magnitude[0] | magnitude[1]) {
        normalize();
        if (divisor > 1) {  // long division by digits of 32 bits; 128 bits give at least 96
            u64 rest = 0;
            for (int i = 0; i < 2; ++i) {
                const u64 first = rest << 32 | magnitude[i] >> 32, upper_digit = first / divisor;
                const u64 second = (first % divisor) << 32 | (magnitude[i] & 0xffffffff);
                magnitude[i] = upper_digit << 32 | second / divisor;
                rest = second % divisor;
            }
            sticky |= rest != 0;
            normalize();
        }
        const int fraction =
            target == finish::TO_BINARY16 ? 10 : target == finish::TO_BFLOAT16 ? 7 : target == finish::TO_BINARY32 ? 23 : 52;
        const int bias = target == finish::TO_BINARY16 ? 15 : target == finish::TO_BINARY64 ? 1023 : 127;
        code = rounded(magnitude[0], exponent + 64, sticky || magnitude[1], fraction, bias, 2 * bias + 1);
    }
    store_code(code, negative, out, target);
}

// Stores the number, divided and rounded once.
__device__ inline void store_parts(i64 high, i64 low, int shift, int exponent, u32 divisor, void* out,
                                   finish::Target target) {
    u64 lower = static_cast<u64>(high) << shift;
    i64 upper = high >> (64 - shift);
    lower += static_cast<u64>(low);
    upper += (low >> 63) + (lower < static_cast<u64>(low));
    const bool negative = upper < 0;
    if (negative) {
        lower = ~lower + 1;
        upper = ~upper + (lower == 0);
    }
    u64 magnitude[2] = {static_cast<u64>(upper), lower};
    store_magnitude(magnitude, false, negative, exponent, divisor, out, target);
}

// The power of two, which must be a normal number.
__device__ inline double power(int exponent) { return __hiloint2double((exponent + 1023) << 20, 0); }

__device__ inline bool fits_binary64(i64 x) { return static_cast<u64>(x) + (1ull << 53) <= 1ull << 54; }

// A rounded number, of which `rest` was cut off, rounded to odd instead: a second rounding, to a narrower format, then
// sees whether anything was.  Only the sign of `rest` matters.
__device__ inline double to_odd(double x, double rest) {
    i64 bits = __double_as_longlong(x);
    if (rest != 0 && !(bits & 1)) bits += (rest > 0) == (x > 0) ? 1 : -1;
    return __longlong_as_double(bits);
}

// Stores the sum of two numbers of binary64, rounded once.
__device__ inline void store_doubles(double high, double low, void* out, finish::Target target) {
    const double total = high + low, other = total - high, rest = (high - (total - other)) + (low - other);
    finish::store_rounded(out, target == finish::TO_BINARY64 ? total : to_odd(total, rest), target);
}

// The same number as store_parts.  Most sums are two numbers of binary64.  store_parts alone takes as long as adding up
// 20 numbers.
__device__ inline void store_sum(const Parts& sum, u32 divisor, void* out, finish::Target target) {
    const bool plain = divisor == 1 && fits_binary64(sum.high) && fits_binary64(sum.low) && sum.exponent >= -1022 &&
                       sum.exponent + sum.shift <= 900;
    if (!plain) {
        store_parts(sum.high, sum.low, sum.shift, sum.exponent, divisor, out, target);
        return;
    }
    store_doubles(static_cast<double>(sum.high) * power(sum.exponent + sum.shift),
                  static_cast<double>(sum.low) * power(sum.exponent), out, target);
}

// A warp adds up numbers, one by one, whatever they are.
template <typename Number>
__device__ inline void sum_numbers_in_limbs(i64 count, i64* limbs, Number number) {
    const int lane = threadIdx.x % WARP;
    for (int i = lane; i < WORDS; i += WARP) limbs[i] = 0;
    __syncwarp();
    for (i64 i = lane; i < count; i += WARP) add_code(number(i), limbs);
    __syncwarp();
}

// The same of numbers that lie `step` elements apart.
__device__ __noinline__ void sum_in_limbs(const Code* from, i64 count, i64 step, i64* limbs) {
    sum_numbers_in_limbs(count, limbs, [=](i64 i) { return from[i * step]; });
}

// A warp adds limbs to those that several warps share.
__device__ inline void share_limbs(const i64* limbs, i64* shared_by_all) {
    for (int i = threadIdx.x % WARP; i < WORDS; i += WARP)
        if (limbs[i]) atomicAdd(reinterpret_cast<u64*>(shared_by_all + i), static_cast<u64>(limbs[i]));
}

// A warp takes the limbs that all warps have added to, and leaves zeros there.
__device__ inline void take_limbs(i64* shared_by_all, i64* limbs) {
    for (int i = threadIdx.x % WARP; i < WORDS; i += WARP) {
        limbs[i] = static_cast<i64>(__ldcg(reinterpret_cast<const u64*>(shared_by_all + i)));
        if (limbs[i]) shared_by_all[i] = 0;
    }
    __syncwarp();
}

}  // namespace tcu::exact
