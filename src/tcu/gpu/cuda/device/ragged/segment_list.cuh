// Ragged segments: the arguments of their kernels, and what happens to those that are too long for one warp.  These
// go to the work queue, either before all sums (list_segments.cu) or when a warp comes to them.

#pragma once

#include "device/finish/store.cuh"
#include "device/grid/programmatic_launch.cuh"
#include "device/ragged/work_queue.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::ragged {

#include "generated/segments/Segments.inc"

__device__ inline double not_a_number() { return __longlong_as_double(0x7fffffffffffffff); }

__device__ __noinline__ void store_any(const Segments& p, i64 segment, double number, u32 length) {
    if (p.mean) number /= length;
    const finish::Target target = static_cast<finish::Target>(p.target);
    finish::store_rounded(finish::place(p.out, segment, target), number, target);
}

// A segment's begin and end.  Beyond the last segment, an empty one.
__device__ inline void look_at(const Segments& p, i64 segment, i64& begin, i64& end) {
    begin = end = 0;
    if (segment < p.segments) begin = p.offsets[segment], end = p.offsets[segment + 1];
}

// Whether all lanes have valid segments of the array.
__device__ inline bool are_segments(const Segments& p, i64 begin, i64 end) {
    return __all_sync(ALL, begin >= 0 && end >= begin && end <= p.n);
}

// For lanes that ask: whether the lane's segment is long and list_segments.cu has put it on the queue.  That kernel
// looks at 32 segments at a time, and lists the long ones of them if all 32 are valid.  So this function repeats its
// test, and nothing needs to be marked.
__device__ __noinline__ bool is_listed(const Segments& p, i64 segment, bool asks) {
    bool found = false;
    if (__any_sync(ALL, p.listed == 0) || __all_sync(ALL, listed_ahead(p.queue) == 0)) return found;
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

// How many items the lane's long segment has; none where `length` is 0.
__device__ inline u32 items_of(const Segments& p, i64 length) {
    return length ? static_cast<u32>(chunks_of(length, p.together)) : 0;
}

// Stores the lane's segment as `items` items of the queue, from `first` on, which have been reserved for it.
__device__ inline void put_all(const WorkQueue& queue, i64 segment, i64 begin, i64 length, u32 first, u32 items) {
    const u32 lane = threadIdx.x % WARP;
    if (items) put(queue, first, {segment, begin, length, first, 0});
#pragma unroll 1
    for (u32 others = __ballot_sync(ALL, items > 1); others; others &= others - 1) {
        const int who = __ffs(others) - 1;
        const u32 its = __shfl_sync(ALL, first, who), count = __shfl_sync(ALL, items, who);
        const WorkItem item = {__shfl_sync(ALL, segment, who), __shfl_sync(ALL, begin, who), __shfl_sync(ALL, length, who),
                           its, 0};
#pragma unroll 1
        for (u32 i = 1 + lane; i < count; i += WARP) put(queue, its + i, item);
    }
}

// Appends the lanes' long segments to the queue; a lane has none where `length` is 0. All lanes reserve their places
// together: one after another, each warp had to wait for the counter as often.
__device__ __noinline__ void append_all(const Segments& p, i64 segment, i64 begin, i64 length) {
    const WorkQueue& queue = p.queue;
    const u32 items = items_of(p, length), behind = warp::inclusive_scan(items);
    u32 place = 0;
    if (threadIdx.x % WARP == WARP - 1) place = reserve(queue, ITEM_COUNT, behind, queue.room);
    place = __shfl_sync(ALL, place, WARP - 1);
    if (__any_sync(ALL, place != NO_ROOM))
        put_all(queue, segment, begin, length, place + behind - items, items);
    else if (items)
        store_any(p, segment, not_a_number(), 0);
}

// The same, without the segments that list_segments.cu has put there.
__device__ inline void append_unlisted(const Segments& p, i64 segment, i64 begin, i64 length) {
    const bool is_known = is_listed(p, segment, length != 0);
    if (__any_sync(ALL, length && !is_known)) append_all(p, segment, begin, is_known ? 0 : length);
}

}  // namespace tcu::ragged
