// The sum of numbers of binary64 in two of them, without an error unless one is seen, and its one rounding.

#pragma once

#include "device/exact/parts.cuh"

namespace tcu::exact {

// high + low, unless `leftover`.
struct DoubleSum {
    double high = 0, low = 0;
    u32 leftover = 0;

    __device__ void add(double x) { leftover |= add_to(low, add_to(high, x)) != 0; }

    // Returns the error of the sum; NaN where the sum is too large.
    static __device__ double add_to(double& sum, double x) {
        const double next = sum + x, other = next - sum, rest = (sum - (next - other)) + (x - other);
        sum = next;
        return rest;
    }
};

// |x| as an integer times 2^exponent.
__device__ inline i64 digits_of(double x, int& exponent) {
    const u64 bits = __double_as_longlong(x), rest = bits & ((1ull << 52) - 1);
    const int field = static_cast<int>(bits >> 52) & 2047;
    exponent = max(field, 1) - 1075;
    return static_cast<i64>(field ? rest | 1ull << 52 : rest);
}

// Stores the sum, divided and rounded once; returns false if its digits lie too far apart for a division.
__device__ inline bool store_double_sum(const DoubleSum& given, u32 divisor, void* out, finish::Target target) {
    if (divisor == 1) {
        if (ELEMENT == BINARY16) finish::store_rounded(out, given.high, target);  // which is all of it
        else store_doubles(given.high, given.low, out, target);
        return true;
    }
    double sum = given.high;
    const double rest = DoubleSum::add_to(sum, given.low);
    if (rest == 0 && (sum == 0 || (fabs(sum) > 0x1p-900 && fabs(sum) < 0x1p900))) {
        const double quotient = sum / divisor, left = __fma_rn(-quotient, static_cast<double>(divisor), sum);
        finish::store_rounded(out, target == finish::TO_BINARY64 ? quotient : to_odd(quotient, left), target);
        return true;
    }
    int place, exponent;
    const i64 digits = digits_of(sum, place), high = sum < 0 ? -digits : digits;
    i64 low = digits_of(rest, exponent);
    exponent = low ? exponent + 63 - __clzll(low & -low) : place - 1;
    if (place - exponent > 63) return false;
    low = low ? static_cast<i64>(static_cast<u64>(low) >> (63 - __clzll(low & -low))) : 0;
    store_parts(high, rest < 0 ? -low : low, place - exponent, exponent, divisor, out, target);
    return true;
}

}  // namespace tcu::exact
