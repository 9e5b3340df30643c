// The chunks of long segments, whose running sums a launch of their own finds: who puts them in the queue, and what
// comes before each of them in its segment.
//
// The totals of chunks, of runs of 32 chunks, of 32 of these and so on have slots, level by level.  A segment's slots of
// a level begin at the number of its first item, divided by how many chunks the level's totals have; so they are no
// other's, as a total has a slot only if its chunks are all the segment's.

#pragma once

#include "device/ragged/work_queue.cuh"
#include "device/scan/group.cuh"

namespace tcu::ragged {

constexpr i64 CHUNK = static_cast<i64>(scan::LINES) * WARP * scan::GROUP;  // numbers

__device__ inline u64* slot_of(const WorkQueue& queue, int level, u32 first, u32 at) {
    u64* slots = queue.slots;
    for (int below = 0; below < level; ++below) slots += (queue.room >> 5 * below) + 1;
    return slots + (first >> 5 * level) + at;
}

// Called by a whole warp.
__device__ __noinline__ void put_chunks(const WorkQueue& queue, i64 segment, i64 begin, i64 length) {
    const int lane = threadIdx.x % WARP;
    const u32 chunks = static_cast<u32>((length + CHUNK - 1) / CHUNK);
    WorkItem item = {segment, begin, length, 0, 0};
    if (lane == 0) item.first = reserve(queue, ITEM_COUNT, chunks, queue.room);
    item.first = __shfl_sync(ALL, item.first, 0);
    if (__any_sync(ALL, item.first == NO_ROOM)) return;
#pragma unroll 1
    for (u32 chunk = lane; chunk < chunks; chunk += WARP) {
        queue.items[item.first + chunk] = item;
#pragma unroll 1
        for (int level = 0; level < scan::MAX_LEVELS; ++level) {
            *slot_of(queue, level, item.first, chunk >> 5 * level) = grid::MISSING;
            if ((chunk >> 5 * level & 31) != 31) break;
        }
    }
}

__device__ inline double wait_for(const u64* slot) {
    u64 bits = grid::look(slot);
    while (bits == grid::MISSING) bits = grid::look(slot);
    return __longlong_as_double(bits);
}

__device__ inline void hand_on(const WorkQueue& queue, u32 first, u32 chunk, double total) {
    grid::publish(slot_of(queue, 0, first, chunk), total);
}

// Called by a whole warp: the sum of the segment's chunks before one, whose total is handed on by another warp.  Hands on
// the totals of the runs that end with it.
__device__ inline double before_chunk(const WorkQueue& queue, u32 first, u32 chunk, double total, bool is_last) {
    const int lane = threadIdx.x % WARP;
    double before[scan::MAX_LEVELS] = {};
    bool is_whole = !is_last;  // all chunks of the total are there
#pragma unroll
    for (int level = 0; level < scan::MAX_LEVELS; ++level) {
        const u32 at = chunk >> 5 * level;
        const int place = static_cast<int>(at & 31);
        if (!is_whole && at == 0) break;
        u64* const slots = slot_of(queue, level, first, at - place);
        if (level && is_whole && lane == 0) grid::publish(slots + place, total);
        double known = total;
        if (lane < place) known = wait_for(slots + lane);
        __syncwarp();
        const double sums = scan::inclusive<WARP>(known, lane);
        if (place) before[level] = __shfl_sync(ALL, sums, place - 1);
        total = __shfl_sync(ALL, sums, WARP - 1);
        is_whole = is_whole && place == WARP - 1;
    }
    double sum = 0;
#pragma unroll
    for (int level = scan::MAX_LEVELS - 1; level >= 0; --level) sum += before[level];
    return sum;
}

}  // namespace tcu::ragged
