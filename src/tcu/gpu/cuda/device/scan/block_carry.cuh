// Block carries: the sum of a row before each of its chunks, for rows of more than 32 chunks.  One block finds them
// for all other blocks.
//
// A warp of this block adds up runs of 32 chunks; each lane has the total of one chunk.  The warps tell one warp, in
// shared memory, what whole runs come to, and it finds the sum before each run.  In this way, what a block has added
// up reaches those that wait for it after 2.5 us.  While each block looked for its carry by itself, at up to 32
// totals of each level that other blocks had added up, it took 5 us: the slots at which all blocks looked answered
// late (H200, 2^24 numbers of binary32, while blocks still drew their chunks: 43.9 in place of 41.1 us).
//
// Three other ways were slower.  One warp that goes from run to run takes 0.3 us for each, while 1.2 runs arrive.
// Warps that look for each other's totals until these are there keep those that add up waiting (42.6 us). So does
// handing on the carry of a chunk as soon as it is known, while more totals arrive (42.3 us).

#pragma once

#include "device/load/bulk_copy.cuh"
#include "device/scan/rows.cuh"

namespace tcu::scan {

// The number of this launch, as slots hold it.  Called by a whole warp.
__device__ inline u32 launch_of(const Scan& p) {
    u32 launches = 0;
    if (threadIdx.x % WARP == 0) launches = launches_before(p.shared);
    return __shfl_sync(ALL, launches, 0) + 1;
}

// The slots of the chunks of all rows, in order: first the total of each chunk, then the carry of each chunk.
__device__ inline Slot* total_of_chunk(const Scan& p, i64 number) { return p.slots + number; }
__device__ inline Slot* carry_of_chunk(const Scan& p, i64 number) { return p.slots + p.shares + number; }

#if LEVELS > 1
// What the warps of the block tell each other about runs.  Each warp has two places, which its runs use in turn.  A
// run's total is written when the warp has taken the start of its run before.  That start is found only after the
// total of the run two before, which had the same place, has been read.  So no total is overwritten too early.
template <int WARPS>
struct Known {
    static constexpr int ADDING = WARPS - 1;  // warps that add up; the last warp finds what comes before runs
    static constexpr int PLACES = 2 * ADDING;
    static_assert(PLACES >= WARP, "one for each of a run of runs");

    Slot totals[PLACES];  // each half beside the run's number: looking at 32 barriers would take one step for each
    double starts[PLACES];
    u64 found[PLACES];  // barriers

    __device__ void clear() {
        const int place = threadIdx.x % WARP * WARPS + threadIdx.x / WARP;
        if (place >= PLACES) return;
        load::prepare(&found[place]);
        totals[place].high = totals[place].low = ~0ull;  // no run's number
    }

    __device__ void put(u32 run, double total) {
        const Slot halves = slot_of(total, run);
        volatile Slot& place = totals[run % PLACES];
        place.high = halves.high;
        place.low = halves.low;
    }

    // Whether the total of a run is there; sets it if so.
    __device__ bool get(u32 run, double& total) const {
        const volatile Slot& place = totals[run % PLACES];
        const Slot seen = {place.high, place.low};
        if (!is_there(seen, run)) return false;
        total = number_of(seen);
        return true;
    }
};

// Called by one warp: finds the start of each run.  Each lane takes one run of a group of 32 runs.
template <int WARPS>
__device__ inline void find_starts(Known<WARPS>& known, u32 rows, u32 per_row) {
    constexpr int HEIGHTS = 5 * (LEVELS - 2);
    const int lane = threadIdx.x % WARP;
    u32 first = 0;
    for (u32 row = 0; row < rows; ++row) {
        // The sums of the last aligned blocks of 2^height groups of the row: what the networks of the levels above
        // add up.
        double blocks[HEIGHTS + 1];
        for (u32 group = 0; group * WARP < per_row; ++group) {
            double before_all = 0;
#pragma unroll
            for (int level = LEVELS - 3; level >= 0; --level) {
                double before = 0;
                bool any = false;
#pragma unroll
                for (int height = 5 * level; height < 5 * level + 5; ++height) {
                    const bool is_set = group >> height & 1;
                    if (is_set) before = any ? blocks[height] + before : blocks[height];
                    any |= is_set;
                }
                before_all += before;
            }
            const int count = static_cast<int>(min(per_row - group * WARP, static_cast<u32>(WARP)));
            const u32 run = first + lane, place = run % known.PLACES;
            bool has_come = lane >= count;
            double total = 0, sum = 0;
            for (int given = 0; given <= count;) {
                if (!has_come) has_come = known.get(run, total);
                const u32 missing = __ballot_sync(ALL, !has_come);
                const int next = missing ? __ffs(missing) : count + 1;
                if (next == given) continue;
                sum = inclusive<WARP>(total, lane);
                const double start = before_all + exclusive<WARP>(sum, lane);
                if (given <= lane && lane < min(next, count)) {
                    known.starts[place] = start;
                    load::arrive(&known.found[place]);
                }
                given = next;
            }
            double block = __shfl_sync(ALL, sum, WARP - 1);
            bool ends = false;
#pragma unroll
            for (int height = 0; height < HEIGHTS; ++height) {
                if (ends) continue;
                ends = !(group >> height & 1);
                if (ends)
                    blocks[height] = block;
                else
                    block = blocks[height] + block;
            }
            first += count;
        }
    }
}

// Called by all WARPS warps of a block.  If no more totals arrive, carries are handed on for the chunks whose totals
// are there: otherwise blocks with few chunks under way would wait for them forever.
template <int WARPS>
__device__ inline void find_carries(const Scan& p, Known<WARPS>& known) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    known.clear();
    const u32 launch = launch_of(p);
    __syncthreads();
    const u32 chunks = static_cast<u32>(p.levels.chunks), per_row = static_cast<u32>(p.levels.runs[1]);
    const u32 runs = static_cast<u32>(p.rows) * per_row;
    if (warp == known.ADDING) {
        find_starts(known, static_cast<u32>(p.rows), per_row);
        return;
    }
    for (u32 run = warp; run < runs; run += known.ADDING) {
        const u32 row = p.rows == 1 ? 0 : run / per_row, j = run - row * per_row;
        const u32 place = run % known.PLACES, odd = run / known.PLACES & 1;
        const int count = static_cast<int>(min(chunks - j * WARP, static_cast<u32>(WARP)));
        const i64 own = static_cast<i64>(row) * chunks + j * WARP + lane;
        Slot total = {};
        bool has_come = lane >= count;
        u32 missing = ALL;
        int given = 0;
        while (missing) {
            if (!has_come) {
                total = glance(total_of_chunk(p, own));
                has_come = is_there(total, launch);
            }
            const u32 before = missing;
            missing = __ballot_sync(ALL, !has_come);
            const int next = missing ? min(__ffs(missing), count) : count;
            if (missing) {
                const bool is_new = missing != before || next == given;
                if (!__all_sync(ALL, !is_new && load::has_arrived(&known.found[place], odd))) continue;
            }
            const double sum = inclusive<WARP>(number_of(total), lane), earlier = exclusive<WARP>(sum, lane);
            if (!missing) {
                if (lane == WARP - 1) known.put(run, sum);
                __syncwarp();
                load::wait_for_copy(&known.found[place], odd);
            }
            const double start = known.starts[place];
            if (given <= lane && lane < next) hand_on(carry_of_chunk(p, own), start + earlier, launch);
            given = next;
        }
    }
}
#endif

}  // namespace tcu::scan
