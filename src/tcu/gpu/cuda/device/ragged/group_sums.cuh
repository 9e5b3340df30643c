// Sums of a group of segments by MMAs, those of a warp's lanes.
//
// All segments of a group are cut into 64-byte chunks of 4 · 16 bytes, of which a warp takes 32 at a time wherever they lie,
// eight to an MMA: first the whole ones, of which nothing has to be masked, then what is left of each segment; or all as
// they come.  Their sums come together in shared memory, where they are added up by the plan's tree of tiles (8 64-byte chunks
// each), or, where they are exact, one after another, as many at a time as have room; exact sums of long segments are added
// up turn by turn, and none is kept.  Numbers that no MMA takes come as whole tiles where segments are long, and where they
// are short, a lane has one to itself.  What the plan adds besides is zeros, which change no sum.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT is not looked at), and
//   WITH_RESTS 1: what is left of each segment behind its whole 64-byte chunks is taken with them as it comes
//   ROOM       numbers of a warp in shared memory; 1, which is not used, where sums are added up turn by turn

#pragma once

#include "device/ragged/group_exact.cuh"
#include "device/ragged/group_lanes.cuh"
#include "device/ragged/group_trees.cuh"

namespace tcu::ragged {

static_assert(IS_EXACT || CAPACITY >= 8 * TILES, "a segment has room");
static_assert(PARTS == 1 || ROOM >= TILES * WARP + TILES_AT_ONCE, "tiles of all segments have room, and some behind them");

// Where a warp finds the 64-byte chunks of its segments: in memory.
template <typename Source>
struct Outside {
    const char* base;
    static constexpr bool IN_RING = false;
    __device__ void begin(u32, u32, u32) const {}
    __device__ void need(u32) const {}
    __device__ void need(u32, u32) const {}
    __device__ void leave() const {}
    // The sums of the lanes' 64-byte chunks (ragged/chunks64.cuh); lanes without one, whose sum has no place, read where others may.
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

// As sums_of (ragged/group_trees.cuh), whichever of these the group's sums need.
template <int SEGMENTS, bool JOINED, typename Where>
__device__ inline double sums_of_group(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, GroupMemory& shared) {
    if constexpr (TURN_BY_TURN)
        return sums_of_turns(where, from, length, longs, begin, stop, shared);
    else if constexpr (IS_EXACT)
        return exact_sums_of(where, from, length, longs, begin, stop, shared);
    else {
        if constexpr (Where::IN_RING && PARTS > 1 && !JOINED)
            if (!longs && where.holds(begin, stop)) {
                if (are_within(length, LANE_CHUNKS64 / 2 * CHUNK64)) return sums_of_lanes<true>(where, from, length, begin, stop);
                if (are_alike(length)) return sums_of_lanes<false>(where, from, length, begin, stop);
            }
        if constexpr (JOINED && PARTS > 1)
            if (__any_sync(ALL, warp::reduce_add(length) * sizeof(Code) >= SEGMENTS * TILED))
                return sums_of_tiles(where, from, length, longs, begin, stop, shared);
        return sums_of<SEGMENTS, JOINED>(where, from, length, longs, begin, stop, shared);
    }
}

}  // namespace tcu::ragged
