// The leaves of columns.cu for numbers of 32 and 64 bits, which lanes add up by themselves.
//
// Compiled as columns.cu says.

#pragma once

#include "device/reduce/columns.cuh"

namespace tcu::reduce {

// Whether the two lanes that share the first level split the two columns that both have read.  Then one word of each
// leaf goes from lane to lane in place of four, and each lane has half of what follows.
constexpr bool SPLIT = COLUMNS == 2 && LOW > 0 && TURNS == 1 && !LOOPS;

// A lane has several neighbouring columns, or a leaf of them, and several leaves at once.
struct LaneLeaves {
    static constexpr int UNIT = COLUMNS, LANES = 1, NUMBERS = SPLIT ? 1 : COLUMNS;
    static constexpr int WITHIN = LEVELS < MOST_WITHIN ? LEVELS : MOST_WITHIN, COUNT = 1 << WITHIN;
    double leaf[COUNT][NUMBERS] = {};

    union Piece {
        u32 words[COLUMNS * sizeof(Code) / 4];
        Code codes[COLUMNS];
    };

    // The level of the tree that bit k of the lane's number stands for: lanes share the first LOW levels; then come
    // the lane's own leaves; then the other levels that lanes share.
    static __device__ constexpr int level_of_lane(int k) { return k < LOW ? k : k + WITHIN; }

    __device__ void add(const Columns& p, const ChunkColumns& x, int row) {
        Piece pieces[TURNS][COUNT] = {};
        const int period = static_cast<int>(p.period);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) ask(p, x, row + turn * period, pieces[turn]);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
#pragma unroll
                for (int c = 0; c < NUMBERS; ++c) {
                    const Piece& piece = pieces[turn][i];
                    const double number = SPLIT ? own_of_two(piece) : to_binary64(piece.codes[c]);
                    leaf[i][c] = LOOPS || turn > 0 ? leaf[i][c] + number : number;
                }
    }

    // The sum of both lanes' numbers in the column that is this lane's.
    static __device__ double own_of_two(const Piece& piece) {
        const Code first = piece.codes[0], second = piece.codes[COLUMNS - 1];
        const bool is_second = column() != 0;
        const Code mine = is_second ? second : first, other = is_second ? first : second;
        return to_binary64(mine) + to_binary64(__shfl_xor_sync(ALL, other, 1));
    }

    static __device__ void ask(const Columns& p, const ChunkColumns& x, int row, Piece (&pieces)[COUNT]) {
        const Code* at = x.data + row * x.stride;
        int rows = x.rows;
        if constexpr (UNEVEN) {
            const int period = static_cast<int>(p.period);
            // Rows beyond are a leaf of the next turn, for a warp that the plan does not have.
            rows = min(rows, (row / period + 1) * period);
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {  // in the order of a Gray code: each leaf is one level away from the one before
            const int gray = i ^ i >> 1;
            read_if(row < rows && x.columns > 0, at, pieces[gray].words);
#pragma unroll
            for (int k = 0; k < WITHIN; ++k) {
                if ((i + 1) % (2 << k) != 1 << k) continue;
                const int step = gray >> k & 1 ? -p.distance[LOW + k] : p.distance[LOW + k];
                row += step;
                at += step * x.stride;
            }
        }
    }

    __device__ void sums(double (&v)[NUMBERS]) {
#pragma unroll
        for (int c = 0; c < NUMBERS; ++c) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) leaf[i][c] = across_lanes<SPLIT, LOW>(leaf[i][c]);
#pragma unroll
            for (int step = 1; step < COUNT; step *= 2)
#pragma unroll
                for (int i = 0; i < COUNT; i += 2 * step) leaf[i][c] += leaf[i + step][c];
            v[c] = across_lanes<LOW, SPREAD>(leaf[0][c]);
        }
    }

    static __device__ int unit() { return threadIdx.x % WARP; }

    // For stores, the lanes' numbers n are neighbouring columns.  They are numbers of lane owner(n), which holds
    // COLUMNS columns, or shares them with the next lane.
    static __device__ int owner(int n) {
        const int lane = threadIdx.x % WARP;
        return NUMBERS == 1 ? lane - column() : (n * WARP + lane) / COLUMNS;
    }
    static __device__ int column(int = 0) { return threadIdx.x % COLUMNS; }
    static __device__ void arrange(double (&v)[NUMBERS]) {
        if constexpr (NUMBERS > 1) {
            double own[NUMBERS];
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
#pragma unroll
                for (int c = 0; c < NUMBERS; ++c) {
                    const double number = __shfl_sync(ALL, v[c], owner(n));
                    if (c == 0 || column() == c) own[n] = number;
                }
            }
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) v[n] = own[n];
        }
    }
};

}  // namespace tcu::reduce
