// Scans of lines whose additions follow the plan's order.
//
// Compiled as scan/group.cuh says.

#pragma once

#include "device/scan/line_results.cuh"

namespace tcu::scan {

// Number i of a group in the order of the scan.  It is converted, which takes two instructions; to move its bits
// (types/moved.cuh) takes three, and inf and NaN need a way of their own.
__device__ inline double converted(const Group& x, int i) {
    if constexpr (ELEMENT != BFLOAT16) return to_binary64(x.at(i));
    const int at = REVERSE ? GROUP - 1 - i : i;
    const u32 word = x.word[at / 2 % 8];
    return __uint_as_float(at % 2 ? word & 0xffff0000 : word << 16);
}

// Which of COUNT lines the lane has the sum of, after sums_of_lines.
template <int COUNT>
__device__ inline int line_of_lane(int lane) {
    return static_cast<int>(__brev(lane) / 2 / ((1u << 31) / COUNT));
}

// The sums of COUNT lines, of each of which a lane has a number.  Each lane has that of line_of_lane.
template <int COUNT>
__device__ inline double tree_of_lines(double (&sums)[COUNT]) {
    const int lane = threadIdx.x % WARP;
    // The tree over all lanes.  While a lane has several lines, it keeps half of them and leaves the other half to
    // its partner.
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

// The sums of COUNT consecutive lines, which begin at a multiple of BYTES bytes.  Each lane has that of line_of_lane.
template <int COUNT, int BYTES>
__device__ inline double sums_of_lines(const char* first) {
    const int lane = threadIdx.x % WARP;
    double sums[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = total(group_at<BYTES>(first + (i * WARP + (REVERSE ? WARP - 1 - lane : lane)) * sizeof(Group)));
    return tree_of_lines(sums);
}

// The running sums inside a group.
struct PlanSums {
    double sums[GROUP];  // from the group's first number on

    __device__ explicit PlanSums(const Group& x) {
        double sum = sums[0] = converted(x, 0);
#pragma unroll
        for (int i = 1; i < GROUP; ++i) sums[i] = sum += converted(x, i);
    }

    __device__ double total() const { return sums[GROUP - 1]; }
    // The sum of the row up to number i of the group, where `carry` is the sum before the group.
    __device__ double after(int i, double carry) const { return carry + sums[i]; }
};

// The running sums of each lane's group.  The line, in shared memory, holds rows of WIDTH
// groups.
template <int WIDTH>
struct PlanRunningSums : PlanSums {
    double before;  // the sum of the row's groups before

    __device__ explicit PlanRunningSums(const Group& x) : PlanSums(x) {
        const int lane = threadIdx.x % WARP;
        before = exclusive<WIDTH>(inclusive<WIDTH>(total(), lane), lane);
    }

    // The sum of the row before the group, where `start` is the sum before the line.  It is never -0, and so no
    // result is.
    __device__ double carry(double start) const { return start + before + 0.0; }
};

}  // namespace tcu::scan
