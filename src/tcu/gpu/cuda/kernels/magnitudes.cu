// Clears the signs of an array in place, and finds the largest code of its numbers.  Codes of inf and NaN are larger
// than those of all other numbers.
//
// Compiled with ELEMENT (types/element.cuh).

#include "device/types/element.cuh"

using namespace tcu;

#include "generated/feed/BLOCK.inc"
constexpr Code MAGNITUDE = static_cast<Code>(~static_cast<Code>(0)) >> 1;

#include "generated/feed/Magnitudes.inc"

extern "C" __global__ void __launch_bounds__(THREADS) magnitudes(const __grid_constant__ Magnitudes p) {
    u64 top = 0;
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; i < p.n; i += static_cast<i64>(gridDim.x) * THREADS) {
        const Code code = p.x[i] & MAGNITUDE;
        p.x[i] = code;
        top = code > top ? code : top;
    }
    for (int half = WARP / 2; half > 0; half /= 2) {
        const u64 other = __shfl_down_sync(ALL, top, half);
        top = other > top ? other : top;
    }
    if (threadIdx.x % WARP == 0 && top) atomicMax(p.top, top);
}
