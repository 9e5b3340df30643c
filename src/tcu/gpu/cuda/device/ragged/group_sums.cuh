// Sums of a group of segments, one in each lane of a warp.
//
// All segments of a group are cut into chunks of 64 bytes (4 · 16). A warp takes 32 chunks at a time, wherever they
// lie, eight to an MMA. Either the whole chunks come first, of which nothing must be masked, and then the partial
// chunks at the segments' ends; or all come in order.
//
// The chunks' sums meet in shared memory.  There the plan's tree of tiles (8 chunks each) adds them up; or, where
// sums are exact, they are added up one after another, as many at a time as have room.  Exact sums of long segments
// are added up in each turn, and no chunk's sum is kept.  Numbers that no MMA takes are read by whole tiles where
// segments are long; where they are short, each segment has one lane.  All other numbers of the plan are zeros, which
// change no sum.
//
// Compiled with ELEMENT (LAYOUT is not looked at), and
//   WITH_RESTS 1: a segment's partial chunk is taken together with its whole ones
//   ROOM       numbers of a warp in shared memory; 1, and not used, where sums are added up in each turn

#pragma once

#include "device/ragged/group_exact.cuh"
#include "device/ragged/group_lanes.cuh"
#include "device/ragged/group_trees.cuh"

namespace tcu::ragged {

static_assert(IS_EXACT || CAPACITY >= 8 * TILES, "a segment has room");
static_assert(PARTS == 1 || ROOM >= TILES * WARP + TILES_AT_ONCE, "tiles of all segments have room, and some behind them");

// Where a warp finds the 64-byte chunks of its segments: this one reads them from memory.
template <typename Source>
struct Outside {
    const char* base;
    static constexpr bool IN_RING = false;
    __device__ void begin(u32, u32, u32) const {}
    __device__ void need(u32) const {}
    __device__ void need(u32, u32) const {}
    __device__ void leave() const {}
    // Stores the sums of the lanes' chunks (ragged/chunks64.cuh). Lanes without a chunk, whose `to` is negative, read
    // where others may.
    template <bool WHOLE>
    __device__ void put(u32 at, int left, double* numbers, int to, int chunks64) const {
        const Source source(base, threadIdx.x % LANES);
        put_chunks64<WHOLE>(source, to < 0 ? 0 : at, to < 0 ? 0 : left, numbers, to, chunks64);
    }
    // As sum_tiles (ragged/tiles.cuh).
    template <bool WHOLE, int COUNT>
    __device__ void put_tiles(u32 at, int left, int step, double (&sums)[COUNT]) const {
        sum_tiles<WHOLE>(Source(base, 0), at, left, step, sums);
    }
};

// As sums_of (ragged/group_trees.cuh): chooses the way that suits the group.
template <int SEGMENTS, bool JOINED, typename Where>
__device__ inline double sums_of_group(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop,
                                       GroupMemory& shared) {
    if constexpr (TURN_BY_TURN)
        return sums_of_turns(where, from, length, longs, begin, stop, shared);
    else if constexpr (IS_EXACT)
        return exact_sums_of(where, from, length, longs, begin, stop, shared);
    else {
        if constexpr (Where::IN_RING && PARTS > 1 && !JOINED)
            if (!longs && where.holds(begin, stop)) {
                if (are_within(length, LANE_CHUNKS64 / 2 * CHUNK64)) return sums_of_lanes<true>(where, from, length,
                                                                                                begin, stop);
                if (are_alike(length)) return sums_of_lanes<false>(where, from, length, begin, stop);
            }
        if constexpr (JOINED && PARTS > 1)
            if (__any_sync(ALL, warp::reduce_add(length) * sizeof(Code) >= SEGMENTS * TILED))
                return sums_of_tiles(where, from, length, longs, begin, stop, shared);
        return sums_of<SEGMENTS, JOINED>(where, from, length, longs, begin, stop, shared);
    }
}

}  // namespace tcu::ragged
