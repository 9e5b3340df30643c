// Rounds binary64 once to the elements of a result whose format is known at compile time.
//
// Compiled with RESULT: a finish::Target (finish/store.cuh) as a number.

#pragma once

#include "device/finish/store.cuh"

namespace tcu::finish {

#if RESULT == 3
typedef u64 ResultCode;
#elif RESULT == 2
typedef u32 ResultCode;
#else
typedef u16 ResultCode;
#endif

// Rounds to nearest.  The value must be no NaN and no -0.
__device__ inline ResultCode rounded(double value) {
    if constexpr (RESULT == TO_BINARY64) return __double_as_longlong(value);
    if constexpr (RESULT == TO_BINARY32) return __float_as_uint(__double2float_rn(value));
    u16 code;
    if constexpr (RESULT == TO_BINARY16) {
        asm("{ .reg .b16 h; cvt.rn.f16.f64 h, %1; mov.b16 %0, h; }" : "=h"(code) : "d"(value));
        return code;
    }
    // Done on the bits, because conversions of binary64 are a quarter as fast as integer arithmetic.  Where one
    // conversion for each number is enough and two numbers are rounded at once, rounded_pair in scan/line_results.cuh
    // is faster.
    const u32 high = __double2hiint(value), low = __double2loint(value), magnitude = high & 0x7fffffff;
    if (magnitude - 0x38100000u < 0x47efe000u - 0x38100000u) {  // 2^-126 up to the largest finite number
        const u32 sticky = high | (low != 0);
        const u32 up = sticky + 0xfff + (sticky >> 13 & 1);
        return static_cast<u16>((up >> 13 & 0x3ffff) - (896 << 7) | (high >> 16 & 0x8000));
    }
    if (value == 0) return 0;
    store_rounded(&code, value, TO_BFLOAT16);
    return code;
}

// What a NaN is rounded to.
__device__ inline ResultCode not_a_number() {
    return static_cast<ResultCode>(RESULT == 3 ? 0x7fffffffffffffff : RESULT == 2 ? 0x7fffffff : 0x7fff);
}

}  // namespace tcu::finish
