// Scans of binary16, whose sums are exact in binary64 up to 2^13 numbers: each is a multiple of 2^-24 and
// below 2^16.  Whatever adds them up has the bits of the plan; only where the carry comes in is its order followed.
//
// Compiled as scan/group.cuh says.

#pragma once

#include "device/scan/line_results.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::scan {

static_assert(ELEMENT == BINARY16, "other sums would need the plan's order");

// The lower number of a word is converted, the higher one moved (scan/group.cuh): one way alone keeps other units idle.
__device__ inline double lower(u32 word) {
    float v;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(v) : "r"(word));
    return v;
}

// Times 2^-1008.
__device__ inline double higher(u32 word) { return __hiloint2double(static_cast<int>(word) >> DOWN & BITS, 0); }

// Which of COUNT lines is the one whose sum the lane has.
template <int COUNT>
__device__ inline int line_of_lane(int lane) {
    return lane / (WARP / COUNT);
}

// What COUNT lines one after another add up to, in all lanes of theirs: each is added up by 32 / COUNT of them.
template <int COUNT>
__device__ inline double sums_of_lines(const Group* first) {
    constexpr int LANES = WARP / COUNT, GRANULES = 2 * WARP / LANES;  // of a line, and of a lane
    const int lane = threadIdx.x % WARP;
    const uint4* const granules = first[lane / LANES * WARP].words + lane % LANES;
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
            high[w % 2] += higher(x.word[w]);
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

// The rows of WIDTH groups of a line in shared memory, each lane's group, whose numbers are finite.
//
// Half of the lanes' accesses wait for the other half's banks; to take turns, as in scan.cu, costs more.
template <int WIDTH>
struct ExactRunningSums {
    double sums[GROUP];  // from the group's first number on
    double before;       // of the row's groups before
    double all;          // the row up to this group's end; in the last lane: of the line's last row

    __device__ explicit ExactRunningSums(const Group& x) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            const int place = REVERSE ? GROUP - 1 - i : i;
            const u32 word = x.word[place / 2];
            sum = place % 2 ? fma(higher(word), UP, sum) : sum + lower(word);
            sums[i] = sum;
        }
        all = warp::inclusive_scan<WIDTH>(sum);
        before = all - sum;
    }

    // What comes before the group, where `start` comes before the line in its row.
    __device__ double carry(double start) const { return start + before; }
    // The row up to number i of the group, before which it has come to `carry`.
    __device__ double after(int i, double carry) const { return carry + sums[i]; }
};

}  // namespace tcu::scan
