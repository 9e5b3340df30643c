// The variants single-pass, split and warp-shuffle in one launch.  Each block reduces its numbers to one, by chained
// MMAs or by warp shuffles; the blocks' numbers are added up in order (tcu/plan/variants.py).
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh), and
//   THREADS   of a block: the plan's B
//   CHAINS    whether there are blocks of chains; then also with the macros of mma/chains.cuh
//   SHUFFLES  whether there are blocks of shuffles
//   GATHERED  blocks whose numbers one block adds up

#if CHAINS
#include "device/mma/chains.cuh"
#endif
#include "device/finish/store.cuh"
#include "device/grid/slots.cuh"
#include "device/load/array.cuh"

using namespace tcu;

constexpr int WARPS = THREADS / WARP;

#include "generated/variants/Blocks.inc"

#if ELEMENT == BINARY64
typedef double BlockNumber;
__device__ inline BlockNumber widened(Code code) { return to_binary64(code); }
#else
typedef float BlockNumber;
__device__ inline BlockNumber widened(Code code) { return to_binary32(code); }
#endif

// This warp's number, in lane 0.
__device__ inline BlockNumber number_of_warp(const Blocks& p, i64 block) {
#if CHAINS
    if (!SHUFFLES || block < p.chained) return mma::sum_of_group(p.x, block * WARPS + threadIdx.x / WARP);
#endif
#if SHUFFLES
    const i64 at = p.border + (block - p.chained) * THREADS + threadIdx.x;
    return warp::tree<WARP>(at < p.x.n ? widened(load::element(p.x, at)) : BlockNumber(0));
#else
    return 0;
#endif
}

constexpr int AHEAD = 4;  // slots that a lane reads at once

__device__ inline void look_ahead(const u64* slots, i64 at, i64 count, u64 (&bits)[AHEAD]) {
    at += threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) bits[i] = at + i * WARP < count ? grid::look(slots + at + i * WARP) : 0;
}

// total + slots[0] + slots[1] + ..., by one warp, all lanes the same.
__device__ inline BlockNumber add_in_order(BlockNumber total, u64* slots, i64 count) {
    u64 bits[AHEAD];
    look_ahead(slots, 0, count, bits);
#pragma unroll 1
    for (i64 at = 0; at < count; at += AHEAD * WARP) {
        BlockNumber numbers[AHEAD];  // +0 beyond the last, which changes nothing
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const i64 slot = at + i * WARP + threadIdx.x % WARP;
            numbers[i] = slot < count ? grid::take(slots + slot, bits[i]) : 0;
        }
        look_ahead(slots, at + AHEAD * WARP, count, bits);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int lane = 0; lane < WARP; ++lane) total += __shfl_sync(ALL, numbers[i], lane);
    }
    return total;
}

// Called by one warp: adds the numbers of up to GATHERED blocks, of which this is the last, to the total of all
// before them.  Not inline, so that it takes no registers from the blocks' work.
__device__ __noinline__ void gather(const Blocks& p, i64 block) {
    const i64 before = block / GATHERED, first = before * GATHERED;
    const i64 stop = block + 1 < p.blocks ? block + 1 : p.blocks;
    BlockNumber total = 0;
    if (before > 0) {
        if (threadIdx.x == 0) total = grid::take(p.totals + before - 1, grid::MISSING);
        total = __shfl_sync(ALL, total, 0);
    }
    total = add_in_order(total, p.slots + first, stop - first);
    if (threadIdx.x != 0) return;
    if (block != gridDim.x - 1) {
        grid::publish(p.totals + before, total);
        return;
    }
    double number = total;
    if (p.divisor != 1) number /= p.divisor;
    finish::store_rounded(p.out, number, static_cast<finish::Target>(p.target));
}

extern "C" __global__ void __launch_bounds__(THREADS) blocks(const __grid_constant__ Blocks p) {
    const i64 block = blockIdx.x;
    if (block < p.blocks) {
        const BlockNumber number = warp::across_warps<WARPS>(number_of_warp(p, block));
        if (threadIdx.x == 0) grid::publish(p.slots + block, number);
    }
    // The last of every GATHERED blocks adds up their numbers, while later blocks still run.  Blocks start in order,
    // so all blocks that it waits for are running or done.
    if (threadIdx.x < WARP && (block == gridDim.x - 1 || block % GATHERED == GATHERED - 1)) gather(p, block);
}
