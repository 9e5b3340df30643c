// The variants two-mma and recurrence: on each level, each warp reduces a group of numbers to one number, which the
// next level takes (tcu/plan/variants.py).  A launch for one level, or one for all of them.
//
// Compiled with the macros of mma/chains.cuh, and for one launch with
//   RESIDENT  blocks of a multiprocessor at a time

#include "device/finish/store.cuh"
#include "device/grid/barrier.cuh"
#include "device/mma/chains.cuh"

using namespace tcu;

#include "generated/variants/ChainLevel.inc"

#include "generated/variants/ChainLevels.inc"

constexpr int WARPS = THREADS / WARP;

// The number of the last level, which is the sum.
template <typename Levels, typename Number>
__device__ inline void store_sum(const Levels& p, Number number) {
    double total = p.stored ? to_binary64(mma::operand_code(number)) : number;
    if (p.divisor != 1) total /= p.divisor;
    finish::store_rounded(p.out, total, static_cast<finish::Target>(p.target));
}

#ifndef RESIDENT
extern "C" __global__ void __launch_bounds__(THREADS) level(const __grid_constant__ ChainLevel p) {
    const i64 group = static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP;
    if (group >= p.groups) return;  // the same for all lanes of a warp
    const auto number = mma::sum_of_group(p.x, group);
    if (threadIdx.x % WARP != 0) return;
    if (p.out == nullptr)
        static_cast<Code*>(p.results)[group] = mma::operand_code(number);
    else
        store_sum(p, number);
}
#else
__device__ inline Code* results_of(const ChainLevels& p, int level) {
    return reinterpret_cast<Code*>(static_cast<u8*>(p.results) + p.begins[level]);
}

typedef decltype(mma::Total().number()) GroupSum;

// Each warp takes every so many-th group of a level, as many as there are warps in the launch.  Returns the number of its
// last group.
template <typename Numbers>
__device__ inline GroupSum reduce_level(const ChainLevels& p, int level, const Numbers& x) {
    const i64 warps = static_cast<i64>(gridDim.x) * WARPS;
    GroupSum number = 0;
#pragma unroll 1
    for (i64 group = static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP; group < p.groups[level]; group += warps) {
        number = mma::sum_of_group(x, group);
        if (threadIdx.x % WARP == 0 && level < p.levels - 1) results_of(p, level)[group] = mma::operand_code(number);
        __syncwarp();  // the next group may begin in the buffer of shared memory that this one ended in
    }
    return number;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) levels_together(const __grid_constant__ ChainLevels p) {
    GroupSum number = reduce_level(p, 0, p.x);
#pragma unroll 1
    for (int level = 1; level < p.levels; ++level) {
        grid::arrive(p.arrived);
        if (static_cast<i64>(blockIdx.x) * WARPS >= p.groups[level]) return;  // nor has it any in the levels behind
        grid::wait_for_arrivals(p.arrived, p.due[level]);
        number = reduce_level(p, level, load::Written{results_of(p, level - 1), p.groups[level - 1]});
    }
    // The last level has one group, so that one block comes here.  In the loop the division took registers from all.
    if (threadIdx.x != 0) return;
    store_sum(p, number);
    *p.arrived = 0;
}
#endif
