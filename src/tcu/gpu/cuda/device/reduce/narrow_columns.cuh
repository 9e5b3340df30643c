// The leaves of columns.cu for 16-bit numbers: which rows a lane reads.  How they are added up, SUMS says
// (reduce/mma_columns.cuh, reduce/near_columns.cuh).
//
// Compiled as columns.cu says.

#pragma once

#include "device/reduce/columns.cuh"

namespace tcu::reduce {

constexpr int DEPTH = 8;  // rows of a leaf that a lane has

// Four lanes have a leaf of 32 rows, for the columns of a unit.  Where HALVES is 1, two lanes have one of 16 rows.
template <typename SUMS>
struct NarrowLeaves : SUMS {
    static constexpr int UNIT = COLUMNS, WITHIN = 0;

    typedef load::Granules Asked[COLUMNS];

    static __device__ constexpr int level_of_lane(int k) { return k; }

    static __device__ load::Granules ask_row(const Code* at, int columns) {
#if GRAIN == 16
        return load::ask(at, columns, 0);
#else
        u32 first[2] = {}, second[2] = {};
        read_if(columns > 0, at, first);
        read_if(columns > PER_LOAD / 2, at + PER_LOAD / 2, second);
        load::Granules g;
        g.first = make_uint4(first[0], first[1], second[0], second[1]);
        return g;
#endif
    }

    // WHOLE: with NARROW, all numbers are there.
    template <bool WHOLE = false>
    static __device__ void ask_for(const ChunkColumns& x, int row, Asked& asked) {
        row += SUMS::first();
#if !NARROW
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {  // row by row
            const int i = k / 4 + k % 4 * 2;
            asked[i] = ask_row(at + SUMS::row_of(i) * x.stride, row + SUMS::row_of(i) < x.rows ? x.columns : 0);
        }
#else
        const int length = x.columns > 0 ? x.rows * COLUMNS : 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            const int offset = row * COLUMNS + i * PER_LOAD;
            if (WHOLE) asked[i].first = __ldg(reinterpret_cast<const uint4*>(x.data + offset));
            else asked[i] = load::ask<false, true>(x.data, length, offset);
        }
#endif
    }

    // `then` is called as soon as the numbers that were asked for are no longer needed.
    template <bool WHOLE = false, typename Then>
    __device__ void add(const ChunkColumns& x, int row, const Asked& asked, const Then& then) {
        row += SUMS::first();
        Vector v[COLUMNS];  // number c of row i is number i * COLUMNS + c
#if !NARROW
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) v[i] = load::assemble(asked[i], at + SUMS::row_of(i) * x.stride, PER_LOAD, 0);
#else
        const int length = x.columns > 0 ? x.rows * COLUMNS : 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            if (WHOLE) v[i].words = asked[i].first;
            else v[i] = load::assemble(asked[i], x.data, length, row * COLUMNS + i * PER_LOAD);
        }
#endif
        SUMS::take(v, then);
    }

    __device__ void add(const Columns& p, const ChunkColumns& x, int row) {
        const int period = static_cast<int>(p.period);
#if NARROW && LAYOUT == ALIGNED
        const bool whole = x.columns > 0 && row + (TURNS - 1) * period + SUMS::first() + DEPTH <= x.rows;
        if (__all_sync(ALL, whole)) add_turns<true>(x, row, period);
        else
#endif
            add_turns<false>(x, row, period);
    }

    template <bool WHOLE>
    __device__ void add_turns(const ChunkColumns& x, int row, int period) {
        Asked asked[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; ++i) ask_for<WHOLE>(x, row + i * period, asked[i]);
#pragma unroll
        for (int i = 0; i < TURNS; ++i) add<WHOLE>(x, row + i * period, asked[i], [] {});
    }
};

}  // namespace tcu::reduce
