// The exact sums of the numbers that an index sends to each slot, by atomic additions of integers, whose sums are the same in any
// order.  A slot's sum is in fixed point (exact/fixed_point.cuh).
//
// `see_numbers` looks for the largest and the smallest exponent of all numbers, which say where the words lie and how many a slot
// needs; `clear_words` zeroes these, `add_to_slots` adds the numbers, and `round_slots` rounds each sum once.
//
// Additions to one address wait for each other (2^26 of binary32 took 118 ms, H100).  So a block has a table of the words
// that it meets first, in shared memory, where a slot of many numbers finds its place early.  A thread has four neighbouring
// numbers, and first adds up those of one slot; so does a warp whose numbers all go to one.
//
// Where the second cache does not hold the words of all slots, `add_to_slots` is launched for parts of them, one after another.
//
// The floor is reading the numbers twice and the index once, and one addition in the second cache for each number.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), THREADS, RESIDENT, UNROLL 1, TERM VALUE, and
//   WIDE    1: indices have 64 bits; 0: 32
//   PACKED  1: numbers and indices lie without gaps, from a multiple of 16 bytes on
//   RESULT  the format of the results, as finish::Target numbers them
//   MEAN    1: the sums are divided by the numbers of places
//   ITEMS   numbers of a thread at a time

#include "device/exact/fixed_point.cuh"
#include "device/load/slot.cuh"

using namespace tcu;

#include "generated/slot_sums/SlotSums.inc"

constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);
constexpr i64 TILE = static_cast<i64>(THREADS) * ITEMS;

// Bits of what a slot met besides finite numbers.
constexpr u32 UP = 1, DOWN = 2, NOT_A_NUMBER = 4;

__device__ inline exact::Words words_of(const SlotSums& p) {
    return exact::Words(static_cast<int>(p.bits), p.seen[0], p.seen[1]);
}

// Whether there is inf or NaN.
__device__ inline bool any_special(const SlotSums& p) { return p.seen[0] == exact::FIELDS; }

// Neighbours in memory.
template <typename T>
union Neighbours {
    T each[ITEMS];
    u64 words[ITEMS * sizeof(T) / 8];
    ulonglong2 pairs[ITEMS * sizeof(T) / 16 + (sizeof(T) < 4)];

    // Those from `first` on, `stride` elements apart; zero where there are none.
    __device__ void read(const void* from, i64 first, i64 n, i64 stride) {
        const T* const data = static_cast<const T*>(from);
        if (PACKED && first + ITEMS <= n) {
            if constexpr (sizeof(T) == 2) {
                words[0] = __ldcs(reinterpret_cast<const u64*>(data + first));
            } else {
#pragma unroll
                for (int i = 0; i < static_cast<int>(ITEMS * sizeof(T) / 16); ++i)
                    pairs[i] = __ldcs(reinterpret_cast<const ulonglong2*>(data + first) + i);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) each[i] = first + i < n ? data[(first + i) * stride] : T(0);
    }
};

constexpr int SAMPLES = 4096, APART = 1024;

// Whether most places have a slot near that of a later one, as in sorted indices.  Then the second cache holds what is added
// to for the moment, and slots need no parts.
__device__ inline bool has_near_slots(const SlotSums& p) { return p.seen[2] > SAMPLES / 2; }

__device__ inline void look_for_near_slots(const SlotSums& p) {
    const auto slot_at = [&](i64 place) { return static_cast<i64>(load::slot_at(p.index, min(place, p.n - 1), p.slots)); };
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x; i < SAMPLES; i += gridDim.x * THREADS) {
        const i64 place = p.n * i / SAMPLES, step = slot_at(place + APART) - slot_at(place);
        const u32 near = __ballot_sync(ALL, (step < 0 ? -step : step) <= p.slots / 64);
        if (threadIdx.x % WARP == 0) atomicAdd(p.seen + 2, __popc(near));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    see_numbers(const __grid_constant__ SlotSums p) {
    __shared__ int seen[2];
    if (p.is_part) look_for_near_slots(p);
    if (threadIdx.x < 2) seen[threadIdx.x] = 0;
    __syncthreads();
    exact::Extent extent;
#pragma unroll 4
    for (i64 first = blockIdx.x * TILE + threadIdx.x * ITEMS; first < p.n; first += gridDim.x * TILE) {
        Neighbours<Code> numbers;
        numbers.read(p.numbers, first, p.n, p.stride);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) extent.see(numbers.each[i]);
    }
    __syncwarp();
    const int top = warp::reduce_max(extent.top()), depth = warp::reduce_max(extent.depth());
    if (threadIdx.x % WARP == 0) {
        atomicMax(seen, top);
        atomicMax(seen + 1, depth);
    }
    __syncthreads();
    if (threadIdx.x < 2) atomicMax(p.seen + threadIdx.x, seen[threadIdx.x]);
}

extern "C" __global__ void __launch_bounds__(THREADS) clear_words(const __grid_constant__ SlotSums p) {
    const i64 words = words_of(p).count * p.slots, step = static_cast<i64>(gridDim.x) * THREADS;
    const i64 first = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    for (i64 i = first; i < words; i += step) p.words[i] = 0;
    for (i64 i = first; i < p.slots && MEAN; i += step) p.words[p.counts * p.slots + i] = 0;
    for (i64 i = first; i < p.slots && any_special(p); i += step) p.specials[i] = 0;
}

// The words that a block met first.  Each has two places to go to, which are read at once.
struct Table {
    static constexpr int LOG = 12, PLACES = 1 << LOG;
    static constexpr u32 EMPTY = ~0u;
    u32 words[PLACES], lower[PLACES], upper[PLACES];

