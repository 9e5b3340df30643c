// Two passes of fast Fourier transforms in one launch (device/fourier/pass.cuh), of which the second finds in the second cache what
// the first has left there: so memory is read once and written once.
//
// Tiles are in groups: what the second pass makes of a group's numbers depends on what the first pass makes of them.  A block takes
// tiles of the first pass, and then tiles of the second of a group some groups before, after all blocks have done their part of that one:
// these have lower numbers, in whose order blocks start, and do it without waiting.  What the second pass has read nobody reads again: its
// lines leave the cache without being written to memory.
//
// What failed (2^24 numbers of binary32, two of three passes, 460 us; H200).  Blocks that are of one pass each, by turns: 500, as all
// blocks of the second began with a wait.  Numbers between the passes in a ring, where the first waits for places, too: 619.  Lines that were
// not forgotten: 550, since memory had twice as much to write.  Without saying what is read or written once (READ_ONCE, WRITTEN_ONCE):
// 550, since 0.4 of what the second pass reads was gone from the cache.  Blocks that draw their numbers took 1 to 4 % longer.
//
// Compiled with THREADS, RESIDENT and WORK as a pass, with
//   FIRST_TILES, SECOND_TILES  of a block
//   GROUP_BLOCKS    that take a group's tiles
// and with the other macros of a pass, each as BY_PASS(of the first, of the second), where an AND stands for a comma.

#include "device/fourier/numbers.cuh"
#include "device/grid/arrivals.cuh"

#define AND ,
#define BY_PASS(first, second) first
#define PASS first_pass
#include "device/fourier/pass.cuh"

#undef BY_PASS
#undef PASS
#define BY_PASS(first, second) second
#define PASS second_pass
#include "device/fourier/pass.cuh"

using namespace tcu;

#include "generated/fft_passes/FftPasses.inc"

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) fft_passes(const __grid_constant__ FftPasses p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ bool is_ready;
    const u32 group = blockIdx.x / GROUP_BLOCKS, before = group - static_cast<u32>(p.lead);
    const bool has_first = group < p.groups, has_second = group >= p.lead;
    // Looks while numbers are on their way, and at the end again if it was too early.
    bool has_seen = false;
    const auto look = [&] {
        if (threadIdx.x == 0 && has_second && !has_seen) has_seen = grid::have_arrived<GROUP_BLOCKS>(p.arrived + before);
    };
    const auto arrive = [&] {
        if (has_first && threadIdx.x == 0) grid::arrive(p.arrived + group);
    };
    if (has_first) {
#pragma unroll 1
        for (u32 i = 0; i < FIRST_TILES; ++i) {
            if (i > 0) __syncthreads();
            fourier::first_pass::run(p.first, blockIdx.x * FIRST_TILES + i, memory, look);
        }
    }
    look();
    if (threadIdx.x == 0) is_ready = has_seen;
    __syncthreads();
    const bool was_ready = is_ready;
    if (!was_ready) arrive();
    if (!has_second) return;
    if (!was_ready) grid::wait_for_arrivals<GROUP_BLOCKS>(p.arrived + before);
#pragma unroll 1
    for (u32 i = 0; i < SECOND_TILES; ++i) {
        const u32 tile = (before * GROUP_BLOCKS + blockIdx.x % GROUP_BLOCKS) * SECOND_TILES + i;
        if (i > 0) __syncthreads();
        // What the first pass has written is on its way while numbers of the second come.
        fourier::second_pass::run(p.second, tile, memory, [&] {
            if (was_ready && i == 0) arrive();
        });
        fourier::second_pass::forget(p.second, tile);
    }
    // The last block that needs them puts the arrivals back to 0.
    if (threadIdx.x == 0) grid::leave<GROUP_BLOCKS>(p.arrived + before);
}
