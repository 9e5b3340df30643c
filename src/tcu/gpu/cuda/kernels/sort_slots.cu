// Sorts numbers by the slots that an index sends them to, eight bits of the slot at a time, the lowest first: counters
// (index_slots.cu) send each number to a place of its own, and from some millions on that takes the time (2^26 numbers of
// binary32 to 2^22 slots 6.3 of 7.7 ms, H100).  Here, a block brings its numbers together in shared memory before it writes
// them, so that neighbours go to neighbours.
//
// A pass is count_digits, the sums of the counts by their digits, and sort_by_digit.  Numbers of one digit keep their order, as
// later passes need it.  When all are sorted, begin_of_slots looks for where each slot begins.
//
// The floor of a pass is its bytes: 4 of the slot to count; slot and number to sort, and as many to write.
//
// Compiled with
//   FIRST    1: the first pass, which reads the index, and leaves out what is out of range
//   WIDE     1: indices have 64 bits; 0: 32
//   BYTES    of a number; 0: places are sorted, of 4 bytes
//   ITEMS    numbers of a thread
//   ALONE    1: there is one pass, whose digits are the slots
//   EDGES    slots of a warp of begin_of_slots, unless ALONE

#include "device/load/slot.cuh"
#include "device/warp/warp_scan.cuh"

using namespace tcu;

#include "generated/index_sums/SlotSort.inc"

constexpr int DIGITS = 256, BITS = 8, THREADS = DIGITS, WARPS = THREADS / WARP, TILE = THREADS * ITEMS;

#if BYTES == 8
typedef u64 Number;
#elif BYTES == 2
typedef u16 Number;
#else
typedef u32 Number;
#endif

// The slots of a thread's numbers, a warp apart, or NOWHERE.
struct OwnSlots {
    u32 slots[ITEMS];
    i64 first, n;

    __device__ explicit OwnSlots(const SlotSort& p)
        : first(static_cast<i64>(blockIdx.x) * TILE + threadIdx.x / WARP * WARP * ITEMS + threadIdx.x % WARP),
          n(FIRST ? p.n : *p.there) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            slots[i] = load::NOWHERE;
            if (place(i) >= n) continue;
#if FIRST
            slots[i] = load::slot_at(p.index, place(i), p.slots);
#else
            slots[i] = p.from[place(i)];
#endif
        }
    }

    __device__ i64 place(int i) const { return first + i * WARP; }
    __device__ bool is_there(int i) const { return slots[i] != load::NOWHERE; }
    __device__ u32 digit(const SlotSort& p, int i) const { return slots[i] >> p.shift & (DIGITS - 1); }
};

// Lanes with the same digit, among those that take part.
__device__ inline u32 mates_of(u32 digit, bool takes_part) {
    u32 mates = __ballot_sync(ALL, takes_part);
#pragma unroll
    for (int bit = 0; bit < BITS; ++bit) {
        const bool is_set = digit >> bit & 1;
        const u32 others = __ballot_sync(ALL, is_set);
        mates &= is_set ? others : ~others;
    }
    return mates;
}

// Counts the digits of each warp, and says how many equal ones a number has before it in its warp.
__device__ inline void rank(const SlotSort& p, const OwnSlots& own, u32 (&counts)[WARPS][DIGITS], u32 (&ranks)[ITEMS]) {
    for (int i = 0; i < WARPS; ++i) counts[i][threadIdx.x] = 0;
    __syncthreads();
    u32* const of_warp = counts[threadIdx.x / WARP];
    const u32 before = (1u << threadIdx.x % WARP) - 1;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const bool is_there = own.is_there(i);
        const u32 digit = own.digit(p, i), mates = mates_of(digit, is_there);
        ranks[i] = is_there ? of_warp[digit] + __popc(mates & before) : 0;
        __syncwarp();
        if (is_there && (mates & before) == 0) of_warp[digit] += __popc(mates);
        __syncwarp();
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) count_digits(const __grid_constant__ SlotSort p) {
    __shared__ u32 counts[DIGITS];
    counts[threadIdx.x] = 0;
    __syncthreads();
    const OwnSlots own(p);
#if FIRST
    for (int i = 0; i < ITEMS; ++i)
        if (own.place(i) < p.n && !own.is_there(i)) atomicMax(p.wrong, static_cast<u64>(p.n - own.place(i)));
#endif
    // Lanes that add to one counter wait for each other, 32 of them for less time than ballots would take.
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        if (own.is_there(i)) atomicAdd(counts + own.digit(p, i), 1u);
    __syncthreads();
    p.counts[threadIdx.x * p.tiles + blockIdx.x] = counts[threadIdx.x];
}

