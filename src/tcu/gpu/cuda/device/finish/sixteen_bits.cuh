// Rounds binary32 and binary64 once, to nearest, to a format of 16 bits.  A NaN has all fraction bits set.
//
// Compiled with RESULT: BINARY16 or BFLOAT16, else nobody calls these.

#pragma once

#include "device/types/options.cuh"
#include "device/types/types.cuh"

namespace tcu::finish {

__device__ inline u32 rounded_bfloat16(float x) {
    const u32 bits = __float_as_uint(x);
    return x != x ? 0x7fff : bits + 0x7fff + (bits >> 16 & 1) >> 16;
}

__device__ inline u32 rounded_pair(float low, float high) {
    u32 both;
    if constexpr (RESULT == BFLOAT16)
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
        both = rounded_bfloat16(low) | rounded_bfloat16(high) << 16;
#endif
    else
        asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
            : "=r"(both)
            : "f"(low), "f"(high));
    return both;
}

__device__ inline u16 rounded_16(float x) { return static_cast<u16>(rounded_pair(x, x)); }

__device__ inline u16 rounded_16(double x) {
    if constexpr (RESULT == BINARY16) {
        u16 code;
        asm("{ .reg .b16 h; cvt.rn.f16.f64 h, %1; mov.b16 %0, h; }" : "=h"(code) : "d"(x));
        return code;
    }
    const float cut = __double2float_rz(x);  // rounded to odd, as above
    const bool inexact = x == x && cut != x && __float_as_uint(cut) << 1 != 0xff000000;
    return static_cast<u16>(rounded_bfloat16(__uint_as_float(__float_as_uint(cut) | inexact)));
}

}  // namespace tcu::finish
