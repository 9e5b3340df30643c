// Ragged segments, and what is done with those too long for one warp: they go to a list, ahead of all sums or when a warp
// comes to them.
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#pragma once

#include "device/finish/store.cuh"
#include "device/grid/programmatic_launch.cuh"
#include "device/grid/work_queue.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

struct Segments {
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, one after another
    i64 first;     // warps, the first ones, that have MORE times as many
    i64 most;      // numbers of a segment that is not long (ragged/segment_sums.cuh)
    i64 together;  // of long segments: numbers that a block loads at a time
    i64 listed;    // whether list_segments.cu has been launched ahead
    grid::WorkQueue queue;
};

__device__ inline double not_a_number() { return __longlong_as_double(0x7fffffffffffffff); }

__device__ __noinline__ void store_any(const Segments& p, i64 segment, double number, u32 length) {
    if (p.mean) number /= length;
    const finish::Target target = static_cast<finish::Target>(p.target);
    finish::store_rounded(finish::place(p.out, segment, target), number, target);
}

// Where a segment begins and ends; an empty one behind the last.
__device__ inline void look_at(const Segments& p, i64 segment, i64& begin, i64& end) {
    begin = end = 0;
    if (segment < p.segments) begin = p.offsets[segment], end = p.offsets[segment + 1];
}

// Whether the lanes' are all segments of the array.
__device__ inline bool are_segments(const Segments& p, i64 begin, i64 end) {
    return __all_sync(ALL, begin >= 0 && end >= begin && end <= p.n);
}

// Whether the lane's segment is long and was listed ahead, if it asks.  That is so of all or none of 32: what was listed is
// what this finds, and nobody needs to mark it.
__device__ __noinline__ bool is_listed(const Segments& p, i64 segment, bool asks) {
    bool found = false;
    if (__any_sync(ALL, p.listed == 0) || __all_sync(ALL, grid::listed_ahead(p.queue) == 0)) return found;
#pragma unroll 1
    for (u32 others = __ballot_sync(ALL, asks); __any_sync(ALL, others != 0);) {
        const i64 first = __shfl_sync(ALL, segment, __ffs(others) - 1) / WARP * WARP;
        i64 begin, end;
        look_at(p, first + threadIdx.x % WARP, begin, end);
        const bool is_valid = are_segments(p, begin, end);
        const u32 longs = __ballot_sync(ALL, end - begin > p.most);
        const bool is_here = asks && segment / WARP * WARP == first;
        if (is_here && is_valid) found = longs >> segment % WARP & 1;
        others &= ~__ballot_sync(ALL, is_here);
    }
    return found;
}

// Items of the lane's long segment; none where `length` is 0.
__device__ inline u32 items_of(const Segments& p, i64 length) {
    return length ? static_cast<u32>(chunks_of(length, p.together)) : 0;
}

// The lane's segment, if it is long, on that many items of the list from `first` on, which are its own.
__device__ inline void put_all(const grid::WorkQueue& queue, i64 segment, i64 begin, i64 length, u32 first, u32 items) {
    const u32 lane = threadIdx.x % WARP;
    if (items) grid::put(queue, first, {segment, begin, length, first, 0});
#pragma unroll 1
    for (u32 others = __ballot_sync(ALL, items > 1); others; others &= others - 1) {
        const int who = __ffs(others) - 1;
        const u32 its = __shfl_sync(ALL, first, who), count = __shfl_sync(ALL, items, who);
        const grid::WorkItem item = {__shfl_sync(ALL, segment, who), __shfl_sync(ALL, begin, who), __shfl_sync(ALL, length, who),
                           its, 0};
#pragma unroll 1
        for (u32 i = 1 + lane; i < count; i += WARP) grid::put(queue, its + i, item);
    }
}

// The lanes' long segments, none where `length` is 0, go to the list: one after another, each warp had to wait for the
// counter as often.
__device__ __noinline__ void append_all(const Segments& p, i64 segment, i64 begin, i64 length) {
    const grid::WorkQueue& queue = p.queue;
    const u32 items = items_of(p, length), behind = warp::inclusive_scan(items);
    u32 place = 0;
    if (threadIdx.x % WARP == WARP - 1) place = grid::reserve(queue, grid::ITEM_COUNT, behind, queue.room);
    place = __shfl_sync(ALL, place, WARP - 1);
    if (__any_sync(ALL, place != grid::NO_ROOM))
        put_all(queue, segment, begin, length, place + behind - items, items);
    else if (items)
        store_any(p, segment, not_a_number(), 0);
}

// The same, but for what was listed ahead.
__device__ inline void append_unlisted(const Segments& p, i64 segment, i64 begin, i64 length) {
    const bool is_known = is_listed(p, segment, length != 0);
    if (__any_sync(ALL, length && !is_known)) append_all(p, segment, begin, is_known ? 0 : length);
}

}  // namespace tcu::ragged
