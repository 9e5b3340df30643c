// Conversions between numbers in memory and inputs of the matrix unit.  Kernels choose them by name (macros NARROW
// and WIDEN).

#pragma once

#include "device/mma/fragments.cuh"

namespace tcu::mma {

template <typename Stored>
__device__ inline INPUT as_stored(Stored x) { return static_cast<INPUT>(x); }

template <typename Stored>
__device__ inline INPUT to_byte(Stored x) { return static_cast<INPUT>(x); }  // the host has checked that it fits

__device__ inline u16 to_binary16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 800
__device__ inline u16 to_bfloat16(float x) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif
#endif

__device__ inline float from_binary16(u16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

__device__ inline float from_bfloat16(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }

__device__ inline u64 to_bits(double x) { return static_cast<u64>(__double_as_longlong(x)); }

__device__ inline double from_bits(u64 bits) { return __longlong_as_double(static_cast<i64>(bits)); }

// To nearest, ties to even; cvt.rna.tf32.f32 would send ties away from zero.
__device__ inline u32 to_tf32(float x) {
    const u32 bits = __float_as_uint(x);
    if ((bits & 0x7f800000) == 0x7f800000) return bits;
    return (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

__device__ inline float from_tf32(u32 bits) { return __uint_as_float(bits); }

}  // namespace tcu::mma
