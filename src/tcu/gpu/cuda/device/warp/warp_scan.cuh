// Running sums over the lanes of a warp.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

// The sum over all lower lanes and this one.
__device__ inline u32 inclusive_scan(u32 v) {
#pragma unroll
    for (int step = 1; step < WARP; step *= 2)
        asm volatile("{ .reg .pred p; .reg .s32 r; shfl.sync.up.b32 r|p, %0, %1, 0, 0xffffffff;\n"
                     "@p add.s32 %0, %0, r; }"
                     : "+r"(v)
                     : "r"(step));
    return v;
}

// The same within each group of WIDTH neighbouring lanes.
template <int WIDTH>
__device__ inline double inclusive_scan(double v) {
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

}  // namespace tcu::warp
