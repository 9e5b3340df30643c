// Clears the signs of an array, in place, and finds the code of its largest number; inf and NaN are larger.
//
// Compiled with ELEMENT (array.cuh).  The host fills the structure field by field (tcu/gpu/feed.py): change
// both together.

#include "types.cuh"

#define BINARY16 0
#define BFLOAT16 1
#define BINARY32 2
#define BINARY64 3

#if ELEMENT == BINARY64
typedef u64 Bits;
#elif ELEMENT == BINARY32
typedef u32 Bits;
#else
typedef u16 Bits;
#endif

constexpr int THREADS = 256;
constexpr Bits MAGNITUDE = static_cast<Bits>(~static_cast<Bits>(0)) >> 1;

struct Magnitudes {
    Bits* x;
    i64 n;
    u64* top;  // zero
};

extern "C" __global__ void __launch_bounds__(THREADS) magnitudes(const __grid_constant__ Magnitudes p) {
    u64 top = 0;
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; i < p.n; i += static_cast<i64>(gridDim.x) * THREADS) {
        const Bits code = p.x[i] & MAGNITUDE;
        p.x[i] = code;
        top = code > top ? code : top;
    }
    for (int half = WARP / 2; half > 0; half /= 2) {
        const u64 other = __shfl_down_sync(ALL, top, half);
        top = other > top ? other : top;
    }
    if (threadIdx.x % WARP == 0 && top) atomicMax(p.top, top);
}
