// Products of complex numbers that are kept as two planes, real and imaginary, in one pass over memory.
//
// Every product, difference and sum is rounded by itself.  So the bits are those of the same four products and two
// sums of arrays on the host; a compiler's fused multiply-adds would change them.
//
// Compiled with these macros:
//   REAL    float or double
//   INDEX   u32 or i64: holds the number of elements
//   THREADS threads per block

#include "device/load/matrix.cuh"
#include "device/types/ieee.cuh"

using namespace tcu;

#include "generated/planes/Planes.inc"

#include "generated/planes/ComplexProduct.inc"

extern "C" __global__ void __launch_bounds__(THREADS) complex_product(const __grid_constant__ ComplexProduct p) {
    const INDEX step = static_cast<INDEX>(gridDim.x) * THREADS;
    for (INDEX i = static_cast<INDEX>(blockIdx.x) * THREADS + threadIdx.x; i < static_cast<INDEX>(p.n); i += step) {
        INDEX rest = i;
        i64 at_x = 0, at_y = 0;
#pragma unroll
        for (int d = load::MAX_BATCH_DIMENSIONS - 1; d >= 0; --d) {
            if (d >= p.dimensions) continue;
            const INDEX extent = static_cast<INDEX>(p.extents[d]);
            const INDEX index = rest % extent;
            rest /= extent;
            at_x += static_cast<i64>(index) * p.x.strides[d];
            at_y += static_cast<i64>(index) * p.y.strides[d];
        }
        const REAL a = p.x.data[at_x], b = p.x.data[at_x + p.x.plane];
        const REAL c = p.y.data[at_y], d = p.y.data[at_y + p.y.plane];
        p.out[i] = plus(times(a, c), -times(b, d));
        p.out[i + p.n] = plus(times(a, d), times(b, c));
    }
}
