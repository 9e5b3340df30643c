// What comes before each group of strips, from the groups' totals: levels of products with a triangle of ones
// (tcu/plan/mma_scan.py), one block for a row or a segment.
//
// Compiled with ELEMENT and the macros of mma/triangles.cuh, and
//   NUMBERS  of a tile
//   RAGGED   1: of segments between offsets

#include "device/mma/triangles.cuh"

using namespace tcu;

#include "generated/mma_scans/TriangularScan.inc"

// Where a row has its totals of a level, from the groups on, and how many there are.
struct Level {
    float* totals;
    float* prefixes;
    i64 count;
};

extern "C" __global__ void __launch_bounds__(THREADS) triangular_levels(const __grid_constant__ TriangularScan p) {
    const int warp = threadIdx.x / WARP;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
#if RAGGED
        const i64 of_group = 16 * p.chain * NUMBERS;
        const i64 begin = p.offsets[row], length = p.offsets[row + 1] - begin;
        const bool is_right = begin >= 0 && length >= 0 && begin + length <= p.length;
        const i64 first = begin / of_group + row, groups = is_right ? (length + of_group - 1) / of_group : 0;
#else
        const i64 first = row * p.groups, groups = p.groups;
#endif
        // A row's totals of a higher level lie from ⌊first/16^k⌋ + row on: as many as it needs, and one more at most.
        const auto level = [&](int k) {
            const i64 runs = (groups + (1ll << 4 * k) - 1) >> 4 * k;
            const i64 at = p.levels[k] + (first >> 4 * k) + (k ? row : 0);
            return Level{p.carries + at, p.prefixes + at, runs};
        };
        int top = 0;
        for (; level(top).count > 1; ++top) {
            const Level own = level(top), above = level(top + 1);
            for (i64 run = 16 * warp; run < above.count; run += 16 * (THREADS / WARP))
                mma::scan_totals(
                    [&](int r, int i) {
                        const i64 at = (run + r) * 16 + i;
                        return at < own.count ? own.totals[at] : 0.0f;
                    },
                    [&](int r, int i, float e) {
                        const i64 at = (run + r) * 16 + i;
                        if (at < own.count) own.prefixes[at] = e;
                    },
                    [&](int r, float sum) {
                        if (run + r < above.count) above.totals[run + r] = sum;
                    });
            __syncthreads();
        }
        for (i64 group = threadIdx.x; group < groups; group += THREADS) {
            float carry = 0;
            for (int k = top - 1; k >= 0; --k) {
                const float e = level(k).prefixes[group >> 4 * k];
                carry = k == top - 1 ? e : mma::plus(carry, e);
            }
            level(0).totals[group] = carry;
        }
        __syncthreads();
    }
}
