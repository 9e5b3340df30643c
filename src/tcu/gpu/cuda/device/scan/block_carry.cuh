// What comes before each chunk of rows that have more than 32 of them: found by one block, for all others.
//
// A warp has the totals of a run of 32 chunks, each of a lane, and one warp what whole runs come to, which the others tell it
// in shared memory.  So what a block has added up is seen by those that wait for it 2.5 us later.  While each block looked
// for itself, at up to 32 totals of each level, which other blocks had added up, it took 5 us, as the slots at which
// all looked answered late (H200, 2^24 numbers of binary32, while blocks still drew their chunks: 43.9 in place of 41.1 us).
//
// Slower: one warp that goes from run to run (0.3 us each, which is as long as others take for 1.2 runs), warps that look
// for each other's totals until these are there, as they keep those that add up waiting (42.6), and what comes before a
// chunk handed on as soon as it can be, while more totals come (42.3).

#pragma once

#include "device/load/bulk_copy.cuh"
#include "device/scan/rows.cuh"

namespace tcu::scan {

// The number of this launch, in slots.  By a whole warp.
__device__ inline u32 launch_of(const Scan& p) {
    u32 launches = 0;
    if (threadIdx.x % WARP == 0) launches = launches_before(p.shared);
    return __shfl_sync(ALL, launches, 0) + 1;
}

// Of all rows' chunks, in their order: what each comes to, and behind that what comes before it.
__device__ inline Slot* total_of_chunk(const Scan& p, i64 number) { return p.slots + number; }
__device__ inline Slot* carry_of_chunk(const Scan& p, i64 number) { return p.slots + p.shares + number; }

#if LEVELS > 1
// What warps of the block tell each other, of runs.  A run's place is that of the same warp's next run but one, for which
// the total is put when the next one's start has been taken, which is not found before this total has been read.
template <int WARPS>
struct Known {
    static constexpr int ADDING = WARPS - 1;  // the last one finds what comes before runs
    static constexpr int PLACES = 2 * ADDING;
    static_assert(PLACES >= WARP, "one for each of a run of runs");

    Slot totals[PLACES];  // each half beside the run's number: 32 barriers would be looked at one after another
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

    // Whether it is there.
    __device__ bool get(u32 run, double& total) const {
        const volatile Slot& place = totals[run % PLACES];
        const Slot seen = {place.high, place.low};
        if (!is_there(seen, run)) return false;
        total = number_of(seen);
        return true;
    }
};

// What comes before runs, by one warp: each lane for one of a run of runs.
template <int WARPS>
__device__ inline void find_starts(Known<WARPS>& known, u32 rows, u32 per_row) {
    constexpr int HEIGHTS = 5 * (LEVELS - 2);
    const int lane = threadIdx.x % WARP;
    u32 first = 0;
    for (u32 row = 0; row < rows; ++row) {
        // Of aligned blocks of 2^height runs of runs of the row, the last ones: what the networks of the levels above add up.
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

// By all WARPS warps of a block.  Where no more totals come, what comes before chunks is handed on for those that have come:
// blocks with few chunks under way would wait for it for ever.
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
