// What the lanes of a warp make of their numbers together.

#pragma once

#include "types.cuh"

// The sum over all lower lanes and this one.
__device__ inline u32 up_to_lane(u32 v) {
#pragma unroll
    for (int step = 1; step < WARP; step *= 2)
        asm volatile("{ .reg .pred p; .reg .s32 r; shfl.sync.up.b32 r|p, %0, %1, 0, 0xffffffff;\n"
                     "@p add.s32 %0, %0, r; }"
                     : "+r"(v)
                     : "r"(step));
    return v;
}

__device__ inline u32 of_any_lane(u32 bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL, bits);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) bits |= __shfl_xor_sync(ALL, bits, half);
    return bits;
#endif
}

__device__ inline u32 least_of_lanes(u32 v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL, v);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) v = min(v, __shfl_xor_sync(ALL, v, half));
    return v;
#endif
}

__device__ inline u32 sum_of_lanes(u32 v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL, v);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
#endif
}

// A sum over the lower lanes of WIDTH and this one.
template <int WIDTH>
__device__ inline double up_to_lane(double v) {
#pragma unroll
    for (int step = 1; step < WIDTH; step *= 2)
        asm volatile(
            "{ .reg .pred p; .reg .b32 low, high; .reg .f64 other;\n"
            "mov.b64 {low, high}, %0;\n"
            "shfl.sync.up.b32 low|p, low, %1, %2, 0xffffffff;\n"
            "shfl.sync.up.b32 high, high, %1, %2, 0xffffffff;\n"
            "mov.b64 other, {low, high};\n"
            "@p add.f64 %0, %0, other; }"
            : "+d"(v)
            : "r"(step), "r"((WARP - WIDTH) << 8));
    return v;
}

// What the compiler does not compute anew where it is used.
__device__ inline u32 opaque(u32 v) {
    asm volatile("" : "+r"(v));
    return v;
}

// A number that all lanes have, and the compiler knows it: what depends on it is computed once for the warp, takes no
// branch that lanes might take alone, and is not worked out anew in every turn.
__device__ inline u32 of_warp(u32 v) { return of_any_lane(v); }
__device__ inline u64 of_warp(u64 v) {
    return static_cast<u64>(of_warp(static_cast<u32>(v >> 32))) << 32 | of_warp(static_cast<u32>(v));
}
__device__ inline i64 of_warp(i64 v) { return static_cast<i64>(of_warp(static_cast<u64>(v))); }
