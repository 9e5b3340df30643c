// Offsets of ragged segments: copied as contiguous numbers of 64 bits, checked, or both.
//
// A single block that does both copies zeros in place of wrong offsets.  Zeros cut out no numbers, so a launch that
// reads the copy may follow before anybody knows whether the offsets were right.

#include "device/types/types.cuh"

using namespace tcu;

#include "generated/offsets/LIMITS.inc"

#include "generated/offsets/Offsets.inc"

extern "C" __global__ void __launch_bounds__(LONE_BLOCK) offsets(const __grid_constant__ Offsets p) {
    const auto offset = [&](i64 i) {
        return p.wide ? __ldg(static_cast<const i64*>(p.offsets) + i * p.stride)
                      : static_cast<i64>(__ldg(static_cast<const int*>(p.offsets) + i * p.stride));
    };
    const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x, step = static_cast<i64>(gridDim.x) * blockDim.x;
    bool wrong = false;
#pragma unroll 1
    for (i64 i = first; i < p.count; i += step) {
        const i64 here = offset(i);
        if (p.to) p.to[i] = here;
        if (p.wrong) wrong |= here < (i ? offset(i - 1) : 0) || (i == 0 && here) || (i == p.count - 1 && here != p.n);
    }
    if (!p.wrong) return;
    if (wrong) *p.wrong = 1;
    if (gridDim.x == 1 && p.to && __syncthreads_or(wrong))
        for (i64 i = first; i < p.count; i += step) p.to[i] = 0;
}
