// Sums of ragged segments: each has the bits of its own sum by the plan of sum.cu.
//
// A warp takes AT_ONCE segments at a time, a lane to each.  All are cut into quads of 4 · 16 bytes, of which a warp
// loads 32 at a time wherever they lie, eight to an MMA; their sums come together in shared memory, where a lane adds
// up those of a tile of the plan (8 quads), and then the tiles of a segment.  What the plan adds besides is zeros,
// which change no sum.
//
// What has more than TILES tiles is left to a second launch (long_segments.cu, long_chunks.cu).  A segment that is
// none (it ends before it begins, or elsewhere than in the array) gives NaN.
//
// Compiled with ELEMENT (array.cuh; LAYOUT is not looked at), and
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   AT_ONCE    segments of a warp at a time: 8, 16 or 32

#include "segment_sums.cuh"

// Segments whose bytes a number of 32 bits counts.
__device__ inline void sum_run(const Segments& p, const Run& run, Shared& shared) {
    const int lane = threadIdx.x % WARP;
    Place at(p, run);
    at.unsafe = kept(at.unsafe);
    const Results results = {p, run.first, p.target == TO_BINARY32 && !p.mean};
    const i64* const ends = reinterpret_cast<const i64*>(kept(reinterpret_cast<u64>(p.offsets + run.first + 1)));
    const u32 count = static_cast<u32>(run.last - run.first);
    // Used a turn later: what is computed from it waits for it.
    i64 next = lane < count ? __ldg(ends + lane) : 0;
    u32 so_far = 0;
#pragma unroll 1
    for (u32 number = lane, todo = count; todo; number += AT_ONCE, todo = todo > AT_ONCE ? todo - AT_ONCE : 0) {
        const u64 relative = static_cast<u64>(next - run.begin);
        if (number + AT_ONCE < count) next = __ldg(ends + number + AT_ONCE);
        const u32 end = relative >> 32 ? ~0u : static_cast<u32>(relative);
        u32 begin = __shfl_up_sync(ALL, end, 1);
        if (lane == 0) begin = so_far;
        so_far = __shfl_sync(ALL, end, AT_ONCE - 1);
        const bool has_lane = (AT_ONCE == WARP || lane < AT_ONCE) && number < count;
        sum_group<AT_ONCE>(p, run, at, results, number, begin, end, has_lane, shared);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segments(const __grid_constant__ Segments p) {
    __shared__ Shared shared[WARPS];
    for_each_run(
        p, [&](i64 i) { return p.offsets[i]; },
        [&](const Run& run) { sum_run(p, run, shared[threadIdx.x / WARP]); });
}
