// Scans of binary16 as binary16, whose sums are exact in binary64 up to 2^13 numbers: each is a multiple of 2^-24 and
// below 2^16.  Whatever adds them up has the bits of the plan; only where the carry comes in is its order followed.
//
// Compiled as groups.cuh says, for ELEMENT and RESULT both binary16.

#pragma once

#include "groups.cuh"
#include "lanes.cuh"

static_assert(ELEMENT == BINARY16 && RESULT == TO_BINARY16, "other sums would need the plan's order");

// The lower number of a word is converted, the higher one moved (groups.cuh): one way alone keeps other units idle.
__device__ inline double lower(u32 word) {
    float v;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(v) : "r"(word));
    return v;
}

// Times 2^-1008.
__device__ inline double higher(u32 word) { return __hiloint2double(static_cast<int>(word) >> DOWN & BITS, 0); }

// As rounded, of two numbers: one word, put together at once.
__device__ inline u32 rounded_pair(double low, double high) {
    u32 word;
    asm("{ .reg .b16 low, high; cvt.rn.f16.f64 low, %1; cvt.rn.f16.f64 high, %2; mov.b32 %0, {low, high}; }"
        : "=r"(word)
        : "d"(low), "d"(high));
    return word;
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
struct Running {
    double sums[GROUP];  // from the group's first number on
    double before;       // of the row's groups before
    double all;          // the row up to this group's end; in the last lane: of the line's last row

    __device__ explicit Running(const Group& x) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            const int place = REVERSE ? GROUP - 1 - i : i;
            const u32 word = x.word[place / 2];
            sum = place % 2 ? fma(higher(word), UP, sum) : sum + lower(word);
            sums[i] = sum;
        }
        all = up_to_lane<WIDTH>(sum);
        before = all - sum;
    }

    // The results, where `start` comes before the line in its row, to the group's place.
    __device__ void put(Group* at, double start) const {
        const double carry = start + before;
        Group results;
#pragma unroll
        for (int i = 0; i < GROUP; i += 2) {
            const double first = EXCLUSIVE ? i ? carry + sums[i - (i > 0)] : carry : carry + sums[i];
            const double second = carry + sums[EXCLUSIVE ? i : i + 1];
            results.word[(REVERSE ? GROUP - 1 - i : i) / 2] = REVERSE ? rounded_pair(second, first) : rounded_pair(first, second);
        }
        *at = results;
    }
};

// Scans a line whatever the numbers are, results in their place; returns the sum of its last row, in the last lane.
// Seldom, and not inline, so that it takes no registers.
template <int WIDTH>
__device__ __noinline__ double scan_any(Group* at, double start) {
    const int lane = threadIdx.x % WARP;
    const Group x = *at;
    const double sum = inclusive<WIDTH>(total(x), lane);
    ResultCode codes[GROUP];
    scanned(x, start + exclusive<WIDTH>(sum, lane), codes);
    for (int i = 0; i < GROUP; ++i) at->codes[i] = codes[i];
    return sum;
}
