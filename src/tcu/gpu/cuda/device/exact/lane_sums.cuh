// The sum of a lane's numbers without an error, and the proof of it.
//
// 16-bit numbers are added up in binary64 as they are.  All are multiples of 2^q and below 2^t, so that 2^(53 + q - t)
// of them have a sum without any rounding, in any order: 2^13 of binary16, where q and t are known, and of bfloat16
// as many as the smallest and the largest number say.  A number becomes binary64 by moving its bits (types/moved.cuh).
//
// Other numbers are cut at two places below a window, as in exact/values.cuh.  The window lies HEADROOM bits above the
// largest of the first numbers.  `log`: the logarithm of how many numbers are added before the accumulators are
// emptied.
//
// At 4.6 TB/s an H200 reads 10 numbers of 16 bits, 5 of 32 or 2.5 of 64 a clock and multiprocessor; it does 64
// integer instructions and 64 additions in binary64 in that time.  A number of binary16 takes 3 of the former and 1
// of the latter, of bfloat16 4.5 and 1, others 4 and 6.

#pragma once

#include "device/exact/parts.cuh"
#include "device/types/moved.cuh"

namespace tcu::exact {

constexpr bool PLAIN = sizeof(Code) == 2;
constexpr int HEADROOM = 6;

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// The sum of moved numbers as a multiple of 2^exponent.
__device__ inline i64 integer_of(double sum, int exponent) {
    return __double2ll_rn(sum * UP * power(-exponent));
}

// A sum of moved numbers that is proved.
__device__ inline Parts parts_of(double sum, const PairRange& seen) {
    const int bottom = min(seen.bottom(0), seen.bottom(1));
    const int exponent = last_bit(bottom == FIELDS ? 1 : bottom);
    return {0, integer_of(sum, exponent), 1, exponent, true};
}

using LaneSum = double;

// Stores a sum that no lane shares, if it is proved: it is a number of binary64 already.
__device__ inline void store_lane_sum(double sum, const Parts& parts, u32 divisor, void* out, finish::Target target) {
    if (divisor == 1)
        finish::store_rounded(out, sum * UP, target);
    else
        store_sum(parts, divisor, out, target);
}

#else

struct Cut {
    double s, c;
    i64 high = 0, low = 0;
    u32 leftover = 0;

    static __device__ int clamped(int window, int log) {
        return min(max(window, -1074 + 2 * Arithmetic<double>::ROOM + 1 - 2 * log), 1016 - log);
    }
    static __device__ int high_exponent(int window, int log) { return window + log - Arithmetic<double>::ROOM; }
    static __device__ int low_exponent(int window, int log) {
        return high_exponent(window, log) + log - 1 - Arithmetic<double>::ROOM;
    }
    static __device__ double anchor(int exponent) { return Arithmetic<double>::power_and_half(exponent + 52); }

    __device__ void begin(int window, int log) {
        s = anchor(high_exponent(window, log));
        c = anchor(low_exponent(window, log));
    }
    __device__ void add(Code code) {
        const double value = to_binary64(code), next = s + value, rest = value - (next - s), lower = c + rest;
        const double left = rest - (lower - c);
        // -0 leaves -0.  What is left of a number of binary32 is no subnormal number, and has bits in the high word.
        leftover |= static_cast<u32>(__double2hiint(left)) << 1;
        if constexpr (ELEMENT == BINARY64) leftover |= static_cast<u32>(__double2loint(left));
        s = next;
        c = lower;
    }
    __device__ void empty(int window, int log) {
        high += __double_as_longlong(s) - __double_as_longlong(anchor(high_exponent(window, log)));
        low += __double_as_longlong(c) - __double_as_longlong(anchor(low_exponent(window, log)));
    }
    __device__ Parts parts(int window, int log, int top) const {
        const int high_place = high_exponent(window, log), low_place = low_exponent(window, log);
        return {high, low, high_place - low_place, low_place, (top < min(window + BIAS, FIELDS) && leftover == 0)};
    }
};

using LaneSum = Cut;

__device__ inline void store_lane_sum(const Cut&, const Parts& parts, u32 divisor, void* out, finish::Target target) {
    store_sum(parts, divisor, out, target);
}

__device__ inline u32 magnitude_of(const Vector& x, int i) {
    return x.word[(i + 1) * static_cast<int>(sizeof(Code)) / 4 - 1] & 0x7fffffff;
}
__device__ inline int field_of(u32 magnitude) { return magnitude >> (ELEMENT == BINARY64 ? 20 : 23); }
__device__ inline int window_of(int top, int headroom) { return max(top, 1) - BIAS + 1 + headroom; }

#endif

}  // namespace tcu::exact
