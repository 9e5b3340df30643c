// What all kernels of column sums share: their arguments, and trees over lanes and warps.
//
// The host fills the structure Columns field by field (tcu/gpu/columns.py): change both together.

#pragma once

#include "device/load/row.cuh"

namespace tcu::reduce {

constexpr int MAX_LEVELS = 12;

struct Columns {
    const void* data;
    i64 outer_stride;  // in elements, as is `stride`
    i64 stride;        // from row to row
    i64 inner;
    u32 pieces;   // units of columns in a row of `inner` numbers
    u32 units;    // in all rows of all outer indices together
    u64 inverse;  // 2^64 / pieces, rounded up; 0 where there is one piece
    i64 length;
    i64 chunk;    // rows
    i64 period;   // rows
    i64 results;  // of a chunk
    void* out;
    double divisor;
    i64 target;
    int distance[MAX_LEVELS];

    // unit / pieces, exact for 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019). In a
    // warp of few rows, divisions were a fifth of all instructions.
    __device__ u32 outer_of(u32 unit) const {
        const u64 low = (inverse & 0xffffffff) * unit, high = (inverse >> 32) * unit + (low >> 32);
        return inverse == 0 ? unit : static_cast<u32>(high >> 32);
    }
};

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
