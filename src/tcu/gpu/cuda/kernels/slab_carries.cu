// What comes before each tile of few long slabs (kernels/slab_scan.cu), from what tiles come to: the networks of the plan
// (tcu/plan/scan.py) above the first.
//
// For a tile of c columns 24 c bytes are read and written, where the other two launches move 96 c Kibytes.  One launch for
// all levels, with a block for each column, took a third of the time of 2^28 rows of two columns.
//
// Compiled with
//   LEVELS   networks of the plan: two at least

#include "device/scan/prefix.cuh"

using namespace tcu;

#include "generated/slab_scan/BLOCK.inc"
#include "generated/slab_scan/SlabCarries.inc"

constexpr int RADIX = WARP / 2;  // of the network above the first

// The second network: makes of what tiles come to what comes before them in their run, and hands on what runs come to.
// What the last run comes to is needed by none.  A warp has two runs of a column.
extern "C" __global__ void __launch_bounds__(CARRY_THREADS) slab_runs(const __grid_constant__ SlabCarries p) {
    const int lane = threadIdx.x % WARP;
    const i64 pairs = (p.tiles + WARP - 1) / WARP, warp = (static_cast<i64>(blockIdx.x) * CARRY_THREADS + threadIdx.x) / WARP;
    const i64 line = warp / pairs, tile = warp % pairs * WARP + lane;
    if (line >= p.lines) return;  // the same for all lanes
    const bool exists = tile < p.tiles;
    double* const own = p.sums + ((line / p.inner) * p.tiles + tile) * p.inner + line % p.inner;
    const double sum = scan::inclusive<RADIX>(exists ? *own : 0, lane), before = scan::exclusive<RADIX>(sum, lane);
    if (!exists) return;
    *own = before;
    if (LEVELS > 2 && (tile % RADIX == RADIX - 1 || tile == p.tiles - 1)) p.above[line * p.counts[0] + tile / RADIX] = sum;
}

#if LEVELS > 2
// The networks above, of which a block has a column.
extern "C" __global__ void __launch_bounds__(CARRY_THREADS) slab_carries(const __grid_constant__ SlabCarries p) {
    const int lane = threadIdx.x % WARP;
    const auto level_of = [&](int level) { return p.above + p.first[level] + blockIdx.x * p.counts[level]; };
#pragma unroll 1
    for (int level = 0; level < LEVELS - 2; ++level) {
        double* const own = level_of(level);
        const i64 count = p.counts[level];
#pragma unroll 1
        for (i64 first = threadIdx.x - lane; first < count; first += CARRY_THREADS) {
            const i64 at = first + lane;
            const double sum = scan::inclusive<WARP>(at < count ? own[at] : 0, lane), before = scan::exclusive<WARP>(sum, lane);
            if (at < count) own[at] = before;
            if (level + 1 < LEVELS - 2 && lane == WARP - 1) level_of(level + 1)[at / WARP] = sum;
        }
        __syncthreads();
    }
#pragma unroll 1
    for (int level = LEVELS - 4; level >= 0; --level) {
        double* const own = level_of(level);
        const double* const above = level_of(level + 1);
#pragma unroll 4
        for (i64 at = threadIdx.x; at < p.counts[level]; at += CARRY_THREADS) own[at] = above[at / WARP] + own[at];
        __syncthreads();
    }
}
#endif
