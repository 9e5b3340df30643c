// The numbers of a scan: how many make a group, their way to binary64, and the rounding of two results at once.
//
// Compiled with ELEMENT and RESULT (finish/result_code.cuh).

#pragma once

#include "device/finish/result_code.cuh"
#include "device/types/element.cuh"

namespace tcu::scan {

constexpr int GROUP = 2 * PER_LOAD;  // elements

// 16-bit numbers become binary64 by moving their bits.  The result is the number divided by UP, also for subnormal
// numbers.  Sums of such results are the sums of the numbers divided by UP, with the same roundings.  Conversions
// would take four times as long as additions, and a scan of binary16 waited for them.
constexpr double UP = ELEMENT == BINARY16 ? 0x1p1008 : 0x1p896;
constexpr int DOWN = ELEMENT == BINARY16 ? 6 : 3;
constexpr u32 BITS = ELEMENT == BINARY16 ? 0x81fffc00 : 0x8fffe000;

// The lower or the higher number of a word, divided by UP.
__device__ inline double moved(u32 word, bool higher) {
    return __hiloint2double(static_cast<int>(higher ? word : word << 16) >> DOWN & BITS, 0);
}

// Notes whether a number of a word is inf or NaN: these cannot be moved.
__device__ inline void look_for_others(u32& found, u32 word) {
    if constexpr (ELEMENT == BINARY16)
        asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(found) : "r"(word), "r"(0));
    else
        found |= (word & 0x7fff7fff) + 0x00800080;
}

__device__ inline bool found_others(u32 found) { return found & (ELEMENT == BINARY16 ? 0x7fff7fff : 0x80008000); }

// Rounds a value that is no inf to odd: what is cut off sets the lowest bit, so that the next rounding sees it (Boldo
// and Melquiond, IEEE Trans.  Computers 57(4), 2008). Sums of elements of up to 32 bits that are subnormal in
// binary32 are exact, so only the lowest 29 bits are ever cut off.
__device__ inline float odd(double value) {
    const u32 cut = __double2loint(value);
    // All 29 bits in 15, of which each is enough: three instructions, where a comparison took four.
    return __uint_as_float(__float_as_uint(__double2float_rz(value)) | ((cut | cut >> 14) & 0x7fff));
}

// Rounds two numbers as finish::rounded does, and returns both in one word.
__device__ inline u32 rounded_pair(double low, double high) {
    u32 word;
    if constexpr (RESULT == finish::TO_BINARY16) {
        asm("{ .reg .b16 low, high; cvt.rn.f16.f64 low, %1; cvt.rn.f16.f64 high, %2; mov.b32 %0, {low, high}; }"
            : "=r"(word)
            : "d"(low), "d"(high));
        return word;
    } else if constexpr (RESULT == finish::TO_BFLOAT16 && ELEMENT != BINARY64) {
        // One conversion of binary64 for each number, and no branches (H200, scan of 2^29 numbers: 724 in place of
        // 985 us).
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(odd(high)), "f"(odd(low)));
        return word;
    } else {
        return finish::rounded(low) | static_cast<u32>(finish::rounded(high)) << 16;
    }
}

// The same of one number.
__device__ inline finish::ResultCode rounded_one(double value) {
    if constexpr (RESULT == finish::TO_BFLOAT16) return static_cast<finish::ResultCode>(rounded_pair(value, value));
    return finish::rounded(value);
}

}  // namespace tcu::scan
