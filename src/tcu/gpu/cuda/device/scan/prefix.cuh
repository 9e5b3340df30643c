// Sums of what comes before: inside a warp, and from block to block.
//
// In a run of 32 totals, the sum before position j is that of the largest aligned blocks that make up positions 0 to
// j - 1. Each block is added up pairwise, and the blocks from the last to the first: Sklansky's network computes
// these sums.

#pragma once

#include "device/types/types.cuh"

namespace tcu::scan {

// The inclusive sums in each run of WIDTH lanes.
template <int WIDTH>
__device__ inline double inclusive(double v, int lane) {
#pragma unroll
    for (int bit = 1; bit < WIDTH; bit *= 2) {
        const double before = __shfl_sync(ALL, v, (lane & ~(bit - 1)) - 1);
        if (lane & bit) v = before + v;
    }
    return v;
}

// The sum before each lane, from the inclusive sums.
template <int WIDTH>
__device__ inline double exclusive(double inclusive_sum, int lane) {
    const double before = __shfl_up_sync(ALL, inclusive_sum, 1);
    return lane % WIDTH ? before : 0;
}

// The sums of the aligned blocks that totals make up, which come one after another: what the network adds up.
template <int HEIGHTS>
struct AlignedBlocks {
    double sums[HEIGHTS];  // of the last block of 2^height totals

    // Returns the sum of the largest block that ends with this total.
    __device__ double push(u32 position, double total) {
        bool ends = false;
#pragma unroll
        for (int height = 0; height < HEIGHTS; ++height) {
            if (ends) continue;
            ends = !(position >> height & 1);
            if (ends)
                sums[height] = total;
            else
                total = sums[height] + total;
        }
        return total;
    }

    // The sum of the totals before a position, of what its bits FROM to TO - 1 name; then comes `later`, if it is any.
    template <int FROM, int TO>
    __device__ double before(u32 position, double later = 0, bool any = false) const {
#pragma unroll
        for (int height = FROM; height < TO; ++height) {
            const bool is_set = position >> height & 1;
            if (is_set) later = any ? sums[height] + later : sums[height];
            any |= is_set;
        }
        return later;
    }
};

// A number that blocks hand on.  Each half of its bits lies beside the number of the launch that wrote it.  So slots
// need no cleaning between launches, and an access of 8 bytes shows whether its half is there.
#include "generated/scans/Slot.inc"

__device__ inline Slot slot_of(double number, u32 beside) {
    const u64 bits = __double_as_longlong(number), tag = static_cast<u64>(beside) << 32;
    return {tag | bits >> 32, tag | (bits & ALL)};
}

__device__ inline void hand_on(Slot* slot, double number, u32 launch) {
    const Slot halves = slot_of(number, launch);
    // Atomic exchanges arrive earlier than stores (H200, scan of 2^24 numbers of binary32: 43.0 in place of 43.6 us).
    atomicExch(&slot->high, halves.high);
    atomicExch(&slot->low, halves.low);
}

__device__ inline Slot glance(const Slot* slot) {
    Slot s;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(s.high), "=l"(s.low) : "l"(slot) : "memory");
    return s;
}

__device__ inline bool is_there(const Slot& seen,
                                u32 launch) { return seen.high >> 32 == launch && seen.low >> 32 == launch; }
__device__ inline double number_of(const Slot& seen) { return __longlong_as_double(seen.high << 32 | (seen.low & ALL)); }

__device__ inline double wait_for(const Slot* slot, Slot seen, u32 launch) {
    while (!is_there(seen, launch)) seen = glance(slot);
    return number_of(seen);
}

#include "generated/scans/LIMITS.inc"

#include "generated/scans/Levels.inc"

// Counters that the blocks of a launch share.  The last block to leave prepares them for the next launch.
#include "generated/scans/ScanCounters.inc"

// How many launches came before this one: slots of theirs must not be taken for this launch's.  Memory begins with
// zeros.
__device__ inline u32 launches_before(const ScanCounters* shared) {
    u32 launches;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(launches) : "l"(&shared->launch) : "memory");
    return launches;
}

// The run of 32 totals of a level that chunk j of a row belongs to, and the chunk's place in it.
struct LevelRun {
    Slot* slots;
    int place;

    __device__ LevelRun(Slot* all, const Levels& levels, int level, i64 row, i64 j) {
        const i64 at = j >> 5 * level;
        place = static_cast<int>(at & 31);
        slots = all + levels.first[level] + row * levels.runs[level] + at - place;
    }
};

// The sum of a run's totals before `place`; each lane has one of them.
__device__ inline double before_place(double total, int place) {
    const double v = __shfl_sync(ALL, inclusive<WARP>(total, threadIdx.x % WARP), place - 1);
    return place ? v : 0;
}

// Called by a whole warp: waits for the totals of a run before its place, and returns their sum.  `seen` is an
// earlier look at the slot of this lane.
__device__ inline double before_in_run(const LevelRun& run, Slot seen, u32 launch) {
    const int lane = threadIdx.x % WARP;
    double v = 0;
    if (lane < run.place) v = wait_for(run.slots + lane, seen, launch);
    __syncwarp();
    return before_place(v, run.place);
}

// Waits for all totals of a run, and returns their sum.  `seen` as above.
__device__ inline double total_of_run(const Slot* slots, Slot seen, u32 launch) {
    double total = wait_for(slots + threadIdx.x % WARP, seen, launch);
    __syncwarp();
    // Pairwise, as the network does: others wait for this sum, and all prefix sums would take three times as long.
#pragma unroll
    for (int bit = 1; bit < WARP; bit *= 2) total += __shfl_xor_sync(ALL, total, bit);
    return total;
}

// Called by a whole warp when chunk j of a row has been handed on: hands on the totals of all runs that end with it.
__device__ inline void hand_on_runs(Slot* slots, const Levels& levels, i64 row, i64 j, u32 launch) {
    const int lane = threadIdx.x % WARP;
    for (int level = 0; level + 1 < levels.count; ++level) {
        const LevelRun run(slots, levels, level, row, j);
        if (run.place != WARP - 1) return;
        const double total = total_of_run(run.slots, glance(run.slots + lane), launch);
        const LevelRun above(slots, levels, level + 1, row, j);
        if (lane == 0) hand_on(above.slots + above.place, total, launch);
    }
}

}  // namespace tcu::scan
