// How a warp lists the 64-byte chunks, or the tiles, of a group of segments one after another, so that in every turn
// each lane finds the segment that its own chunk belongs to.

#pragma once

#include "device/ragged/chunks64.cuh"
#include "device/warp/uniform.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

constexpr int CAPACITY = ROOM / PARTS;  // 64-byte chunks whose sums have room in shared memory

// A segment with listed chunks or tiles.  Both fields are less by what was listed before, so that a lane adds the
// number of its own chunk to them.
struct alignas(8) Entry {
    u32 from;  // its first byte, from the base, less the bytes of all chunks listed before
    u32 rest;  // its place among all chunks, less the number of those listed before; or its length, plus their numbers
};

// What a group of segments needs of shared memory.
struct GroupMemory {
    Entry entries[WARP];
    double numbers[CAPACITY * PARTS];
};

// The chunks of a segment, among those whose sums are in shared memory.
struct Chunks64 {
    u32 first, count;
};

// The first byte, and the end, of all segments for which `is_in` holds.
__device__ inline void find_bytes(bool is_in, u32 from, u32 length, u32& begin, u32& end) {
    begin = warp::reduce_min(is_in ? from : ALL);
    end = ~warp::reduce_min(is_in ? ~(from + length * static_cast<u32>(sizeof(Code))) : ALL);
}

// Lists the entries of the lanes that have one.
__device__ inline void list_entries(GroupMemory& shared, bool has_one, const Entry& entry) {
    const u32 those = __ballot_sync(ALL, has_one), lower = (1u << threadIdx.x % WARP) - 1;
    __syncwarp();
    if (has_one) shared.entries[__popc(those & lower)] = entry;
    __syncwarp();
}

// The entry of chunk or tile number `first`, where the lane's segment has numbers `before` to `behind` - 1.
__device__ inline u32 entry_of(u32 first, u32 before, u32 behind) {
    return __popc(__ballot_sync(ALL, before != behind && before <= first)) - 1;
}

// The entry of the lane's 64-byte chunk in a turn.  `entry` goes on to that of the next turn's first chunk.  `ahead`:
// how many chunks after the turn's first one the lane's segment begins, less 1. `below`: a mask of the chunks before
// the lane's.
__device__ inline Entry next_entry(const GroupMemory& shared, u32& entry, u32 ahead, u32 below) {
    const u32 begins = warp::reduce_or(__funnelshift_lc(0, 1, ahead));
    const Entry mine = shared.entries[entry + __popc(begins & below)];
    entry += __popc(begins);
    return mine;
}

// The number, in a turn, of the 64-byte chunk that this lane gives: those of an MMA follow each other.
__device__ inline u32 chunk64_of_lane(int lane) {
    return warp::opaque(lane % LANES * (WARP / LANES) + lane / LANES);
}

// Goes through what a group has listed, in stretches: what lies on the two sides of a long segment is taken
// separately.  add: called for each stretch, with its first number and its end.
template <typename Where, typename Add>
__device__ inline void for_each_stretch(Where& where, u32 before, u32 behind, u32 from, u32 length, u32 longs, u32 begin,
                                        u32 stop, const Add& add) {
    const u32 all = __shfl_sync(ALL, behind, WARP - 1);
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first != all; first = end) {
        u32 first_byte = begin, end_byte = stop, limit = ALL;
        end = all;
        if (longs) {  // the stretch ends at the next long segment
            if (const u32 next = longs & __ballot_sync(ALL, before > first)) {
                const int who = __ffs(next) - 1;
                end = __shfl_sync(ALL, before, who);
                limit = __shfl_sync(ALL, from, who);
            }
            find_bytes(before != behind && before >= first && behind <= end, from, length, first_byte, end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        add(first, end);
        where.leave();
    }
}

}  // namespace tcu::ragged
