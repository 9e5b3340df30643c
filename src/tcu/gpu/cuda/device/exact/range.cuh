// The exponents of numbers, which say whether their sums are exact.

#pragma once

#include "device/types/element.cuh"

namespace tcu::exact {

// The element's format: fraction bits, exponent bias, and the exponent field of inf and NaN.
#if ELEMENT == BINARY16
constexpr int FRACTION = 10, BIAS = 15, FIELDS = 31;
#elif ELEMENT == BFLOAT16
constexpr int FRACTION = 7, BIAS = 127, FIELDS = 255;
#elif ELEMENT == BINARY32
constexpr int FRACTION = 23, BIAS = 127, FIELDS = 255;
#else
constexpr int FRACTION = 52, BIAS = 1023, FIELDS = 2047;
#endif

// The largest exponent field of the elements seen, and the smallest one that is not zero: what the proof needs.
struct Range {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    u32 largest = 0, smallest = 0x7fff7fff;  // pairs of codes with the sign bit set, less one: so zero stands apart

    __device__ void see(const Vector& x) {
#pragma unroll
        for (int i = 0; i < 4; ++i) see(x.word[i]);
    }
    __device__ void see(u32 word) {
        const u32 t = (word | 0x80008000) - 0x00010001;
#if __CUDA_ARCH__ >= 900
        asm("max.u16x2 %0, %0, %1;" : "+r"(largest) : "r"(t));
        asm("min.s16x2 %0, %0, %1;" : "+r"(smallest) : "r"(t));
#else
        largest = __vmaxu2(largest, t);
        smallest = __vmins2(smallest, t);
#endif
    }

    // Of one half of all words: the largest field of a nonzero number; 0 where there is none.
    __device__ int top(int half) const {
        const u32 m = largest >> 16 * half & 0xffff;
        return m < 0x8000 ? 0 : static_cast<int>((m & 0x7fff) + 1) >> FRACTION;
    }
    __device__ int bottom(int half) const {
        const int m = static_cast<short>(smallest >> 16 * half & 0xffff);
        return m >= 0 ? FIELDS : ((m & 0x7fff) + 1) >> FRACTION;
    }
    __device__ int top() const { return max(top(0), top(1)); }
    __device__ int bottom() const { return min(bottom(0), bottom(1)); }
#else
    u32 largest = 0;

    __device__ void see(const Vector& x) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const u32 high = x.word[(i + 1) * (4 / PER_LOAD) - 1] & 0x7fffffff;
            largest = max(largest, high);
        }
    }
    __device__ int top() const { return largest >> (ELEMENT == BINARY64 ? 20 : 23); }
#endif
};

// PLANNED: sums have the bits of a plan of binary64 additions (kernels/exact_rows.cu).
#ifndef PLANNED
#define PLANNED 0
#endif

// Whether sums of finite numbers are exact, whatever they are: of 2^13 of binary16.  Plans may have more.
#ifndef ANY_FINITE
#define ANY_FINITE (ELEMENT == BINARY16)
#endif

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// Of pairs of numbers: the largest exponent field, and the smallest one of those that are not zero.
struct PairRange {
#if ANY_FINITE
    u32 found = 0;  // NaN where there was inf or NaN

    __device__ void see(u32 word) { asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(found) : "r"(word), "r"(0)); }
    __device__ int top(int half) const { return (found >> 16 * half & 0x7fff) ? FIELDS : FIELDS - 1; }
    __device__ int bottom(int) const { return 1; }
    // Whether all are finite, so that the sum of 2^log of them fits 53 bits; log is 13 at most.
    __device__ bool fits(int) const { return (found & 0x7fff7fff) == 0; }
#else
    Range range;

    __device__ void see(u32 word) { range.see(word); }
    __device__ int top(int half) const { return range.top(half); }
    __device__ int bottom(int half) const { return range.bottom(half); }
    // Whether the sum of 2^log of them fits 53 bits, by their codes: a little stricter than by fields, and much shorter.
    __device__ bool fits(int log) const {
        const u32 largest = max(range.largest & 0xffff, range.largest >> 16);
        const u32 smallest = static_cast<u32>(min(static_cast<int>(range.smallest << 16), static_cast<int>(range.smallest))) >> 16;
        return largest < (0x8000 | FIELDS << FRACTION) - 1 && largest - smallest <= static_cast<u32>(52 - FRACTION - log) << FRACTION;
    }
#endif
};

#endif

// The exponent of the last bit of numbers with this exponent field and larger ones.
__device__ inline int last_bit(int bottom) { return max(bottom, 1) - BIAS - FRACTION; }

// Whether a sum of 2^log numbers fits so many bits from the smallest number's last bit on.
__device__ inline bool fits(int top, int bottom, int log, int bits) {
    return top < FIELDS && max(top, 1) - BIAS + 1 + log <= last_bit(bottom) + bits;
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// Whether lanes that have 2^log numbers each add them up exactly, and 2^`lanes` of them, as integers, what they have; of plans,
// whether no order of additions in binary64 rounds the sum of all.
__device__ inline bool fits_lanes(int top, int bottom, int log, int lanes) {
    const bool any = fits(top, bottom, log + lanes, PLANNED ? 53 : 62);
    if (PLANNED) return ANY_FINITE ? top < FIELDS : any;
    return fits(top, bottom, log, 53) && any;
}

#endif

}  // namespace tcu::exact
