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

// One step of a tree over lanes that differ in bit HALF: a lane keeps one half of its `count` numbers and hands over the
// other, if it has several.
template <int HALF, int NUMBERS>
__device__ inline void halve(double (&v)[NUMBERS], int& count) {
    const bool upper = threadIdx.x & HALF, alone = count == 1;
    count = alone ? 1 : count / 2;
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) {
        if (i >= count) continue;
        const double kept = !alone && upper ? v[i + count] : v[i], given = alone || upper ? v[i] : v[i + count];
        v[i] = kept + __shfl_xor_sync(ALL, given, HALF);
    }
}

// Sums of NUMBERS numbers over groups of GROUP lanes, by a tree that goes over neighbours first: lane bits 2 and 1, then
// GROUP / 2 down to 4.
template <int GROUP, int NUMBERS>
__device__ inline void reduce_near(double (&v)[NUMBERS]) {
    int count = NUMBERS;
    if constexpr (GROUP >= 4) halve<2>(v, count);
    if constexpr (GROUP >= 2) halve<1>(v, count);
    if constexpr (GROUP >= 32) halve<16>(v, count);
    if constexpr (GROUP >= 16) halve<8>(v, count);
    if constexpr (GROUP >= 8) halve<4>(v, count);
}
template <int GROUP, int NUMBERS>
__device__ inline double multi_reduce_near(double (&v)[NUMBERS]) {
    reduce_near<GROUP>(v);
    return v[0];
}
template <int GROUP>
__device__ inline double multi_reduce_near(double number) {
    double v[1] = {number};
    return multi_reduce_near<GROUP>(v);
}

// As sum_of_tiles by such a tree.  The first lanes have the sums of the rows.
template <int WIDTH, int NUMBERS>
__device__ inline double sum_of_tiles_near(double (&tiles)[NUMBERS]) {
    double number = multi_reduce_near<WARP>(tiles);
    if (WIDTH >= 2) number += __shfl_xor_sync(ALL, number, 2);
    if (WIDTH >= 4) number += __shfl_xor_sync(ALL, number, 1);
    if (WIDTH >= 8) number += __shfl_xor_sync(ALL, number, 16);
    return number;
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
