// Scans of lines in the plan's order.
//
// Compiled as scan/group.cuh says.

#pragma once

#include "device/scan/line_results.cuh"

namespace tcu::scan {

// Which of COUNT lines is the one whose sum the lane has.
template <int COUNT>
__device__ inline int line_of_lane(int lane) {
    return static_cast<int>(__brev(lane) / 2 / ((1u << 31) / COUNT));
}

// What COUNT lines one after another add up to: each of line_of_lane in a lane.
template <int COUNT>
__device__ inline double sums_of_lines(const Group* first) {
    const int lane = threadIdx.x % WARP;
    double sums[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = total(first[i * WARP + (REVERSE ? WARP - 1 - lane : lane)]);
    // The tree over all lanes: while a lane has several lines, it leaves half of them to the other one.
#pragma unroll
    for (int bit = 1, count = COUNT; bit < WARP; bit *= 2) {
        count /= 2;
        if (count == 0) {
            sums[0] += __shfl_xor_sync(ALL, sums[0], bit);
            continue;
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const double low = sums[i], high = sums[count + i];
            sums[i] = (lane & bit ? high : low) + __shfl_xor_sync(ALL, lane & bit ? low : high, bit);
        }
    }
    return sums[0];
}

// The rows of WIDTH groups of a line in shared memory, each lane's group, whose numbers are finite.
template <int WIDTH>
struct PlanRunningSums {
    double sums[GROUP];  // from the group's first number on; of MOVES, moved
    double before;       // of the row's groups before

    __device__ explicit PlanRunningSums(const Group& x) {
        double sum = number_of(x, 0);
        sums[0] = sum;
#pragma unroll
        for (int i = 1; i < GROUP; ++i) sums[i] = sum += number_of(x, i);
        const int lane = threadIdx.x % WARP;
        before = exclusive<WIDTH>(inclusive<WIDTH>(MOVES ? sum * UP : sum, lane), lane);
    }

    // What comes before the group, where `start` comes before the line in its row: not -0, and so no result is.
    __device__ double carry(double start) const { return start + before + 0.0; }
    // The row up to number i of the group, before which it has come to `carry`.
    __device__ double after(int i, double carry) const { return behind(carry, sums[i]); }
};

}  // namespace tcu::scan
