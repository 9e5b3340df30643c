// Rounds two numbers of binary64 once to 16 bits, and puts them into one word.
//
// Compiled with ELEMENT, whose sums the numbers are, and RESULT (finish/result_code.cuh).

#pragma once

#include "device/finish/result_code.cuh"
#include "device/finish/sixteen_bits.cuh"
#include "device/types/element.cuh"

namespace tcu::finish {

// Rounds a value that is no inf to odd: what is cut off sets the lowest bit, so that the next rounding sees it (Boldo
// and Melquiond, IEEE Trans.  Computers 57(4), 2008). Sums of elements of up to 32 bits that are subnormal in
// binary32 are exact, so only the lowest 29 bits are ever cut off.
__device__ inline float odd(double value) {
    const u32 cut = __double2loint(value);
    // All 29 bits in 15, of which each is enough: three instructions, where a comparison took four.
    return __uint_as_float(__float_as_uint(__double2float_rz(value)) | ((cut | cut >> 14) & 0x7fff));
}

// Rounds two numbers as finish::rounded does.
__device__ inline u32 rounded_pair(double low, double high) {
    u32 word;
    if constexpr (RESULT == TO_BINARY16) {
        asm("{ .reg .b16 low, high; cvt.rn.f16.f64 low, %1; cvt.rn.f16.f64 high, %2; mov.b32 %0, {low, high}; }"
            : "=r"(word)
            : "d"(low), "d"(high));
        return word;
    } else if constexpr (RESULT == TO_BFLOAT16 && ELEMENT != BINARY64) {
        // One conversion of binary64 for each number, and no branches (H200, scan of 2^29 numbers: 724 in place of
        // 985 us).
        const float second = odd(high), first = odd(low);
        return rounded_pair(first, second);
    } else {
        return rounded(low) | static_cast<u32>(rounded(high)) << 16;
    }
}

}  // namespace tcu::finish
