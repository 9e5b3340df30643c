// What all kernels of column sums share: their arguments, and trees over lanes and warps.

#pragma once

#include "device/load/row.cuh"

namespace tcu::reduce {

#include "generated/columns/ColumnsProblem.inc"

// unit / pieces, exact for 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019). In a warp
// of few rows, divisions were a fifth of all instructions.
__device__ inline u32 outer_of(const Columns& p, u32 unit) {
    const u64 low = (p.inverse & 0xffffffff) * unit, high = (p.inverse >> 32) * unit + (low >> 32);
    return p.inverse == 0 ? unit : static_cast<u32>(high >> 32);
}

// The columns of a lane in a chunk of rows, beginning with the lane's own leaf.
struct ChunkColumns {
    const Code* data;
    i64 stride;
    int columns;
    int rows;
};

// The sum of the leaves of all lanes whose numbers differ in bits FROM to TO - 1 only.
template <int FROM, int TO>
__device__ inline double across_lanes(double v) {
#pragma unroll
    for (int k = FROM; k < TO; ++k) v += __shfl_xor_sync(ALL, v, 1 << k);
    return v;
}

// The tree over the warps that share columns.  The first of them has the sum.  Every thread of the block must call
// this.
template <int NUMBERS>
__device__ inline void across_warps_of_columns(double (&v)[NUMBERS]) {
    if (ALONG == 1) return;
    __shared__ double numbers[NUMBERS][ALONG][THREADS / ALONG];
    const int along = threadIdx.x / WARP % ALONG, thread = threadIdx.x / WARP / ALONG * WARP + threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n) numbers[n][along][thread] = v[n];
    __syncthreads();
    if (along != 0) return;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n) {
        double all[ALONG];
#pragma unroll
        for (int i = 0; i < ALONG; ++i) all[i] = numbers[n][i][thread];
#pragma unroll
        for (int step = 1; step < ALONG; step *= 2)
#pragma unroll
            for (int i = 0; i < ALONG; i += 2 * step) all[i] += all[i + step];
        v[n] = all[0];
    }
}

// A load under a condition, into words that hold zeros.  It is no branch: behind a branch the compiler would wait for
// each load.
__device__ inline void read_if(bool any, const void* at, u32 (&to)[1]) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.u32 %0, [%1]; }"
                 : "+r"(to[0])
                 : "l"(at), "r"(static_cast<u32>(any)));
}
__device__ inline void read_if(bool any, const void* at, u32 (&to)[2]) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
                 : "+r"(to[0]), "+r"(to[1])
                 : "l"(at), "r"(static_cast<u32>(any)));
}

}  // namespace tcu::reduce
