// Reductions over the lanes of a warp.  Every lane has the result.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

__device__ inline u32 reduce_or(u32 bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL, bits);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) bits |= __shfl_xor_sync(ALL, bits, half);
    return bits;
#endif
}

__device__ inline u32 reduce_min(u32 v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL, v);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) v = min(v, __shfl_xor_sync(ALL, v, half));
    return v;
#endif
}

__device__ inline u32 reduce_add(u32 v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL, v);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
#endif
}

__device__ inline int reduce_max(int v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(ALL, v);
#else
    for (int half = 16; half > 0; half /= 2) v = max(v, __shfl_xor_sync(ALL, v, half));
    return v;
#endif
}

__device__ inline i64 reduce_add(i64 v) {
    for (int half = 16; half > 0; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
}

}  // namespace tcu::warp
