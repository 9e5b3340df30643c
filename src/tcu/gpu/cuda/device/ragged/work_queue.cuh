// The work queue: the chunks of segments that are too long for one warp, which launches of their own go through.

#pragma once

#include "device/grid/slots.cuh"

namespace tcu::ragged {

#include "generated/segments/WorkItem.inc"

// The host's memory has room for the items of segments that do not overlap (tcu/gpu/segments.py).
#include "generated/segments/WorkQueue.inc"

// The words of the queue's state.
//   ITEM_COUNT    items in the queue
//   TICKETS       items that have been drawn
//   FINISHED      blocks that have nothing more to do
//   SEVERAL       segments of several chunks
//   LISTERS       blocks of list_segments.cu that are done
//   LISTED        1 + the number of items that list_segments.cu has put there; 0 while it still works
//   LATE_TICKETS  the same as TICKETS, for items that were put there later than by list_segments.cu
//   FULL          1 + the number of items that had room; 0 if all had room
enum State { ITEM_COUNT, TICKETS, FINISHED, SEVERAL, LISTERS, LISTED, LATE_TICKETS, FULL, STATES };

constexpr u32 NO_ROOM = ~0u;

__device__ inline u32 load_acquire(const u32* word) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
    return v;
}

__device__ inline void store_release(u32* word, u32 v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(v) : "memory");
}

// Called by a whole warp: waits until list_segments.cu is done, and returns how many items it has put there.
__device__ inline u32 listed_ahead(const WorkQueue& queue) {
    u32 seen = 0;
#pragma unroll 1
    while (__any_sync(ALL, seen == 0)) seen = load_acquire(queue.state + LISTED);
    return seen - 1;
}

// Reserves places, and returns the first; or NO_ROOM, where wrong offsets ask for more places than there are.  After
// a failure every later request fails too, so that what has been given out has no gaps: the counter stays beyond the
// room, and near it.
__device__ inline u32 reserve(const WorkQueue& queue, State counter, u32 places, u32 room) {
    const u32 first = atomicAdd(queue.state + counter, places);
    if (first + static_cast<u64>(places) <= room) return first;
    if (counter == ITEM_COUNT && first <= room) queue.state[FULL] = first + 1;
    atomicMin(queue.state + counter, room + 1);
    return NO_ROOM;
}

// How many items the queue holds.  The caller must have waited for all who put items there.
__device__ inline u32 items_on(const WorkQueue& queue) {
    const volatile u32* const state = queue.state;
    return state[FULL] ? state[FULL] - 1 : state[ITEM_COUNT];
}

// Called by one thread: stores an item, whose chunk is not done yet.
__device__ inline void put(const WorkQueue& queue, u32 number, const WorkItem& item) {
    queue.items[number] = item;
    if (queue.slots) queue.slots[number] = grid::MISSING;
    if (number == item.first) queue.arrived[number] = 0;
}

// Called by a whole warp: appends a segment's chunks.  Returns its number among the segments with several chunks, or
// NO_ROOM.
__device__ __noinline__ u32 append(const WorkQueue& queue, i64 segment, i64 begin, i64 length, i64 chunks) {
    const int lane = threadIdx.x % WARP;
    WorkItem item = {segment, begin, length, 0, 0};
    if (lane == 0) {
        if (chunks > 1) item.place = reserve(queue, SEVERAL, 1, queue.several);
        if (item.place != NO_ROOM) item.first = reserve(queue, ITEM_COUNT, static_cast<u32>(chunks), queue.room);
        if (item.first == NO_ROOM) item.place = NO_ROOM;
    }
    item.first = __shfl_sync(ALL, item.first, 0);
    item.place = __shfl_sync(ALL, item.place, 0);
    if (__any_sync(ALL, item.place == NO_ROOM)) return NO_ROOM;
#pragma unroll 1
    for (i64 chunk = lane; chunk < chunks; chunk += WARP) put(queue, item.first + static_cast<u32>(chunk), item);
    return item.place;
}

// Called by a block that has nothing more to do.  The last block sets the state to zeros again.
__device__ inline void leave(const WorkQueue& queue) {
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(queue.state + FINISHED, 1u) == gridDim.x - 1)
        for (int i = 0; i < STATES; ++i) queue.state[i] = 0;
}

// Runs `work` by all threads of the block for one item after another.  Which block gets which item is left to chance,
// and changes no result.
template <typename Work>
__device__ inline void for_each_item(const WorkQueue& queue, const Work& work) {
    __shared__ u32 next;
    const u32 count = items_on(queue);
    for (u32 number = blockIdx.x; number < count;) {
        u32 ticket = 0;
        if (threadIdx.x == 0) ticket = gridDim.x + atomicAdd(queue.state + TICKETS, 1u);
        work(queue.items[number], number);
        __syncthreads();
        if (threadIdx.x == 0) next = ticket;
        __syncthreads();
        number = next;
    }
    leave(queue);
}

// The same for warps: each takes items by itself.
template <typename Work>
__device__ inline void for_each_item_of_warps(const WorkQueue& queue, const Work& work) {
    const u32 warps = blockDim.x / WARP, count = items_on(queue);
    for (u32 number = blockIdx.x * warps + threadIdx.x / WARP; number < count;) {
        u32 ticket = 0;
        if (threadIdx.x % WARP == 0) ticket = gridDim.x * warps + atomicAdd(queue.state + TICKETS, 1u);
        work(queue.items[number], number);
        number = __shfl_sync(ALL, ticket, 0);
    }
    __syncthreads();
    leave(queue);
}

// Called by all threads of a block that has done one of a segment's chunks: whether it was the last chunk.
__device__ inline bool is_last(const WorkQueue& queue, const WorkItem& item, i64 chunks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(queue.arrived + item.first, 1u) == chunks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

// The same for a warp, without fences: the warp that adds up the slots waits for the numbers themselves.  With fences
// around this, chunks of a power law took 480 in place of 447 us (H200).
__device__ inline bool is_last_for_warp(const WorkQueue& queue, const WorkItem& item, i64 chunks) {
    u32 before = 0;
    if (threadIdx.x % WARP == 0) before = atomicAdd(queue.arrived + item.first, 1u);
    return __shfl_sync(ALL, before, 0) == chunks - 1;
}

}  // namespace tcu::ragged
