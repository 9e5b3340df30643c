// Sums of the antidiagonals of a product of digits: the coefficients of a product of long integers, in one pass.
//
// The entry in row r and column j of the product belongs to digit r + (first + j)·side of the result.  With r =
// q·side + u these are, for each u, the antidiagonals q + j of a matrix of strips × columns.  A warp reads some rows
// of this matrix one after another; each lane has every 32nd column.  After each row, a column hands its sum to the
// column on its left, which goes on with it in the next row.  The sum that leaves column 0 is complete.  The entries
// are integers, so the order of additions changes nothing.
//
// Compiled with these macros:
//   PRODUCT type of the product's entries, which are integers: int, i64, float or double
//   PER     columns of a lane: WARP·PER is the number of columns or more
//   CHUNK   strips of a warp
//   THREADS threads per block

#include "device/types/types.cuh"

using namespace tcu;

#include "generated/antidiagonals/Antidiagonals.inc"

__device__ inline i64 of_next_lane(i64 x) {
    return static_cast<i64>(__shfl_sync(ALL, static_cast<u64>(x), (threadIdx.x + 1) % WARP));
}

extern "C" __global__ void __launch_bounds__(THREADS) add_antidiagonals(const __grid_constant__ Antidiagonals p) {
    const i64 strips = (p.rows + p.side - 1) / p.side;
    const i64 chunks = (strips + CHUNK - 1) / CHUNK;
    const i64 task = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    if (task >= p.members * p.blocks * chunks * p.side) return;  // the same for all lanes of a warp
    const int lane = threadIdx.x % WARP;
    // Warps side by side read rows side by side.
    const i64 u = task % p.side, q0 = task / p.side % chunks * CHUNK, block = task / p.side / chunks;
    const i64 q1 = q0 + CHUNK < strips ? q0 + CHUNK : strips;
    const i64 strip = p.first + block % p.blocks * p.columns;
    u64* result = p.result + block / p.blocks * p.length + strip * p.side + u;
    i64 sums[PER] = {};
#pragma unroll 2
    for (i64 q = q0; q < q1; ++q) {
        const i64 row = q * p.side + u;
        const PRODUCT* place = p.product + (block * p.rows + row) * p.columns;
#pragma unroll
        for (int c = 0; c < PER; ++c)
            if (row < p.rows && lane + WARP * c < p.columns) sums[c] += static_cast<i64>(place[lane + WARP * c]);
        if (lane == 0) atomicAdd(result + q * p.side, static_cast<u64>(sums[0]));
        i64 next[PER + 1] = {};
#pragma unroll
        for (int c = 0; c < PER; ++c) next[c] = of_next_lane(sums[c]);
#pragma unroll
        for (int c = 0; c < PER; ++c) sums[c] = lane + 1 < WARP ? next[c] : next[c + 1];
    }
    // What other warps go on with: column j would continue with strip q1 + j.
#pragma unroll
    for (int c = 0; c < PER; ++c)
        if (sums[c]) atomicAdd(result + (q1 + lane + WARP * c) * p.side, static_cast<u64>(sums[c]));
}
