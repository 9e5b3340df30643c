// The leaves of staged_columns.cu, by MMAs with a matrix of ones.  Of a leaf, the matrix unit gets from shared
// memory, by transposing loads, what each lane holds in mma_columns.cuh, so the sums are the same.

#pragma once

#include "device/finish/store.cuh"
#include "device/mma/ones.cuh"
#include "device/reduce/columns.cuh"

namespace tcu::reduce {

__device__ inline void load_transposed(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(at)
                 : "memory");
}

// A lane has two columns; where HALVES is 1, two columns of each of two units.
struct StagedLeaves {
    static constexpr int ROWS = HALVES ? 16 : 32, UNITS = HALVES ? 16 : 8, TILE_BYTES = ROWS * UNITS * 16;
    static constexpr int PARTS = HALVES ? 2 : 1, NUMBERS = 2 * PARTS;
    double low[NUMBERS] = {}, high[NUMBERS] = {};

    // The offset of a 16-byte piece in a tile: in memory's order but for the last three bits.  Pieces that are copied
    // together lie in one line of 128 bytes, and the eight rows of a matrix lie in different banks.  Every bit of the
    // offset is a sum modulo 2 of bits of row and unit.  So the offset of a sum of indices without carries is the
    // exclusive or of their offsets.
    static __device__ constexpr u32 place_of_piece(int row, int unit) {
        const int b0 = row & 1, b3 = row >> 3 & 1, last = HALVES ? row >> 2 & 1 : row >> 4 & 1;
        const int key = PIECES >= 8 ? b0 | b3 << 1 | last << 2 : PIECES == 4 ? b3 | last << 1 : b3 | last << 2;
        return 16 * (((unit / PIECES * ROWS + row) * PIECES + unit % PIECES) ^ key);
    }

    __device__ void add(u32 tile) {
        const int lane = threadIdx.x % WARP, matrix = lane / 8, k = lane % 8;
        const int row = HALVES ? k % 2 | k / 2 % 2 * 8 | k / 4 * 4 | matrix % 2 * 2
                               : k % 2 | k / 2 * 8 | matrix / 2 * 2 | matrix % 2 * 4;
        const u32 place = place_of_piece(row, HALVES ? matrix / 2 : 0);
        float sums[2][NUMBERS];  // of the first and the second pair of every four rows
#pragma unroll 2
        for (int c = 0; c < 8; ++c) {
            u32 m[4];
            load_transposed(m, tile + (place ^ place_of_piece(0, PARTS * c)));
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
                mma::multiply(d, mma::ONES, mma::ONES, HALVES ? m[2 * part] : m[0], HALVES ? 0 : m[1]);
                mma::multiply(e, mma::ONES, mma::ONES, HALVES ? m[2 * part + 1] : m[2], HALVES ? 0 : m[3]);
                if (c > 0 && lane / 4 != c) continue;
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    sums[0][2 * part + n] = d[n];
                    sums[1][2 * part + n] = e[n];
                }
            }
        }
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            low[n] += sums[0][n];
            high[n] += sums[1][n];
        }
    }

    __device__ void sums(double (&v)[NUMBERS]) const {
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) v[n] = low[n] + high[n];
    }

    // Stores two neighbouring results at once where their addresses allow it.
    static __device__ void store(const Columns& p, u32 units, double (&v)[NUMBERS]) {
        const finish::Target target = static_cast<finish::Target>(p.target);
        const int lane = threadIdx.x % WARP;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const u32 unit = units + lane / 4 * PARTS + part, outer = outer_of(p, unit);
            if (unit >= p.units) continue;
            const i64 column = static_cast<i64>(unit - outer * p.pieces) * PER_LOAD + lane % 4 * 2;
            const i64 result = static_cast<i64>(outer) * p.inner + column;
            double a = v[2 * part], b = v[2 * part + 1];
            if (p.divisor != 1) a /= p.divisor, b /= p.divisor;
            void* const at = finish::place(p.out, result, target);
            if (target == finish::TO_BINARY32 && column + 1 < p.inner && reinterpret_cast<u64>(at) % 8 == 0) {
                const uint2 both = {finish::binary32_of(a), finish::binary32_of(b)};
                *static_cast<uint2*>(at) = both;
            } else {
                if (column < p.inner) finish::store_rounded(at, a, target);
                if (column + 1 < p.inner) finish::store_rounded(finish::place(p.out, result + 1, target), b, target);
            }
        }
    }
};

}  // namespace tcu::reduce