    __device__ void clear() {
        for (int i = threadIdx.x; i < PLACES; i += THREADS) words[i] = EMPTY, lower[i] = upper[i] = 0;
    }

    __device__ void add(const SlotSums& p, u32 word, i64 value) {
        // Few slots have a place each.
        const u32 home = p.slots <= PLACES ? word & (PLACES - 1) : word * 2654435769u >> (32 - LOG);
#pragma unroll
        for (u32 other = 0; other < 2; ++other) {
            const u32 place = home ^ other;
            u32 there = *const_cast<volatile u32*>(words + place);
            if (there == EMPTY) {
                there = atomicCAS(words + place, EMPTY, word);
                if (there == EMPTY) there = word;
            }
            if (there != word) continue;
            const u32 low = static_cast<u32>(value), before = atomicAdd(lower + place, low);
            const u32 high = static_cast<u32>(static_cast<u64>(value) >> 32) + (before + low < low);
            if (high) atomicAdd(upper + place, high);
            return;
        }
        atomicAdd(p.words + word, static_cast<u64>(value));
    }

    __device__ void give_back(const SlotSums& p) const {
        for (int i = threadIdx.x; i < PLACES; i += THREADS) {
            const u64 value = static_cast<u64>(upper[i]) << 32 | lower[i];
            if (value) atomicAdd(p.words + words[i], value);
        }
    }
};

// What a thread, or a warp, adds to a slot at once.
struct Pending {
    u32 slot = load::NOWHERE, count = 0;
    i64 sum = 0;

    __device__ void give_to(Table& table, const SlotSums& p) const {
        if (slot == load::NOWHERE) return;
        if (sum) table.add(p, slot, sum);
        if (MEAN) table.add(p, static_cast<u32>(p.counts * p.slots) + slot, count);
    }
};

__device__ __noinline__ void see_special(const SlotSums& p, u32 slot, Code code) {
    const bool is_infinite = (code & ((static_cast<Code>(1) << exact::FRACTION) - 1)) == 0;
    atomicOr(p.specials + slot, !is_infinite ? NOT_A_NUMBER : code >> (8 * sizeof(Code) - 1) ? DOWN : UP);
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    add_to_slots(const __grid_constant__ SlotSums p) {
    __shared__ Table table;
    const bool in_parts = p.is_part && !has_near_slots(p);
    if (p.is_part && !in_parts && p.from) return;
    const u32 from = static_cast<u32>(p.from), to = static_cast<u32>(in_parts ? p.to : p.slots);
    table.clear();
    __syncthreads();
    const exact::Words words = words_of(p);
    const bool see_specials = any_special(p);
#pragma unroll 1
    for (i64 tile = blockIdx.x * TILE; tile < p.n; tile += gridDim.x * TILE) {
        const i64 first = tile + threadIdx.x * ITEMS;
        Neighbours<load::IndexNumber> index;
        Neighbours<Code> numbers;
        index.read(p.index, first, p.n, 1);
        if (!in_parts) numbers.read(p.numbers, first, p.n, p.stride);
        u32 slots[ITEMS];
        bool are_one = true, is_any = false;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const bool is_there = first + i < p.n;
            slots[i] = is_there ? load::slot_of(index.each[i], p.slots) : load::NOWHERE;
            if (is_there && slots[i] == load::NOWHERE) atomicMax(p.wrong, static_cast<u64>(p.n - first - i));
            if (slots[i] < from || slots[i] >= to) slots[i] = load::NOWHERE;
            are_one &= slots[i] == slots[0];
            is_any |= slots[i] != load::NOWHERE;
        }
        if (in_parts && is_any) numbers.read(p.numbers, first, p.n, p.stride);
        Pending pending;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const u32 slot = slots[i];
            if (slot == load::NOWHERE) continue;
            if (slot != pending.slot) {
                pending.give_to(table, p);
                pending = {slot, 0, 0};
            }
            ++pending.count;
            if (see_specials && exact::is_special(numbers.each[i])) {
                see_special(p, slot, numbers.each[i]);
                continue;
            }
            pending.sum += words.split(numbers.each[i], [&](int word, i64 part) {
                table.add(p, static_cast<u32>(word * p.slots) + slot, part);
            });
        }
        __syncwarp();
        const u32 of_first = __shfl_sync(ALL, pending.slot, 0);
        if (__all_sync(ALL, are_one && pending.slot == of_first)) {
            pending.sum = warp::reduce_add(pending.sum);
            pending.count *= WARP;  // a warp beyond the last place has none
            if (threadIdx.x % WARP) continue;
        }
        pending.give_to(table, p);
    }
    __syncthreads();
    table.give_back(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) round_slots(const __grid_constant__ SlotSums p) {
    const exact::Words words = words_of(p);
    const i64 slot = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    if (slot >= p.slots) return;
    void* const out = finish::place(p.out, slot, TARGET);
    const u32 count = MEAN ? static_cast<u32>(p.words[p.counts * p.slots + slot]) : 1;
    const u32 special = any_special(p) ? p.specials[slot] : 0;
    if (special || count == 0) {
        const double infinity = __longlong_as_double(2047ll << 52);
        finish::store_rounded(out, special == UP ? infinity : special == DOWN ? -infinity : infinity - infinity, TARGET);
    } else {
        words.store(reinterpret_cast<const i64*>(p.words) + slot, p.slots, count, out, TARGET);
    }
}
