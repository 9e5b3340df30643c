// Segments too long for one warp: a list of their chunks, which launches of their own go through.

#pragma once

#include "result.cuh"
#include "types.cuh"

struct Item {
    i64 segment;
    i64 begin;
    i64 length;
    u32 first;  // number of the segment's first item
    u32 place;  // of the segment among those with several chunks
};

// The host's memory has room for the items of segments that do not overlap (tcu/gpu/segments.py).
struct List {
    Item* items;
    u32* arrived;  // of a segment's first item: how many of its chunks are done
    u32* state;    // STATES words, all zero before the first launch and after the last
    u64* slots;    // of each item, what its chunk comes to, MISSING until then; or none
    u32 room;      // items
    u32 several;   // segments of several chunks
};

// LISTERS: blocks of list_segments.cu that are done; LISTED: one more than they have listed, or 0 while they work.  What
// they have listed is drawn by the first TICKETS, what was listed later by the others.  FULL: one more than the items that
// there was room for, or 0 where all had room.
enum State { COUNT, TICKETS, FINISHED, SEVERAL, LISTERS, LISTED, LATE_TICKETS, FULL, STATES };

constexpr u32 NO_ROOM = ~0u;

__device__ inline u32 load_acquire(const u32* word) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
    return v;
}

__device__ inline void store_release(u32* word, u32 v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(v) : "memory");
}

// By a whole warp: how many items were listed ahead, when that is known.
__device__ inline u32 listed_ahead(const List& list) {
    u32 seen = 0;
#pragma unroll 1
    while (__any_sync(ALL, seen == 0)) seen = load_acquire(list.state + LISTED);
    return seen - 1;
}

// The first of so many places; or NO_ROOM, where wrong offsets make more of them than there are.  Whoever asks after such a
// failure fails too, so that what has been given has no gaps: the counter stays beyond the room, and near it.
__device__ inline u32 reserve(const List& list, State counter, u32 places, u32 room) {
    const u32 first = atomicAdd(list.state + counter, places);
    if (first + static_cast<u64>(places) <= room) return first;
    if (counter == COUNT && first <= room) list.state[FULL] = first + 1;
    atomicMin(list.state + counter, room + 1);
    return NO_ROOM;
}

// How many items have been listed: by one who has waited for all that list some.
__device__ inline u32 items_on(const List& list) {
    const volatile u32* const state = list.state;
    return state[FULL] ? state[FULL] - 1 : state[COUNT];
}

// By one thread: an item, whose chunk is not done.
__device__ inline void put(const List& list, u32 number, const Item& item) {
    list.items[number] = item;
    if (list.slots) list.slots[number] = MISSING;
    if (number == item.first) list.arrived[number] = 0;
}

// A warp puts a segment's chunks on the list; returns its place among those with several, or NO_ROOM.
__device__ __noinline__ u32 append(const List& list, i64 segment, i64 begin, i64 length, i64 chunks) {
    const int lane = threadIdx.x % WARP;
    Item item = {segment, begin, length, 0, 0};
    if (lane == 0) {
        if (chunks > 1) item.place = reserve(list, SEVERAL, 1, list.several);
        if (item.place != NO_ROOM) item.first = reserve(list, COUNT, static_cast<u32>(chunks), list.room);
        if (item.first == NO_ROOM) item.place = NO_ROOM;
    }
    item.first = __shfl_sync(ALL, item.first, 0);
    item.place = __shfl_sync(ALL, item.place, 0);
    if (__any_sync(ALL, item.place == NO_ROOM)) return NO_ROOM;
#pragma unroll 1
    for (i64 chunk = lane; chunk < chunks; chunk += WARP) put(list, item.first + static_cast<u32>(chunk), item);
    return item.place;
}

// Of a block that has nothing more to do: the last one leaves the state as it was.
__device__ inline void finish(const List& list) {
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(list.state + FINISHED, 1u) == gridDim.x - 1)
        for (int i = 0; i < STATES; ++i) list.state[i] = 0;
}

// The block's next item, while there is one; all its threads call `work`.  Which block has which is left to
// chance, and changes nothing.
template <typename Work>
__device__ inline void for_each_item(const List& list, const Work& work) {
    __shared__ u32 next;
    const u32 count = items_on(list);
    for (u32 number = blockIdx.x; number < count;) {
        u32 ticket = 0;
        if (threadIdx.x == 0) ticket = gridDim.x + atomicAdd(list.state + TICKETS, 1u);
        work(list.items[number], number);
        __syncthreads();
        if (threadIdx.x == 0) next = ticket;
        __syncthreads();
        number = next;
    }
    finish(list);
}

// The same for warps, each by itself.
template <typename Work>
__device__ inline void for_each_item_of_warps(const List& list, const Work& work) {
    const u32 warps = blockDim.x / WARP, count = items_on(list);
    for (u32 number = blockIdx.x * warps + threadIdx.x / WARP; number < count;) {
        u32 ticket = 0;
        if (threadIdx.x % WARP == 0) ticket = gridDim.x * warps + atomicAdd(list.state + TICKETS, 1u);
        work(list.items[number], number);
        number = __shfl_sync(ALL, ticket, 0);
    }
    __syncthreads();
    finish(list);
}

// For all threads of a block that has done one of a segment's chunks: whether it was the last.
__device__ inline bool is_last(const List& list, const Item& item, i64 chunks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(list.arrived + item.first, 1u) == chunks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

// The same for a warp, which waits for nobody: whoever adds up the slots does (take).  With fences around this, chunks of
// a power law took 480 in place of 447 us (H200).
__device__ inline bool is_last_for_warp(const List& list, const Item& item, i64 chunks) {
    u32 before = 0;
    if (threadIdx.x % WARP == 0) before = atomicAdd(list.arrived + item.first, 1u);
    return __shfl_sync(ALL, before, 0) == chunks - 1;
}
