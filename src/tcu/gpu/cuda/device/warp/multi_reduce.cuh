// Several trees over the lanes of a warp at once.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

// The sums of NUMBERS tiles over FIRST * 2 lanes, numbered from lane LAST on: lane bit FIRST says which half of
// the tiles a lane has in the end, the next bit which half of them, and so on.  Each step halves the tiles of a lane
// in place of adding up all of them, which took five shuffles a tile.
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

// The sums of rows in WIDTH tiles each, the tile's number above the row's, so that tiles come together as lanes do.
template <int WIDTH, int LAST, int NUMBERS>
__device__ inline double sum_of_tiles(double (&tiles)[NUMBERS]) {
    double number = multi_reduce<NUMBERS, WARP / 2, LAST>(tiles);
#pragma unroll
    for (int half = WARP / 2; half > WARP / 2 / WIDTH; half /= 2) number += __shfl_xor_sync(ALL, number, half);
    return number;
}

}  // namespace tcu::warp
