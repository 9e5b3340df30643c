// Brings together what an index sends to each slot, without a sort: a number's rank in its slot is what the slot's counter
// says, so that whoever comes first comes first.  The order within a slot is another one in each run, and exact sums have
// none.  Between the two kernels, the counters are added up to where each slot begins.
//
// Lanes of a warp that send to one slot count together.  Where slots are few, so do the threads of a block, in shared memory:
// 2^26 additions of 256 counters in memory took 17 ms (H200, PyTorch's).
//
// Compiled with
//   WIDE     1: indices have 64 bits; 0: 32
//   COUNTERS  of a block, in shared memory, one for each slot; 0: there are none
//   BYTES    of what is brought together: of a number; 0: the places of rows, in 4 bytes
//   THREADS, ITEMS  of a block, and indices of a thread

#include "device/load/slot.cuh"

using namespace tcu;

#include "generated/index_sums/IndexSlots.inc"

#if BYTES == 8
typedef u64 Placed;
#elif BYTES == 2
typedef u16 Placed;
#else
typedef u32 Placed;
#endif

// Called by a whole warp: each lane's ranks.  All additions are on their way before one is waited for.
template <typename Counter>
__device__ inline void rank_by(Counter* counters, const u32 (&slots)[ITEMS], u32 (&ranks)[ITEMS]) {
    const u32 lane = threadIdx.x % WARP;
    u32 mates[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        mates[i] = __match_any_sync(ALL, slots[i]);
        ranks[i] = 0;
        if (__ffs(mates[i]) - 1 == static_cast<int>(lane) && slots[i] != load::NOWHERE)
            ranks[i] = static_cast<u32>(atomicAdd(counters + slots[i], static_cast<Counter>(__popc(mates[i]))));
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        ranks[i] = __shfl_sync(ALL, ranks[i], __ffs(mates[i]) - 1) + __popc(mates[i] & ((1u << lane) - 1));
}

extern "C" __global__ void __launch_bounds__(THREADS) count_slots(const __grid_constant__ IndexSlots p) {
    const i64 begin = static_cast<i64>(blockIdx.x) * THREADS * ITEMS + threadIdx.x;
    u32 slots[ITEMS], ranks[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const i64 place = begin + i * THREADS;
        slots[i] = place < p.n ? load::slot_at(p.index, place, p.slots) : load::NOWHERE;
        if (slots[i] == load::NOWHERE && place < p.n) atomicMax(p.wrong, static_cast<u64>(p.n - place));
    }
#if COUNTERS
    __shared__ u32 counters[COUNTERS];
    for (int slot = threadIdx.x; slot < COUNTERS; slot += THREADS) counters[slot] = 0;
    __syncthreads();
#else
    u64* const counters = p.counts;
#endif
    rank_by(counters, slots, ranks);
#if COUNTERS
    __syncthreads();
    for (int slot = threadIdx.x; slot < p.slots; slot += THREADS)
        if (counters[slot]) counters[slot] = static_cast<u32>(atomicAdd(p.counts + slot, static_cast<u64>(counters[slot])));
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        if (slots[i] != load::NOWHERE) ranks[i] += counters[slots[i]];
#endif
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const i64 place = begin + i * THREADS;
        if (place < p.n) p.ranks[place] = slots[i] == load::NOWHERE ? load::NOWHERE : ranks[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) place_in_slots(const __grid_constant__ IndexSlots p) {
    const i64 begin = static_cast<i64>(blockIdx.x) * THREADS * ITEMS + threadIdx.x;
    u32 ranks[ITEMS], slots[ITEMS];
    i64 to[ITEMS];
    Placed numbers[ITEMS];
    // Loads of one kind are all on their way before the next kind asks for what they bring.
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const i64 place = begin + i * THREADS;
        const bool is_there = place < p.n;
        ranks[i] = is_there ? p.ranks[place] : load::NOWHERE;
        slots[i] = is_there ? load::slot_at(p.index, place, p.slots) : load::NOWHERE;
        numbers[i] = BYTES && is_there ? static_cast<const Placed*>(p.numbers)[place * p.stride] : static_cast<Placed>(place);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) to[i] = slots[i] == load::NOWHERE ? 0 : p.edges[slots[i]] + ranks[i];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        if (slots[i] != load::NOWHERE) static_cast<Placed*>(p.placed)[to[i]] = numbers[i];
}
