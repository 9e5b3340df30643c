// What a warp lists of a group of segments: those that have 64-byte chunks, or tiles, one after another, so that each lane finds in
// every turn whose its own is.

#pragma once

#include "device/ragged/chunks64.cuh"
#include "device/warp/uniform.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

constexpr int CAPACITY = ROOM / PARTS;  // 64-byte chunks whose sums are in shared memory

// A segment that has listed 64-byte chunks, or tiles.
struct alignas(8) Entry {
    u32 from;  // bytes from the base, less those of every 64-byte chunk listed before
    u32 rest;  // its place among all 64-byte chunks, less the number of those; or its length and all numbers of each of them
};

// What a group of segments needs.
struct GroupMemory {
    Entry entries[WARP];
    double numbers[CAPACITY * PARTS];
};

// A segment's 64-byte chunks, among those whose numbers are in shared memory.
struct Chunks64 {
    u32 first, count;
};

// Where the bytes of the segments that are in begin and end.
__device__ inline void find_bytes(bool is_in, u32 from, u32 length, u32& begin, u32& end) {
    begin = warp::reduce_min(is_in ? from : ALL);
    end = ~warp::reduce_min(is_in ? ~(from + length * static_cast<u32>(sizeof(Code))) : ALL);
}

// Those of the lanes that have one.
__device__ inline void list_entries(GroupMemory& shared, bool has_one, const Entry& entry) {
    const u32 those = __ballot_sync(ALL, has_one), lower = (1u << threadIdx.x % WARP) - 1;
    __syncwarp();
    if (has_one) shared.entries[__popc(those & lower)] = entry;
    __syncwarp();
}

// The entry of what is number `first` of all that is listed, of which the lane's segment has those from `before` up to
// `behind`.
__device__ inline u32 entry_of(u32 first, u32 before, u32 behind) {
    return __popc(__ballot_sync(ALL, before != behind && before <= first)) - 1;
}

// The entry of the lane's 64-byte chunk in a turn; and on to the one that has the next turn's first.  `ahead`: how many 64-byte chunks after
// the turn's first the lane's segment begins, less 1; `below`: the 64-byte chunks before the lane's.
__device__ inline Entry next_entry(const GroupMemory& shared, u32& entry, u32 ahead, u32 below) {
    const u32 begins = warp::reduce_or(__funnelshift_lc(0, 1, ahead));
    const Entry mine = shared.entries[entry + __popc(begins & below)];
    entry += __popc(begins);
    return mine;
}

// Of a turn, this lane's 64-byte chunk: those of an MMA are side by side.
__device__ inline u32 chunk64_of_lane(int lane) {
    return warp::opaque(lane % LANES * (WARP / LANES) + lane / LANES);
}

// Stretches of what a group has listed (entry_of): those on the two sides of a long one are taken one after the other.
// add: a stretch, from its first up to its end.
template <typename Where, typename Add>
__device__ inline void for_each_stretch(Where& where, u32 before, u32 behind, u32 from, u32 length, u32 longs, u32 begin,
                                        u32 stop, const Add& add) {
    const u32 all = __shfl_sync(ALL, behind, WARP - 1);
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first != all; first = end) {
        u32 first_byte = begin, end_byte = stop, limit = ALL;
        end = all;
        if (longs) {  // up to the next of them
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
