// The variants single-pass, split and warp-shuffle in one launch.  Each block reduces its numbers to one, by chained
// MMAs or by warp shuffles.  The last of so many blocks adds up their numbers, while later blocks still run, and the
// last of all those sums (tcu/plan/variants.py).  In series, at 5 to 6 ns a block, this took longer than all else.
// The papers' form of single-pass and split has atomic additions instead.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh), and
//   THREADS   of a block: the plan's B
//   CHAINS    whether there are blocks of chains; then also with the macros of mma/chains.cuh
//   SHUFFLES  whether there are blocks of shuffles
//   GATHERED  blocks whose numbers are added up together, a multiple of 32
//   ATOMIC    whether blocks add to one number in memory by atomic additions

#include "device/grid/slots.cuh"
#include "device/load/array.cuh"
#if CHAINS
#include "device/mma/chains.cuh"
#endif
#include "device/finish/store.cuh"

using namespace tcu;

constexpr int WARPS = THREADS / WARP;

#include "generated/variants/Blocks.inc"

#if ELEMENT == BINARY64
typedef double BlockNumber;
__device__ inline BlockNumber widened(Code code) { return to_binary64(code); }
__device__ inline void publish(u64* slot, BlockNumber number) { grid::publish(slot, number); }
__device__ inline BlockNumber take(u64* slot, u64 bits) { return grid::take(slot, bits); }
#else
typedef float BlockNumber;
__device__ inline BlockNumber widened(Code code) { return to_binary32(code); }

// A binary32 number leaves half of its slot zero, which is never MISSING then.  As a binary64 number it costs every block a
// conversion and a comparison of binary64.
__device__ inline void publish(u64* slot, BlockNumber number) { grid::write(slot, __float_as_uint(number)); }
__device__ inline BlockNumber take(u64* slot, u64 bits) {
    return __uint_as_float(static_cast<u32>(grid::take_bits(slot, bits)));
}
#endif

// This warp's number, in lane 0.
__device__ inline BlockNumber number_of_warp(const Blocks& p, i64 block) {
#if CHAINS
    if (!SHUFFLES || block < p.chained) return mma::sum_of_group(p.x, block * WARPS + threadIdx.x / WARP);
#endif
#if SHUFFLES
    const i64 at = p.border + (block - p.chained) * THREADS + threadIdx.x;
    return warp::tree<WARP>(at < p.x.n ? widened(load::element(p.x, at)) : BlockNumber(0));
#else
    return 0;
#endif
}

__device__ inline void store(const Blocks& p, BlockNumber total) {
    double number = total;
    if (p.divisor != 1) number /= p.divisor;
    finish::store_rounded(p.out, number, static_cast<finish::Target>(p.target));
}

#if ATOMIC
// Whatever the order in which blocks arrive: the sum's bits differ from run to run.  In binary32 the memory takes a
// subnormal number, and a subnormal sum, for zero (PTX ISA, red); the plan's error bound counts that.
__device__ inline void combine(const Blocks& p, i64 block, BlockNumber number) {
    if (block < p.blocks && threadIdx.x == 0) atomicAdd(reinterpret_cast<BlockNumber*>(p.slots), number);
}
#else
// Slots that a thread reads at once.  With 8 the kernel took 58 registers and half the threads of a multiprocessor: blocks
// of 512 and 1024 threads took 1.1 to 1.8 times as long as with atomics, 2^26 numbers of binary16 (H200).
constexpr int AHEAD = THREADS >= GATHERED ? 1 : 4 * THREADS >= GATHERED ? (GATHERED + THREADS - 1) / THREADS : 4;

// The sum of count numbers: those in the slots, and thread 0's own as the last.  Each lane of the first warp adds up every
// 32nd number in order, then comes the tree of the lanes.  Thread 0 has the sum.  All threads read: by one warp the slots
// of a group took four turns of loads, one after another, and a launch 1 to 4 µs longer than with atomics; now 1.4 µs at
// most (single-pass, 2^26 numbers, H200).  Splits with blocks of both kinds take 4 % longer, before and after.
__device__ inline BlockNumber sum_of_slots(u64* slots, i64 count, BlockNumber own) {
    __shared__ BlockNumber numbers[GATHERED];
    BlockNumber total = 0;
    for (i64 first = 0; first < count; first += GATHERED) {
        const int here = static_cast<int>(count - first < GATHERED ? count - first : GATHERED);
        const int in_slots = first + here < count ? here : here - 1;
        for (int at = threadIdx.x; at < in_slots; at += AHEAD * THREADS) {
            u64 bits[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                bits[i] = at + i * THREADS < in_slots ? grid::look(slots + first + at + i * THREADS) : 0;
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                if (at + i * THREADS < in_slots)
                    numbers[at + i * THREADS] = take(slots + first + at + i * THREADS, bits[i]);
        }
        if (threadIdx.x == 0 && in_slots < here) numbers[in_slots] = own;
        __syncthreads();
        if (threadIdx.x < WARP)
            for (int at = threadIdx.x; at < here; at += WARP) total += numbers[at];
        __syncthreads();
    }
    return threadIdx.x < WARP ? warp::tree<WARP>(total) : total;
}

// Called by the last of up to GATHERED blocks: adds up their numbers, of which thread 0 has this block's, and those sums
// if it is the last of all.  Not inline, so that it takes no registers from the blocks' work.
__device__ __noinline__ void gather(const Blocks& p, i64 block, BlockNumber number) {
    const i64 group = block / GATHERED, first = group * GATHERED;
    BlockNumber total = sum_of_slots(p.slots + first, block + 1 - first, number);
    if (block < gridDim.x - 1) {
        if (threadIdx.x == 0) publish(p.totals + group, total);
        return;
    }
    if (group > 0) total = sum_of_slots(p.totals, group + 1, total);
    if (threadIdx.x == 0) store(p, total);
}

__device__ inline void combine(const Blocks& p, i64 block, BlockNumber number) {
    // Blocks start in order, so all blocks that the last of a group waits for are running or done.
    if (block == gridDim.x - 1 || block % GATHERED == GATHERED - 1)
        gather(p, block, number);
    else if (threadIdx.x == 0)
        publish(p.slots + block, number);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, resident(MOST_BLOCKS, THREADS)) blocks(const __grid_constant__ Blocks p) {
    const i64 block = blockIdx.x;
    BlockNumber number = 0;
    if (block < p.blocks) number = warp::across_warps<WARPS>(number_of_warp(p, block));
    combine(p, block, number);
}

#if ATOMIC
// After the blocks: rounds their sum, and puts the zero back that the next launch needs.
extern "C" __global__ void round_blocks(const __grid_constant__ Blocks p) {
    if (threadIdx.x != 0) return;
    BlockNumber* const sum = reinterpret_cast<BlockNumber*>(p.slots);
    store(p, *sum);
    *sum = 0;
}
#endif
