// The largest magnitude in each of many transforms, as the bits of a binary32 number; NaN is larger than all.
//
// Compiled with these macros:
//   SOURCE  float or double, the type of the elements
//   LOADS   elements that a thread loads in one go; 1 where they have gaps between them
//   THREADS threads per block

#include "device/types/types.cuh"

using namespace tcu;

#include "generated/transforms/Largest.inc"

struct alignas(sizeof(SOURCE) * LOADS) Elements {
    SOURCE at[LOADS];
};

__device__ inline u32 magnitude(SOURCE x) { return __float_as_uint(static_cast<float>(x)) & 0x7fffffff; }

__device__ inline u32 largest_in(const Largest& p, const SOURCE* plane, i64 begin, i64 end) {
    u32 most = 0;
#pragma unroll 8
    for (i64 i = begin + threadIdx.x % WARP * LOADS; i < end; i += WARP * LOADS) {
        const Elements pack = *reinterpret_cast<const Elements*>(plane + i * (LOADS == 1 ? p.step : 1));
#pragma unroll
        for (int v = 0; v < LOADS; ++v) most = max(most, magnitude(pack.at[v]));
    }
    return most;
}

extern "C" __global__ void __launch_bounds__(THREADS) largest(const __grid_constant__ Largest p) {
    const i64 shares = (p.elements + p.share - 1) / p.share;
    const i64 task = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    if (task >= p.members * shares) return;
    const i64 member = task / shares, begin = task % shares * p.share;
    const i64 end = begin + p.share < p.elements ? begin + p.share : p.elements;
    u32 most = 0;
    for (int i = 0; i < 2; ++i)
        if (p.planes[i]) most = max(most, largest_in(p, p.planes[i] + member * p.member, begin, end));
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) most = max(most, __shfl_xor_sync(ALL, most, lanes));
    if (threadIdx.x % WARP == 0) atomicMax(p.largest + member, most);
}
