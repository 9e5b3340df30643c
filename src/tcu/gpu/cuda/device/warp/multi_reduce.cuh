// Reductions of several numbers over the lanes of a warp at once.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

// Sums of NUMBERS numbers over groups of lanes.  The tree goes from lane bit FIRST down to lane bit LAST. At each bit
// a lane keeps one half of its numbers and hands over the other half.  So the upper lane bits say which number a lane
// has the sum of in the end.  Each step halves the numbers of a lane; adding up each of them by itself took five
// shuffles a number.
template <int NUMBERS, int FIRST, int LAST>
__device__ inline double multi_reduce(double (&v)[NUMBERS]) {
    int count = NUMBERS;
#pragma unroll
    for (int half = FIRST; half >= LAST; half /= 2) {
        const bool upper = threadIdx.x & half;
        count = count > 1 ? count / 2 : 0;
#pragma unroll
        for (int i = 0; i < NUMBERS / 2; ++i) {
            if (i >= count) continue;
            const double kept = upper ? v[i + count] : v[i], given = upper ? v[i] : v[i + count];
            v[i] = kept + __shfl_xor_sync(ALL, given, half);
        }
        if (count == 0) {
            v[0] += __shfl_xor_sync(ALL, v[0], half);
            count = 1;
        }
    }
    return v[0];
}

// The sums of rows of WIDTH tiles each.  In the index of `tiles`, the tile's number stands above the row's, so that
// the tiles of a row come together by the same steps as lanes do.
template <int WIDTH, int LAST, int NUMBERS>
__device__ inline double sum_of_tiles(double (&tiles)[NUMBERS]) {
    double number = multi_reduce<NUMBERS, WARP / 2, LAST>(tiles);
#pragma unroll
    for (int half = WARP / 2; half > WARP / 2 / WIDTH; half /= 2) number += __shfl_xor_sync(ALL, number, half);
    return number;
}

}  // namespace tcu::warp
