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

// Called by a whole warp: each lane's rank.
__device__ inline u32 rank_by(u32* counter, u32 slot) {
    const u32 mates = __match_any_sync(ALL, slot), lane = threadIdx.x % WARP;
    const int first = __ffs(mates) - 1;
    u32 rank = 0;
    if (static_cast<int>(lane) == first && slot != load::NOWHERE) rank = atomicAdd(counter + slot, static_cast<u32>(__popc(mates)));
    return __shfl_sync(ALL, rank, first) + __popc(mates & ((1u << lane) - 1));
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
    u32* const counters = p.counts;
#endif
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) ranks[i] = rank_by(counters, slots[i]);
#if COUNTERS
    __syncthreads();
    for (int slot = threadIdx.x; slot < p.slots; slot += THREADS)
        if (counters[slot]) counters[slot] = atomicAdd(p.counts + slot, counters[slot]);
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
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const i64 place = begin + i * THREADS;
        if (place >= p.n) continue;
        const u32 rank = p.ranks[place];
        if (rank == load::NOWHERE) continue;
        Placed* const to = static_cast<Placed*>(p.placed) + p.edges[load::slot_at(p.index, place, p.slots)] + rank;
        *to = BYTES ? static_cast<const Placed*>(p.numbers)[place * p.stride] : static_cast<Placed>(place);
    }
}
