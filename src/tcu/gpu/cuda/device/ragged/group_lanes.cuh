// Sums of a group of short segments in shared memory, one lane to each segment, for numbers that no MMA takes
// (binary32 and binary64).
//
// With four lanes to a 64-byte chunk (ragged/chunks64.cuh), each lane has little to add up where segments are shorter
// than chunks, and every sum goes through shared memory, which was busy in 91 % of cycles.  A lane alone has the tree
// of its segment in registers.  H200, of memory's speed, by chunks and by lanes: binary32, means of 2, 8, 16 and 24
// numbers 0.249 and 0.508, 0.364 and 0.649, 0.496 and 0.679, 0.600 and 0.707; binary64, of 4 and 12 numbers 1.49 and
// 2.49, 2.60 and 3.12 TB/s.
//
// Four lanes to a segment and eight segments at a time would wait for each other's few numbers: 0.316 for 8 numbers,
// 0.45 for 16.

#pragma once

#include "device/load/bulk_copy.cuh"
#include "device/ragged/chunks64.cuh"
#include "device/warp/warp_reduce.cuh"

namespace tcu::ragged {

constexpr int LANE_CHUNKS64 = 8;  // chunks of a segment that a lane takes, at most: a tile

// Whether no segment has more than `most` numbers.
__device__ inline bool are_within(u32 length, u32 most) { return __all_sync(ALL, length <= most); }

// Whether lanes are the faster way for longer segments, too.  The longest segment decides how long it takes, so it
// must not stand alone.  One segment of 100 numbers of binary32 among 31 others of 2 took 1,776 in place of 1,350 us;
// among others of 20, 475 in place of 495.
__device__ inline bool are_alike(u32 length) {
    return are_within(length, min(static_cast<u32>(LANE_CHUNKS64 * CHUNK64), warp::reduce_add(length) / 4));
}

#if BULK && (ELEMENT == BINARY32 || ELEMENT == BINARY64)

// Adds the sums of a chunk's parts.  The chunk is at that address in shared memory, and `left` of its numbers matter:
// no other is read.  It does so by a mask, of which seven bits at once become predicates: with comparisons, segments
// of 8 numbers on average took 1,042 in place of 1,004 us.
__device__ inline void add_chunk64(u32 address, int left, double (&sums)[PARTS]) {
    const u32 mask = load::lowest(ALL, left);
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        Vector v;
        v.words = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const int number = part * PER_LOAD + i;
            if (!(mask & 1u << number)) continue;
            const u32 at = address + number * static_cast<u32>(sizeof(Code));
#if ELEMENT == BINARY64
            load::load_pair(v.word[2 * i], v.word[2 * i + 1], at);
#else
            v.word[i] = load::load_word(at);
#endif
        }
        sums[part] += sum_of(v);
    }
}

// As sums_of (ragged/group_trees.cuh), for segments all of which `where` holds at once.  FEW: no segment has more
// than half a tile; with this known at run time only, 8 numbers on average took 999 in place of 994 us.
template <bool FEW, typename Where>
__device__ inline double sums_of_lanes(Where& where, u32 from, u32 length, u32 begin, u32 stop) {
    where.begin(begin, stop, ALL);
    const int numbers = static_cast<int>(length);
    const auto have = [&](int chunk64) { return __any_sync(ALL, numbers > chunk64 * CHUNK64); };
    const auto add = [&](int chunk64, double (&sums)[PARTS]) {
        if (have(chunk64)) add_chunk64(where.address(from + chunk64 * CHUNK64 * sizeof(Code)),
                                       numbers - chunk64 * CHUNK64, sums);
    };
    // The plan's tree over 64-byte chunks: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
    double sums[2][PARTS] = {};
    if constexpr (FEW) {
#pragma unroll 1
        for (int first = 0; have(first); first += 2) {
            add(first, sums[0]);
            add(first + 1, sums[1]);
        }
    } else {
#pragma unroll 1
        for (int first = 0; first < 2; ++first) {
            double half[2][PARTS] = {};
            add(first, half[0]);
            add(first + 4, half[0]);
            add(first + 2, half[1]);
            add(first + 6, half[1]);
#pragma unroll
            for (int part = 0; part < PARTS; ++part) sums[0][part] += half[0][part] + half[1][part];
        }
    }
    where.leave();
#pragma unroll
    for (int part = 0; part < PARTS; ++part) sums[0][part] += sums[1][part];
#pragma unroll
    for (int half = PARTS / 2; half > 0; half /= 2)
#pragma unroll
        for (int part = 0; part < half; ++part) sums[0][part] += sums[0][part + half];
    return sums[0][0];
}

#else

// 16-bit numbers are added up by MMAs of 64-byte chunks.
template <bool FEW, typename Where>
double sums_of_lanes(Where&, u32, u32, u32, u32) = delete;

#endif

}  // namespace tcu::ragged
