// The numbers of a scan: how many make a group, their way to binary64, and the rounding of two results at once.
//
// Compiled with ELEMENT and RESULT (finish/result_code.cuh).

#pragma once

#include "device/finish/rounded_pair.cuh"
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

// Rounds as finish::rounded does.
__device__ inline finish::ResultCode rounded_one(double value) {
    if constexpr (RESULT == finish::TO_BFLOAT16) return static_cast<finish::ResultCode>(finish::rounded_pair(value, value));
    return finish::rounded(value);
}

}  // namespace tcu::scan
