// The leaves of columns.cu for 16-bit numbers, by binary64 additions.
//
// Compiled as columns.cu says.

#pragma once

#include "device/reduce/lane_sums.cuh"
#include "device/reduce/narrow_columns.cuh"

namespace tcu::reduce {

// A lane has the eight rows of a load of the plan, and a sum for each column.  The lanes of a leaf share these sums
// when they come together: each goes on with some of the columns.
struct NearColumns {
    static constexpr int LANES = HALVES ? 2 : 4, WIDTH = warp::power_of_two(COLUMNS);
    static constexpr int NUMBERS = WIDTH > LANES ? WIDTH / LANES : 1;
    double own[WIDTH] = {};

    static __device__ int first() { return threadIdx.x % LANES * DEPTH; }
    static __device__ constexpr int row_of(int i) { return i; }

    template <typename Then>
    __device__ void take(const Vector (&v)[COLUMNS], const Then& then) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            own[c] += sum_of_load([&](int i) { return v[(i * COLUMNS + c) / PER_LOAD].codes[(i * COLUMNS + c) % PER_LOAD]; });
        then();
    }

    __device__ void sums(double (&v)[NUMBERS]) {
        warp::reduce_near<LANES>(own);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            v[n] = own[n];
#pragma unroll
            for (int k = 0; k < SPREAD; ++k) v[n] += __shfl_xor_sync(ALL, v[n], LANES << k);
        }
    }

    static __device__ int unit() { return threadIdx.x % WARP / LANES; }
    static __device__ int owner(int) { return unit(); }
    // The column of the unit that number n is the sum of; none, where another lane has the same.
    static __device__ int column(int n) {
        constexpr int ALIKE = LANES > WIDTH ? LANES / WIDTH : 1;
        const int lane = threadIdx.x % LANES;
        return lane % ALIKE == 0 ? lane / ALIKE * NUMBERS + n : COLUMNS;
    }
    static __device__ void arrange(double (&)[NUMBERS]) {}
};

typedef NarrowLeaves<NearColumns> NearLeaves;

}  // namespace tcu::reduce
