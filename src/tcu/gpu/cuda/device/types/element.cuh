// The elements of an array: their codes, their values, and 16 bytes of them.
//
// Compiled for one ELEMENT: BINARY16, BFLOAT16, BINARY32 or BINARY64.

#pragma once

#include "device/types/options.cuh"
#include "device/types/types.cuh"

namespace tcu {

#if ELEMENT == BINARY64
typedef u64 Code;
#elif ELEMENT == BINARY32
typedef u32 Code;
#else
typedef u16 Code;
#endif

constexpr int PER_LOAD = 16 / sizeof(Code);

union Vector {
    uint4 words;
    u32 word[4];
    Code codes[PER_LOAD];
};

__device__ inline float to_binary32(Code code) {
#if ELEMENT == BINARY16
    float value;
    asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(value) : "h"(code));
    return value;
#elif ELEMENT == BFLOAT16
    return __uint_as_float(static_cast<u32>(code) << 16);
#elif ELEMENT == BINARY32
    return __uint_as_float(code);
#else
    return 0;  // there is no such kernel
#endif
}

__device__ inline double to_binary64(Code code) {
#if ELEMENT == BINARY64
    return __longlong_as_double(code);
#elif ELEMENT == BINARY16
    double value;  // in one conversion
    asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f64.f16 %0, h; }" : "=d"(value) : "h"(code));
    return value;
#else
    return to_binary32(code);
#endif
}

}  // namespace tcu
