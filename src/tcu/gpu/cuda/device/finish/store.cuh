// Rounds a sum in binary64 to the format of its result, and stores it.

#pragma once

#include "device/types/types.cuh"

namespace tcu::finish {

enum Target { TO_BINARY16, TO_BFLOAT16, TO_BINARY32, TO_BINARY64 };

// The address of result number i.
__device__ inline void* place(void* out, i64 i, Target target) {
    return static_cast<u8*>(out) + i * (target == TO_BINARY64 ? 8 : target == TO_BINARY32 ? 4 : 2);
}

__device__ inline u32 binary32_of(double value) {
    return value != value ? 0x7fffffff : __float_as_uint(__double2float_rn(value + 0.0));
}

// Rounds once, to nearest.  Zero is +0. A NaN has all fraction bits set, as tensor cores return it.
__device__ inline void store_rounded(void* out, double value, Target target) {
    const bool nan = value != value;
    value += 0.0;
    if (target == TO_BINARY64) {
        *static_cast<u64*>(out) = nan ? 0x7fffffffffffffff : __double_as_longlong(value);
    } else if (target == TO_BINARY32) {
        *static_cast<u32*>(out) = binary32_of(value);
    } else if (target == TO_BINARY16) {
        u16 code;
        asm("{ .reg .b16 h; cvt.rn.f16.f64 h, %1; mov.b16 %0, h; }" : "=h"(code) : "d"(value));
        *static_cast<u16*>(out) = nan ? 0x7fff : code;
    } else {
        // There is no conversion from binary64 to bfloat16. So the value is rounded to odd first: then the second
        // rounding sees whether anything was cut off (Boldo and Melquiond, IEEE Trans.  Computers 57(4), 2008).
        float odd = __double2float_rz(value);
        u32 bits = __float_as_uint(odd);
        if (static_cast<double>(odd) != value) bits |= 1;
        const u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
        const bool infinite = (bits & 0x7fffffff) == 0x7f800000;
        *static_cast<u16*>(out) = nan ? 0x7fff : (infinite ? bits : rounded) >> 16;
    }
}

// A warp copies results.
__device__ inline void copy_results(const void* from, void* to, int count, Target target) {
    for (int i = static_cast<int>(threadIdx.x % WARP); i < count; i += WARP) {
        if (target == TO_BINARY64)
            static_cast<u64*>(to)[i] = static_cast<const u64*>(from)[i];
        else if (target == TO_BINARY32)
            static_cast<u32*>(to)[i] = static_cast<const u32*>(from)[i];
        else
            static_cast<u16*>(to)[i] = static_cast<const u16*>(from)[i];
    }
}

}  // namespace tcu::finish
