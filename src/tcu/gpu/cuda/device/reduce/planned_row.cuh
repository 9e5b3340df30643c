// Sums of rows, or columns, by their plan of binary64 additions, in the plan's order, by a warp that reads number by number:
// for the few of 16-bit numbers whose sums might be rounded on the way, where all others are added up in any order.

#pragma once

#include "device/finish/store.cuh"
#include "device/reduce/lane_sums.cuh"

namespace tcu::reduce {

static_assert(NEAR, "the plan's trees go over neighbours first");

// Not inline: the compiler would divide before it knows whether to, 30 instructions for each sum.
__device__ __noinline__ double divided(double sum, i64 divisor) { return sum / static_cast<double>(divisor); }

// Stores a sum in binary64, or the mean.
__device__ inline void store_planned(double sum, i64 divisor, void* out, finish::Target target) {
    if (divisor != 1) sum = divided(sum, divisor);
    finish::store_rounded(out, sum, target);
}

// Lane 0 has the result.  The numbers lie `step` apart.  `turns`: of a chunk; `chunks`: of all, WARP at most.
__device__ __noinline__ double sum_in_order(const Code* data, i64 length, i64 step, int turns, int chunks) {
    constexpr int SLICES = 8;  // of a turn, a warp's each in the plan
    const int lane = threadIdx.x % WARP;
    double total = 0;  // the sum of chunk number `lane`
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
        double slices[SLICES];
#pragma unroll
        for (int t = 0; t < SLICES; ++t) {
            LaneSums sums;
#pragma unroll 1
            for (int turn = 0; turn < turns; ++turn) {
                const i64 at = (((static_cast<i64>(chunk) * turns + turn) * SLICES + t) * WARP + lane) * PER_LOAD;
                Vector x;
#pragma unroll
                for (int i = 0; i < PER_LOAD; ++i) x.codes[i] = at + i < length ? data[(at + i) * step] : Code(0);
                sums.add(x);
            }
            slices[t] = sums.sum();
        }
        const double number = __shfl_sync(ALL, warp::sum_of_tiles_near<SLICES>(slices), 0);
        if (lane == chunk) total = number;
    }
    return warp::tree<WARP>(total);
}
__device__ inline void store_in_order(const Code* data, i64 length, i64 step, int turns, int chunks, i64 divisor, void* out,
                                      finish::Target target) {
    const double sum = sum_in_order(data, length, step, turns, chunks);
    if (threadIdx.x % WARP == 0) store_planned(sum, divisor, out, target);
}

}  // namespace tcu::reduce
