// Sums of rows that a warp holds side by side, LANES lanes to a row, and of rows cut into tiles.

#pragma once

#include "device/mma/ones.cuh"
#include "device/reduce/lane_sums.cuh"
#include "device/warp/multi_reduce.cuh"

namespace tcu::reduce {

#if MMAS

// The two parts of this lane's row: rows g and g + 8 of the fragment, g = lane / 4.
__device__ inline float2 sum_of(const Vector& x) {
    const int lane = threadIdx.x % WARP, column = lane / 4;
    float d[4] = {0, 0, 0, 0};
    if (LANES >= 4) {
        mma::multiply_by_ones(d, x);
        return make_float2(d[0], d[2]);
    }
    // The four lanes of a fragment's row belong to several rows here.  B has ones where its column and the lane
    // belong to the same row, so each lane finds its sum in its own columns.  The numbers of other rows are
    // multiplied by 0, which turns their inf into NaN. So where a sum is NaN, each row gets an MMA of its own.
    constexpr int PARTS = LANES < 4 ? 4 / LANES : 1;
    mma::multiply(d, x, column * PARTS / 8 == lane % 4 / LANES ? mma::ONES : 0);
    float2 sum = make_float2(d[0], d[2]);
    if (__any_sync(ALL, sum.x + sum.y != sum.x + sum.y)) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const bool mine = lane % 4 / LANES == part;
            Vector masked = x;
            if (!mine) masked.words = make_uint4(0, 0, 0, 0);
            float e[4] = {0, 0, 0, 0};
            mma::multiply_by_ones(e, masked);
            if (mine) sum = make_float2(e[0], e[2]);
        }
    }
    return sum;
}
typedef float2 Part;
__device__ inline double number_of(const Part& v) { return static_cast<double>(v.x) + static_cast<double>(v.y); }
constexpr int LAST = 4;  // the four lanes of a fragment's row have the same sums, so trees over lanes end at bit 4

// The accumulators of one warp of the plan.
struct RowTile {
    double low = 0, high = 0;
    __device__ void add(const Vector& x) {
        const Part sum = sum_of(x);
        low += sum.x;
        high += sum.y;
    }
    __device__ double sum() const { return low + high; }
};

#else

struct RowTile {
    LaneSums sums;
    __device__ void add(const Vector& x) { sums.add(x); }
    __device__ double sum() { return sums.sum(); }
};
typedef double Part;
__device__ inline Part sum_of(const Vector& x) { return sum_of_load(x); }
__device__ inline double number_of(Part v) { return v; }
constexpr int LAST = 1;

#endif

// Several vectors of a lane, each from another row.  The lanes of a row together end up with the sums of all these
// rows.
template <int WIDTH, int NUMBERS>
__device__ inline double sum_of_tiles(double (&tiles)[NUMBERS]) {
    if constexpr (NEAR) return warp::sum_of_tiles_near<WIDTH>(tiles);
    else return warp::sum_of_tiles<WIDTH, LAST>(tiles);
}

template <int PIECES>
struct Pieces {
    // Lanes that have the same sums after an MMA. Each goes on with the sums of another piece.
    static constexpr int ALIKE = LAST == 1 ? 1 : LANES < 4 ? LANES : 4;
    static constexpr int NUMBERS = PIECES / ALIKE;  // of a lane
    static constexpr int STEP = LANES / NUMBERS > ALIKE ? LANES / NUMBERS : ALIKE;  // lanes from one number to the next
    static_assert(PIECES <= LANES, "a number for each lane, at most");
    // Whether one addition in binary32 gives the result.  The plan adds two numbers of binary32 in binary64, which
    // may round, and then rounds to binary32. That has the bits of one addition in binary32, as 53 bits are at least
    // 2 · 24 + 1 (Figueroa, "When is double rounding innocuous?", 1995).
    static constexpr bool PLAIN = LAST == 4 && ALIKE == LANES;

    Part parts[NUMBERS];

    __device__ void take(int piece, const Part& part) {
        if (piece % ALIKE == 0 || threadIdx.x % ALIKE == piece % ALIKE) parts[piece / ALIKE] = part;
    }

    // The piece whose sum this lane has in the end, and whether it is the lane that stores it.
    static __device__ int number() {
        if (NEAR) return threadIdx.x % PIECES;
        return threadIdx.x % LANES / STEP * ALIKE + threadIdx.x % ALIKE;
    }
    static __device__ bool stores() { return NEAR ? threadIdx.x % LANES < PIECES : threadIdx.x % STEP < ALIKE; }

    __device__ double sum() const {
        static_assert(!NEAR || PIECES == (LANES < 4 ? LANES : 4), "as many as the first two steps");
        double v[NUMBERS];
#pragma unroll
        for (int i = 0; i < NUMBERS; ++i) v[i] = number_of(parts[i]);
        if constexpr (NEAR) return warp::multi_reduce_near<LANES>(v);
        else return warp::multi_reduce<NUMBERS, LANES / 2, LAST>(v);
    }
#if MMAS
    __device__ float plain_sum() const { return parts[0].x + parts[0].y + 0.0f; }
#else
    __device__ float plain_sum() const { return 0; }
#endif
};

}  // namespace tcu::reduce
