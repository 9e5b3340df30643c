// The leaves of columns.cu for 16-bit numbers, by MMAs with a matrix of ones.
//
// Compiled as columns.cu says.

#pragma once

#include "device/mma/ones.cuh"
#include "device/reduce/narrow_columns.cuh"

namespace tcu::reduce {

// Lane 4g + t holds eight of 32 rows, for the columns of a unit.  There is a unit, or a leaf of one, for each g.  Two
// rows, one above the other, are what lane t of four holds of a row in rows.cu, and so they are operand B. All rows
// of D are alike.  D has one column of each unit in each MMA; of the MMAs for the columns, the lane keeps number g,
// for units 2t and 2t + 1.
struct MmaColumns {
    static constexpr int LANES = HALVES ? 2 : 4;
    static constexpr int PARTS = 4 / LANES, NUMBERS = SPREAD == 0 ? 2 * PARTS : 1;
    double low[2 * PARTS] = {}, high[2 * PARTS] = {};

    static __device__ int group() { return threadIdx.x % WARP / 4; }
    static __device__ int part() { return threadIdx.x % 4 / LANES; }

    // Which row the lane's row number i is, counted from its first one.  NARROW: 8t + i, so that the lane's rows are
    // one piece of memory.  Otherwise lanes 2s and 2s + 1 read neighbouring rows.  Both orders have the same bits: on
    // every architecture, the numbers that an MMA adds at a time come from two lanes, and from rows that differ only
    // in the bits that change places.
#if NARROW
    static __device__ int first() { return threadIdx.x % LANES * DEPTH; }
#else
    static __device__ int first() { return threadIdx.x % LANES / 2 * 16 + threadIdx.x % 2; }
    static __device__ constexpr int row_of(int i) { return i % 2 * 8 + i / 2 * 2; }
#endif

    // `then` is called as soon as the matrix unit has the numbers.
    template <typename Then>
    __device__ void take(const Vector (&v)[COLUMNS], const Then& then) {
        float sums[2][2 * PARTS];  // of each pair of rows in four
#if HALVES
        // The upper rows of A have ones for the lanes of the first unit, the lower rows for those of the second.  The
        // other unit's numbers are multiplied by 0, which turns their inf into NaN. So where a sum is NaN, each unit
        // gets MMAs of its own.
        multiply_columns(v, part() == 0 ? mma::ONES : 0, part() == 1 ? mma::ONES : 0, sums);
        bool nan = false;
#pragma unroll
        for (int n = 0; n < 2 * PARTS; ++n) nan |= sums[0][n] + sums[1][n] != sums[0][n] + sums[1][n];
        if (__any_sync(ALL, nan)) {
#pragma unroll 1
            for (int only = 0; only < PARTS; ++only) {
                Vector masked[COLUMNS];
#pragma unroll
                for (int i = 0; i < COLUMNS; ++i) masked[i].words = part() == only ? v[i].words : make_uint4(0, 0, 0, 0);
                float own[2][2 * PARTS];
                multiply_columns(masked, mma::ONES, mma::ONES, own);
#pragma unroll
                for (int n = 0; n < 2 * PARTS; ++n)
                    if (n / 2 == only) sums[0][n] = own[0][n], sums[1][n] = own[1][n];
            }
        }
#else
        multiply_columns(v, mma::ONES, mma::ONES, sums);
#endif
        then();
#pragma unroll
        for (int n = 0; n < 2 * PARTS; ++n) {
            low[n] += sums[0][n];
            high[n] += sums[1][n];
        }
    }

    // MMAs with an A whose upper rows consist of one word and whose lower rows of another.  Returns this lane's part
    // of D, from the rows of both where there are two parts.
    static __device__ void multiply_columns(const Vector (&v)[COLUMNS], u32 upper, u32 lower, float (&sums)[2][2 * PARTS]) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const auto pair = [&](int i) {
                const int first = i * COLUMNS + c, second = first + COLUMNS;
                const u32 selector = (first % 2 ? 0x32 : 0x10) | (second % 2 ? 0x7600 : 0x5400);
                return __byte_perm(v[first / 8].word[first / 2 % 4], v[second / 8].word[second / 2 % 4], selector);
            };
            float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
            mma::multiply(d, upper, lower, pair(0), pair(4));
            mma::multiply(e, upper, lower, pair(2), pair(6));
            if (c > 0 && group() != c) continue;
#pragma unroll
            for (int n = 0; n < 2 * PARTS; ++n) {
                sums[0][n] = d[n];
                sums[1][n] = e[n];
            }
        }
    }

    __device__ void sums(double (&v)[NUMBERS]) const {
        if constexpr (SPREAD == 0) {
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) v[n] = low[n] + high[n];
        } else {
            v[0] = across_lanes<0, SPREAD - 1>(low[0] + high[0] + (low[1] + high[1]));
        }
    }

    // The units are numbered such that the lanes store neighbours at a time: units in even columns of D come before
    // those in odd columns.  Leaves of one unit are neighbours.
    static __device__ int unit() { return SPREAD == 0 ? part() * 8 + group() % 2 * 4 + group() / 2 : group(); }
    // The unit or leaf, of the warp's, that number n is the sum of, and its column in the unit.
    static __device__ int owner(int n) { return SPREAD == 0 ? n * 4 + threadIdx.x % 4 : threadIdx.x % 4 * 2; }
    static __device__ int column(int) { return group(); }
    static __device__ void arrange(double (&)[NUMBERS]) {}
};

typedef NarrowLeaves<MmaColumns> MmaLeaves;

}  // namespace tcu::reduce
