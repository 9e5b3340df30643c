// Two numbers of binary16 in a register, their lanes: an instruction takes both.  Each step is rounded by itself.

#pragma once

#include "device/types/types.cuh"

namespace tcu {

struct Lanes {
    u32 codes;
};

__device__ inline Lanes plus(Lanes x, Lanes y) {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(x.codes) : "r"(x.codes), "r"(y.codes));
    return x;
}

__device__ inline Lanes minus(Lanes x, Lanes y) {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(x.codes) : "r"(x.codes), "r"(y.codes));
    return x;
}

__device__ inline Lanes times(Lanes x, Lanes y) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(x.codes) : "r"(x.codes), "r"(y.codes));
    return x;
}

__device__ inline Lanes fused(Lanes x, Lanes y, Lanes z) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(x.codes) : "r"(x.codes), "r"(y.codes), "r"(z.codes));
    return x;
}

__device__ inline Lanes operator-(Lanes x) {
    asm("neg.f16x2 %0, %1;" : "=r"(x.codes) : "r"(x.codes));
    return x;
}

// The larger magnitude of each lane; a NaN is larger than all.
__device__ inline Lanes larger(Lanes x, Lanes y) {
#if __CUDA_ARCH__ >= 800
    asm("{ .reg .b32 x, y; abs.f16x2 x, %1; abs.f16x2 y, %2; max.NaN.f16x2 %0, x, y; }" : "=r"(x.codes) : "r"(x.codes), "r"(y.codes));
    return x;
#else
    const u32 high = max(x.codes & 0x7fff0000, y.codes & 0x7fff0000);
    return {high | max(x.codes & 0x7fff, y.codes & 0x7fff)};
#endif
}

// Both lanes of one of two numbers, and the low, or the high, numbers of two registers.  Moved as halves, which instructions choose
// from registers on their own; what __byte_perm had made took an instruction of its own each.
__device__ inline Lanes low_of(u32 codes) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %0; mov.b32 %0, {low, low}; }" : "+r"(codes));
    return {codes};
}

__device__ inline Lanes high_of(u32 codes) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %0; mov.b32 %0, {high, high}; }" : "+r"(codes));
    return {codes};
}

__device__ inline Lanes lows(u32 first, u32 second) { return {__byte_perm(first, second, 0x5410)}; }
__device__ inline Lanes highs(u32 first, u32 second) { return {__byte_perm(first, second, 0x7632)}; }

__device__ inline Lanes lanes_of(float first, float second) {
    u32 both;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(both) : "f"(first), "f"(second));
    return {both};
}

__device__ inline float low_value(Lanes x) {
    float value;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(x.codes));
    return value;
}

__device__ inline float high_value(Lanes x) {
    float value;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(x.codes));
    return value;
}

}  // namespace tcu
