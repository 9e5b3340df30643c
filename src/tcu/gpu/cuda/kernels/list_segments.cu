// Puts long segments on the work queue before all sums, if they have much of the array.
//
// Sums of long segments wait for memory; those of short ones wait for their own steps.  Side by side they take less
// time than one after the other (a power law, H200: 0.84 of memory's rate in place of 0.69). For that, the long
// segments must be known before the short ones are summed.  A sample of all segments says whether the long ones have
// much of the array.  If so, the first and the last offset of 32 segments show whether one of them can be long; only
// then are the offsets between read.
//
// Compiled with THREADS, and RESIDENT (blocks per multiprocessor that the registers must allow).

#include "device/ragged/segment_list.cuh"

using namespace tcu;

// Whether, by the sample, long segments have a quarter of the array or more.
__device__ inline bool is_worth_it(const ragged::Segments& p) {
    __shared__ u32 of_warps[THREADS / WARP];
    const i64 segment = threadIdx.x * (p.segments / THREADS);
    const i64 length = p.offsets[segment + 1] - p.offsets[segment];
    const u32 some = warp::inclusive_scan(length >= 0 && length <= p.most ? static_cast<u32>(length) : 0);
    if (threadIdx.x % WARP == WARP - 1) of_warps[threadIdx.x / WARP] = some;
    __syncthreads();
    u32 total = 0;
    for (int i = 0; i < THREADS / WARP; ++i) total += of_warps[i];
    return static_cast<double>(total) / THREADS * static_cast<double>(p.segments) < 0.75 * static_cast<double>(p.n);
}

constexpr int AT_ONCE = 2;  // groups of 32 segments

// Long segments that a warp has found: room for those that are appended at once, and for those of 32 segments more.
struct Found {
    i64 segment[2 * WARP], begin[2 * WARP], length[2 * WARP];
};

// Adds the lane's segment, if it is long, to those that have been found.  Once there are 32, they are appended.
// Returns how many are left, less than 32.
__device__ inline int add_found(const ragged::Segments& p, Found& found, int known, bool is_long, i64 segment,
                                i64 begin, i64 length) {
    const int lane = threadIdx.x % WARP;
    const u32 longs = __ballot_sync(ALL, is_long);
    const int at = known + __popc(longs & ((1u << lane) - 1));
    if (is_long) found.segment[at] = segment, found.begin[at] = begin, found.length[at] = length;
    known += __popc(longs);
    if (known < WARP) return known;
    __syncwarp();
    ragged::append_all(p, found.segment[lane], found.begin[lane], found.length[lane]);
    __syncwarp();
    found.segment[lane] = found.segment[WARP + lane];
    found.begin[lane] = found.begin[WARP + lane];
    found.length[lane] = found.length[WARP + lane];
    __syncwarp();
    return known - WARP;
}

// Finds the long ones among the warp's segments.  Returns how many are left at the end, less than 32; they are
// appended together with those of other warps.
__device__ inline int find_long_ones(const ragged::Segments& p, Found& found) {
    constexpr int WARPS = THREADS / WARP;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 warps = gridDim.x * WARPS;
    const i64 groups = (p.segments + WARP - 1) / WARP;
    // All warps take the same number of turns with the same number of groups, as far as that is possible: a warp with
    // more kept the others waiting.
    const i64 turns = (groups + warps * WARP - 1) / (warps * WARP), lanes = (groups + warps * turns - 1) / (warps * turns);
    int known = 0;
#pragma unroll 1
    for (i64 turn = 0; turn < turns; ++turn) {
        const i64 group = ((turn * gridDim.x + blockIdx.x) * WARPS + warp) * lanes + lane;
        bool may_have_one = false;
        if (lane < lanes && group < groups) {
            const i64* const first = p.offsets + group * WARP;
            const i64 count = min(p.segments - group * WARP, static_cast<i64>(WARP));
            may_have_one = first[count] - *first > p.most;
            if (may_have_one) {
                asm volatile("prefetch.global.L2 [%0];" ::"l"(first));
                asm volatile("prefetch.global.L2 [%0];" ::"l"(first + count / 2));
            }
        }
        // The lane's segment in the first of these groups.
        const auto segment_in = [&](u32 groups) { return (group - lane + __ffs(groups) - 1) * WARP + lane; };
#pragma unroll 1
        for (u32 rest = __ballot_sync(ALL, may_have_one); rest;) {
            // Some groups at a time, so that all their offsets are asked for before one is waited for.
            u32 those = rest;
            i64 begin[AT_ONCE], end[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i, those &= those - 1)
                ragged::look_at(p, those ? segment_in(those) : p.segments, begin[i], end[i]);
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i, rest &= rest - 1) {
                const bool is_long = ragged::are_segments(p, begin[i], end[i]) && end[i] - begin[i] > p.most;
                known = add_found(p, found, known, is_long, segment_in(rest), begin[i], end[i] - begin[i]);
            }
        }
    }
    __syncwarp();
    return known;
}

// Appends the long segments of all warps together; a lane has none where `length` is 0. There is one counter, to
// which thousands add at a time.
__device__ inline void append_of_block(const ragged::Segments& p, i64 segment, i64 begin, i64 length) {
    constexpr int WARPS = THREADS / WARP;
    __shared__ u32 places[WARPS];
    __shared__ bool has_room;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 items = ragged::items_of(p, length), behind = warp::inclusive_scan(items);
    if (lane == WARP - 1) places[warp] = behind;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 all = 0;
        for (int i = 0; i < WARPS; ++i) all += places[i];
        u32 place = all ? ragged::reserve(p.queue, ragged::ITEM_COUNT, all, p.queue.room) : 0;
        has_room = place != ragged::NO_ROOM;
        for (int i = 0; i < WARPS; ++i) {
            const u32 those = places[i];
            places[i] = place;
            place += those;
        }
    }
    __syncthreads();
    if (has_room)
        ragged::put_all(p.queue, segment, begin, length, places[warp] + behind - items, items);
    else
        ragged::append_all(p, segment, begin, length);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) list_segments(const __grid_constant__ ragged::Segments p) {
    __shared__ Found of_warps[THREADS / WARP];
    grid::launch_dependents();
    if (is_worth_it(p)) {
        const int lane = threadIdx.x % WARP;
        Found& found = of_warps[threadIdx.x / WARP];
        const int known = find_long_ones(p, found);
        append_of_block(p, found.segment[lane], found.begin[lane], lane < known ? found.length[lane] : 0);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0) return;
    const bool is_last = atomicAdd(p.queue.state + ragged::LISTERS, 1u) == gridDim.x - 1;
    __threadfence();
    if (is_last) ragged::store_release(p.queue.state + ragged::LISTED, ragged::items_on(p.queue) + 1);
}
