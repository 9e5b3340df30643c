// The numbers of a scan: how many make a group, which of them cannot be moved to binary64 (types/moved.cuh), and the rounding of one result.
//
// Compiled with ELEMENT and RESULT (finish/result_code.cuh).

#pragma once

#include "device/finish/rounded_pair.cuh"
#include "device/types/element.cuh"
#include "device/types/moved.cuh"

namespace tcu::scan {

constexpr int GROUP = 2 * PER_LOAD;  // elements

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
