// The tree that adds up the numbers of a warp's lanes, and of a block's warps.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

// v[i] += v[i + half], half from width / 2 down to 1; the sum is in lane 0.
template <int WIDTH, typename Number>
__device__ inline Number tree(Number v) {
#pragma unroll
    for (int half = WIDTH / 2; half > 0; half /= 2) v += __shfl_down_sync(ALL, v, half);
    return v;
}

__device__ constexpr int power_of_two(int count) {
    int width = 1;
    while (width < count) width *= 2;
    return width;
}

// The tree over the warps' numbers, each in lane 0 of its warp.  Thread 0 has the sum.  Every thread of the block
// must call this.
template <int WARPS, typename Number>
__device__ inline Number across_warps(Number v) {
    __shared__ Number warps[WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (WARPS == 1) return v;
    __syncthreads();  // the numbers of an earlier call have been read
    if (lane == 0) warps[warp] = v;
    __syncthreads();
    if (warp == 0) v = tree<power_of_two(WARPS)>(lane < WARPS ? warps[lane] : Number(0));
    return v;
}

}  // namespace tcu::warp