union SortedTile {
    u32 slots[TILE];
    Number numbers[TILE];
};

extern "C" __global__ void __launch_bounds__(THREADS) sort_by_digit(const __grid_constant__ SlotSort p) {
    __shared__ u32 counts[WARPS][DIGITS];
    __shared__ u32 begins[DIGITS];
    __shared__ u32 of_warps[WARPS];
    __shared__ SortedTile tile;
    const OwnSlots own(p);
    Number numbers[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const i64 at = own.place(i);
        if (!own.is_there(i)) continue;
#if FIRST
        numbers[i] = BYTES ? static_cast<const Number*>(p.numbers)[at * p.stride] : static_cast<Number>(at);
#else
        numbers[i] = static_cast<const Number*>(p.numbers)[at];
#endif
    }
    u32 ranks[ITEMS];
    rank(p, own, counts, ranks);
    // Where a digit's numbers begin in the tile, and how much further on in memory they go.
    const int digit = threadIdx.x, lane = threadIdx.x % WARP, of_warp = threadIdx.x / WARP;
    u32 total = 0;
    for (int i = 0; i < WARPS; ++i) {
        const u32 count = counts[i][digit];
        counts[i][digit] = total;
        total += count;
    }
    u32 up_to = warp::inclusive_scan(total);
    if (lane == WARP - 1) of_warps[of_warp] = up_to;
    if (FIRST && blockIdx.x == 0 && digit == 0) *p.there = p.sums[DIGITS * p.tiles - 1];
    __syncthreads();
    u32 count = 0;  // of the tile
    for (int i = 0; i < WARPS; ++i) {
        if (i < of_warp) up_to += of_warps[i];
        count += of_warps[i];
    }
    const u32 begin = up_to - total;
    begins[digit] = p.sums[digit * p.tiles + blockIdx.x] - total - begin;
    for (int i = 0; i < WARPS; ++i) counts[i][digit] += begin;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        if (!own.is_there(i)) continue;
        ranks[i] += counts[of_warp][own.digit(p, i)];
        tile.slots[ranks[i]] = own.slots[i];
    }
    __syncthreads();
    u32 to[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at >= count) continue;
        const u32 slot = tile.slots[at];
        to[i] = begins[slot >> p.shift & (DIGITS - 1)] + at;
        if (!ALONE) p.to[to[i]] = slot;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        if (own.is_there(i)) tile.numbers[ranks[i]] = numbers[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < count) static_cast<Number*>(p.placed)[to[i]] = tile.numbers[at];
    }
}

// Of sorted slots: the first place of this slot or a higher one.  A whole warp calls it, and looks at 32 places at once.
__device__ inline u32 place_of(const u32* sorted, u32 end, i64 slot) {
    u32 first = 0;
    while (first < end) {
        const u32 step = (end - first + WARP - 1) / WARP, at = first + threadIdx.x % WARP * step;
        const u32 lower = __popc(__ballot_sync(ALL, at < end && sorted[at] < slot));
        if (lower < WARP) end = min(end, first + lower * step);
        if (lower) first += (lower - 1) * step + 1;
    }
    return first;
}

extern "C" __global__ void __launch_bounds__(THREADS) begin_of_slots(const __grid_constant__ SlotSort p) {
#if ALONE
    const i64 slot = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (slot <= p.slots) p.edges[slot] = slot == 0 ? 0 : p.sums[slot * p.tiles - 1];
#else
    // A warp's slots are neighbours, and so are their places.  Where each slot was looked for among all, 2^26 of them took 1.5 ms.
    const i64 begin = (static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP) * EDGES, end = min(begin + EDGES, p.slots + 1);
    if (begin >= end) return;
    u32 first = place_of(p.from, *p.there, begin);
    const u32 last = place_of(p.from, *p.there, end);
    for (i64 slot = begin + threadIdx.x % WARP; slot - threadIdx.x % WARP < end; slot += WARP) {
        u32 until = last;
        while (first < until) {
            const u32 middle = (first + until) / 2;
            if (p.from[middle] < slot)
                first = middle + 1;
            else
                until = middle;
        }
        if (slot < end) p.edges[slot] = first;
    }
#endif
}
