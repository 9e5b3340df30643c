// The leaves of staged_columns.cu, of binary32: each lane reads its column from shared memory, several leaves at once.

#pragma once

#include "columns.cuh"

__device__ inline u32 load_code(u32 at) {
    u32 code;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(code) : "r"(at) : "memory");
    return code;
}

struct Leaves {
    static constexpr int WITHIN = 4, ROWS = 1 << WITHIN, UNITS = 8, TILE_BYTES = ROWS * UNITS * 16, NUMBERS = 1;
    static constexpr int TOGETHER = UNITS;
    double leaf[ROWS] = {};

    // From the first row of a tile to that one, which is the first of a leaf; of numbers without common bits, the sum.
    static __device__ int row_of(const Columns& p, int number) {
        int row = 0;
#pragma unroll
        for (int k = 0; k < WITHIN; ++k)
            if (number >> k & 1) row += p.distance[k];
        return row;
    }

    static __device__ constexpr u32 place_of_piece(int row, int unit) { return 16 * (row * UNITS + unit); }

    __device__ void add(u32 tile) {
        u32 codes[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
            codes[i] = load_code(tile + place_of_piece(i, 0) + sizeof(Code) * (threadIdx.x % WARP));
#pragma unroll
        for (int i = 0; i < ROWS; ++i) leaf[i] += to_binary64(codes[i]);
    }

    __device__ void sums(double (&v)[NUMBERS]) {
#pragma unroll
        for (int step = 1; step < ROWS; step *= 2)
#pragma unroll
            for (int i = 0; i < ROWS; i += 2 * step) leaf[i] += leaf[i + step];
        v[0] = leaf[0];
    }

    static __device__ void store(const Columns& p, u32 units, double (&v)[NUMBERS]) {
        const Target target = static_cast<Target>(p.target);
        const int lane = threadIdx.x % WARP;
        const u32 unit = units + lane / PER_LOAD, outer = p.outer_of(unit);
        const i64 column = static_cast<i64>(unit - outer * p.pieces) * PER_LOAD + lane % PER_LOAD;
        if (unit >= p.units || column >= p.inner) return;
        if (p.divisor != 1) v[0] /= p.divisor;
        store_rounded(place(p.out, blockIdx.y * p.results + outer * p.inner + column, target), v[0], target);
    }
};
