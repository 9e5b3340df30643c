// Scans of lines of binary16. Sums of up to 2^13 numbers of binary16 are exact in binary64: each number is a multiple
// of 2^-24 and below 2^16. So whatever the order of additions is, the bits are the plan's.  Only the addition of the
// carry follows the plan's order.
//
// Compiled as scan/group.cuh says.

#pragma once

#include "device/scan/line_results.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::scan {

static_assert(ELEMENT == BINARY16, "other sums would need the plan's order");

// The lower number of a word is converted, the higher one is moved (types/moved.cuh): with one way alone, the units of
// the other would be idle.
__device__ inline double lower(u32 word) {
    float v;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(v) : "r"(word));
    return v;
}

// Which of COUNT lines the lane has the sum of, after sums_of_lines.
template <int COUNT>
__device__ inline int line_of_lane(int lane) {
    return lane / (WARP / COUNT);
}

// The sums of COUNT consecutive lines.  32 / COUNT lanes add up a line, and all of them have its sum.
template <int COUNT, int BYTES>
__device__ inline double sums_of_lines(const char* first) {
    static_assert(BYTES == 16, "whole granules are read");
    constexpr int LANES = WARP / COUNT, GRANULES = 2 * WARP / LANES;  // of a line, and of a lane
    const int lane = threadIdx.x % WARP;
    const uint4* const granules = reinterpret_cast<const Group*>(first)[lane / LANES * WARP].words + lane % LANES;
    double low[2] = {}, high[2] = {};
    u32 found = 0;
#pragma unroll
    for (int i = 0; i < GRANULES; ++i) {
        Vector x;
        x.words = granules[i * LANES];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(found) : "r"(x.word[w]), "r"(0));
            low[w % 2] += lower(x.word[w]);
            high[w % 2] += moved(x.word[w], true);
        }
    }
    double sum = fma(high[0] + high[1], UP, low[0] + low[1]);
    if (found & 0x7fff7fff) {  // inf or NaN, which cannot be moved
        sum = 0;
        for (int i = 0; i < GRANULES * PER_LOAD; ++i)
            sum += to_binary64(reinterpret_cast<const Code*>(granules + i / PER_LOAD * LANES)[i % PER_LOAD]);
    }
#pragma unroll
    for (int bit = 1; bit < LANES; bit *= 2) sum += __shfl_xor_sync(ALL, sum, bit);
    return sum;
}

// The running sums of each lane's group, whose numbers are finite.  The line, in shared memory, holds rows of WIDTH
// groups.
//
// Half of the lanes' accesses wait for the banks of the other half.  To take turns, as in scan.cu, costs more.
template <int WIDTH>
struct ExactRunningSums {
    double sums[GROUP];  // from the group's first number on
    double before;       // the sum of the row's groups before
    double all;          // the sum of the row up to this group's end; in the last lane: of the line's last row

    __device__ explicit ExactRunningSums(const Group& x) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            const int place = REVERSE ? GROUP - 1 - i : i;
            const u32 word = x.word[place / 2];
            sum = place % 2 ? fma(moved(word, true), UP, sum) : sum + lower(word);
            sums[i] = sum;
        }
        all = warp::inclusive_scan<WIDTH>(sum);
        before = all - sum;
    }

    // The sum of the row before the group, where `start` is the sum before the line.
    __device__ double carry(double start) const { return start + before; }
    // The sum of the row up to number i of the group, where `carry` is the sum before the group.
    __device__ double after(int i, double carry) const { return carry + sums[i]; }
};

}  // namespace tcu::scan
