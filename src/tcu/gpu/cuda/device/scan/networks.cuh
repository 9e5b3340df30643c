// The networks of a plan for threads that go down columns, a turn of groups at a time.
//
// Compiled with ELEMENT and LEVELS, the networks of the plan; without any, there is nothing here.

#pragma once

#include "device/types/element.cuh"

namespace tcu::scan {

#if LEVELS
// The networks of the plan, of UNIT columns.  The lowest HEIGHT heights are added up by others: 2^HEIGHT groups make a
// turn.  All lanes are at the same places, so that these are branches: as choices, networks took 1,000 of the 1,650
// instructions of a group of four columns of binary16.  A sum that begins with +0 may differ from the plan's in the sign
// of a zero, which a carry has not.
template <int UNIT, int HEIGHT>
struct Networks {
    double sums[LEVELS][5][UNIT] = {};  // of the last block of 2^height totals; where sums are exact, of all of the run
    double above[UNIT] = {};            // what comes before the present run, of all levels but the first

    // What comes before a group, of which `carry` lies in the same turn; never -0.
    __device__ void before(u32 turn, double (&carry)[UNIT]) const {
        add_before<0>(turn % radix(0), carry);
#pragma unroll
        for (int c = 0; c < UNIT; ++c) carry[c] = above[c] + carry[c];
    }

    // What `before` adds, for other threads, which do the same with `before_by`: of each column so many numbers.
    __device__ static constexpr int pieces() { return 1 + count(0); }
    __device__ double piece(int i, int c) const { return i ? sums[0][i - 1][c] : above[c]; }

    __device__ static double before_by(u32 turn, const double* pieces, int step, double carry) {
#pragma unroll
        for (int height = 0; height < count(0); ++height)
            if (exact(0) || turn % radix(0) >> height & 1) carry = pieces[(1 + height) * step] + carry;
        return pieces[0] + carry;
    }

    // Takes the totals of a turn.
    __device__ void push(u32 turn, double (&totals)[UNIT]) {
        if (!add<0>(turn % radix(0), totals) || LEVELS == 1) return;
        push_run<1>(turn / radix(0), totals);
#pragma unroll
        for (int c = 0; c < UNIT; ++c) above[c] = 0;
        add_above<LEVELS - 1>(turn / radix(0) + 1);
    }

private:
    // Sums of up to 2^13 numbers of binary16 are exact (scan/exact_lines.cuh).
    __device__ static constexpr bool exact(int level) { return ELEMENT == BINARY16 && level < 2; }
    __device__ static constexpr int heights(int level) { return level == 0 ? 5 - HEIGHT : level == 1 ? 4 : 5; }

    // Totals in a run; on the lowest level, turns.
    __device__ static constexpr u32 radix(int level) { return 1 << heights(level); }

    // Sums that make up what comes before a place of a run.
    __device__ static constexpr int count(int level) { return exact(level) && heights(level) ? 1 : heights(level); }

    // Adds what comes before a place of a run to what comes later.
    template <int LEVEL>
    __device__ void add_before(u32 place, double (&later)[UNIT]) const {
#pragma unroll
        for (int height = 0; height < count(LEVEL); ++height)
            if (exact(LEVEL) || place >> height & 1) add_to(later, sums[LEVEL][height]);
    }

    __device__ static void add_to(double (&later)[UNIT], const double (&sum)[UNIT]) {
#pragma unroll
        for (int c = 0; c < UNIT; ++c) later[c] = sum[c] + later[c];
        asm volatile("");  // or the compiler would choose
    }

    // Takes the totals of a place of a run.  Returns whether they are the last, and makes the run's of them.
    template <int LEVEL>
    __device__ bool add(u32 place, double (&totals)[UNIT]) {
        if constexpr (exact(LEVEL)) {
            add_to(totals, sums[LEVEL][0]);
            const bool ends = place == radix(LEVEL) - 1;
#pragma unroll
            for (int c = 0; c < UNIT; ++c) sums[LEVEL][0][c] = ends ? 0 : totals[c];
            return ends;
        } else {
            return add_at<LEVEL, 0>(place, totals);
        }
    }

    template <int LEVEL, int HEIGHT_OF_SUM>
    __device__ bool add_at(u32 place, double (&totals)[UNIT]) {
        if constexpr (HEIGHT_OF_SUM == heights(LEVEL)) {
            return true;
        } else {
            if (place >> HEIGHT_OF_SUM & 1) {
                add_to(totals, sums[LEVEL][HEIGHT_OF_SUM]);
                return add_at<LEVEL, HEIGHT_OF_SUM + 1>(place, totals);
            }
#pragma unroll
            for (int c = 0; c < UNIT; ++c) sums[LEVEL][HEIGHT_OF_SUM][c] = totals[c];
            asm volatile("");
            return false;
        }
    }

    // Takes the totals of a run of the level below.
    template <int LEVEL>
    __device__ void push_run(u32 run, double (&totals)[UNIT]) {
        if constexpr (LEVEL < LEVELS)
            if (add<LEVEL>(run % radix(LEVEL), totals)) push_run<LEVEL + 1>(run / radix(LEVEL), totals);
    }

    // Adds up what comes before a run, of the levels from the highest down to the second.
    template <int LEVEL>
    __device__ void add_above(u32 run) {
        if constexpr (LEVEL > 0) {
            u32 place = run;
#pragma unroll
            for (int level = 1; level < LEVEL; ++level) place /= radix(level);
            double sum[UNIT] = {};
            add_before<LEVEL>(place % radix(LEVEL), sum);
#pragma unroll
            for (int c = 0; c < UNIT; ++c) above[c] += sum[c];
            add_above<LEVEL - 1>(run);
        }
    }
};
#endif

}  // namespace tcu::scan
