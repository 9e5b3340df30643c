// Four neighbouring numbers of each lane, of 16 or 32 bits, where rows begin at any number.
//
// The lanes of a warp have the numbers of a row one behind the other.  So each of them reads or writes one granule, of four
// numbers as memory has them, and takes the rest from the next lane, or leaves it to that lane: one access in place of four.
// All lanes of a warp call these functions.

#pragma once

#include "device/load/array.cuh"

namespace tcu::load {

// Granules of a row: the numbers that lie in the first one in front of the row.
template <typename Number>
__device__ inline int in_front_of(const Number* row) {
    return static_cast<int>(reinterpret_cast<u64>(row) / sizeof(Number) % 4);
}

template <int WORDS>
__device__ inline void read_granule(const void* from, u32 (&words)[WORDS]) {
    if constexpr (WORDS == 2) {
        const uint2 v = __ldg(static_cast<const uint2*>(from));
        words[0] = v.x, words[1] = v.y;
    } else {
        const uint4 v = __ldg(static_cast<const uint4*>(from));
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    }
}

template <int WORDS>
__device__ inline void write_granule(void* to, const u32 (&words)[WORDS]) {
    if constexpr (WORDS == 2) *static_cast<uint2*>(to) = uint2{words[0], words[1]};
    else *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

// The granules that the numbers from `at` on, a multiple of four, come from: this lane's, and, in the last lane, the next one.  Reads
// granules that hold numbers of the row.
template <typename Number>
__device__ inline void ask_fours(const Number* row, int at, int length, u32 (&words)[sizeof(Number)], u32 (&next)[sizeof(Number)]) {
    const int beside = in_front_of(row);
    const Number* const granule = row + at - beside;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Number)); ++i) words[i] = next[i] = 0;
    if (at - beside < length) read_granule(granule, words);
    if (threadIdx.x % WARP == WARP - 1 && beside && at - beside + 4 < length) read_granule(granule + 4, next);
}

// The numbers from those granules; whatever where the row has none.  A step of its own, as it waits for memory.
template <typename Number>
__device__ inline void join_fours(const Number* row, u32 (&words)[sizeof(Number)], u32 (&next)[sizeof(Number)]) {
    constexpr int WORDS = sizeof(Number);
    const int beside = in_front_of(row);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        const u32 of_next_lane = __shfl_down_sync(ALL, words[i], 1);
        if (threadIdx.x % WARP < WARP - 1) next[i] = of_next_lane;
    }
    if constexpr (WORDS == 2) {
        if (beside & 2) words[0] = words[1], words[1] = next[0], next[0] = next[1];
        if (beside & 1) {
            words[0] = __funnelshift_r(words[0], words[1], 16);
            words[1] = __funnelshift_r(words[1], next[0], 16);
        }
    } else {
        if (beside & 2) words[0] = words[2], words[1] = words[3], words[2] = next[0], words[3] = next[1], next[0] = next[2];
        if (beside & 1) words[0] = words[1], words[1] = words[2], words[2] = words[3], words[3] = next[0];
    }
}

// Writes the numbers from `at` on, a multiple of four, as far as the row has such.
template <typename Number>
__device__ inline void write_fours(Number* row, int at, int length, const u32 (&words)[sizeof(Number)]) {
    constexpr int WORDS = sizeof(Number), PER_WORD = 4 / WORDS;
    const int beside = in_front_of(row), lane = threadIdx.x % WARP;
    const auto write = [&](const u32 (&from)[WORDS], int begin, int low, int high) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i >= low && i < high && begin + i < length)
                row[begin + i] = static_cast<Number>(from[i / PER_WORD] >> 8 * sizeof(Number) * (i % PER_WORD));
    };
    if (lane == WARP - 1) write(words, at, 4 - beside, 4);  // of the next warp's first granule
    u32 before[WORDS], moved[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) before[i] = __shfl_up_sync(ALL, words[i], 1), moved[i] = words[i];
    if constexpr (WORDS == 2) {
        if (beside & 2) moved[1] = moved[0], moved[0] = before[1], before[1] = before[0];
        if (beside & 1) {
            moved[1] = __funnelshift_r(moved[0], moved[1], 16);
            moved[0] = __funnelshift_r(before[1], moved[0], 16);
        }
    } else {
        if (beside & 2) moved[3] = moved[1], moved[2] = moved[0], moved[1] = before[3], moved[0] = before[2], before[3] = before[1];
        if (beside & 1) moved[3] = moved[2], moved[2] = moved[1], moved[1] = moved[0], moved[0] = before[3];
    }
    const int begin = at - beside;
    if ((lane == 0 && beside) || begin + 4 > length)
        write(moved, begin, lane == 0 ? beside : 0, 4);
    else
        write_granule(row + begin, moved);
}

}  // namespace tcu::load
