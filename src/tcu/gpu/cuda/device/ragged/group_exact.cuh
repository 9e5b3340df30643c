// Sums of a group of segments where sums are exact, so that they may be added up in any order.

#pragma once

#include "device/ragged/group_list.cuh"

namespace tcu::ragged {

// Sums of 64-byte chunks of binary16 are multiples of 2^-24, and sums of 2^13 numbers are at most 2^29. So binary64
// adds them up without an error, and any order has the plan's bits.
constexpr bool IS_EXACT = ELEMENT == BINARY16;
constexpr bool TURN_BY_TURN = IS_EXACT && WITH_RESTS;

// The sum of a lane's chunks: every other one by itself, so that additions do not wait for each other.
__device__ inline double sum_one_by_one(const double* numbers, const Chunks64& chunks64) {
    constexpr int SOME = 4;
    double sum = 0, other = 0;
    u32 at = chunks64.first;
#pragma unroll 1
    for (int left = static_cast<int>(chunks64.count); __any_sync(ALL, left > 0); left -= SOME, at += SOME)
#pragma unroll
        for (int i = 0; i < SOME; i += 2) {
            if (left > i) sum += numbers[at + i];
            if (left > i + 1) other += numbers[at + i + 1];
        }
    return sum + other;
}

// As sums_of (ragged/group_trees.cuh). First come the whole chunks, as many at a time as have room, wherever a
// segment ends among them.  With the last of them comes what is left of each segment.
template <typename Where>
__device__ inline double exact_sums_of(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop,
                                       GroupMemory& shared) {
    const int lane = threadIdx.x % WARP;
    const u32 turned = chunk64_of_lane(lane), below = (1u << turned) - 1;
    double* const numbers = shared.numbers;
    const u32 chunks64 = length / CHUNK64, behind = warp::inclusive_scan(chunks64), before = behind - chunks64;
    const u32 all = __shfl_sync(ALL, behind, WARP - 1);
    const bool has_rest = length != chunks64 * CHUNK64, several = all > CAPACITY || longs;
    // Where the segment's chunks begin; far ahead if it has none.
    const u32 begins_at = chunks64 ? before - 1 : 1u << 31;
    // All listed chunks are whole, so the second field is not used.
    list_entries(shared, chunks64, {from - before * 64, 0});
    double sum = 0;
    u32 first = 0;
#pragma unroll 1
    for (u32 pending = __ballot_sync(ALL, length != 0); __any_sync(ALL, pending != 0);) {
        u32 first_byte = begin, end_byte = stop, limit = ALL, end = all, those = pending;
        Chunks64 own = {before, chunks64};
        if (several) {
            // Nothing behind the next long segment, and no more chunks than have room.
            if (const u32 next = longs & ~((pending & -pending) - 1)) {
                const int who = __ffs(next) - 1;
                limit = __shfl_sync(ALL, from, who);
                end = __shfl_sync(ALL, before, who);
                those &= (1u << who) - 1;
            }
            end = min(end, first + CAPACITY);
            those &= __ballot_sync(ALL, behind <= end);
            const u32 low = max(before, first), high = min(behind, end);
            own = {low - first, low < high ? high - low : 0};
            const bool is_done = those >> lane & 1;
            const u32 begin_byte = from + (own.count ? low - before : chunks64) * 64;
            const u32 skipped = (begin_byte - from) / static_cast<u32>(sizeof(Code));
            find_bytes(is_done || own.count, begin_byte, is_done ? length - skipped : own.count * CHUNK64, first_byte,
                       end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        u32 entry = entry_of(first, before, behind);
        u32 number = warp::opaque(turned + first), ahead = warp::opaque(begins_at - first);
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            const u32 at = next_entry(shared, entry, ahead, below).from + number * 64;
            where.need(at);
            where.template put<true>(at, CHUNK64, numbers,
                                     static_cast<int>(turned) < left ? static_cast<int>(number - first) : -1, left);
        }
        double last = 0;
        const bool takes = has_rest && those >> lane & 1;
        where.template put<false>(takes ? from + chunks64 * 64 : 0, static_cast<int>(length - chunks64 * CHUNK64), &last,
                                  takes ? 0 : -1, WARP);
        where.leave();
        __syncwarp();
        sum += sum_one_by_one(numbers, own) + last;
        __syncwarp();
        first = end;
        pending &= ~those;
    }
    return sum;
}

// What the chunks of a turn, one in each lane, add to the lanes' segments.  A lane's segment has chunks `low` to
// `high` - 1: the difference of two running sums, which is exact.
__device__ inline double sum_of_chunks64(double chunk64, int low, int high) {
    low = min(max(low, 0), WARP);
    high = min(max(high, 0), WARP);
    const double running = warp::inclusive_scan<WARP>(chunk64);
    double sum = 0;
    if (__any_sync(ALL, running - running != 0)) {  // inf or NaN
#pragma unroll 1
        for (int i = 0; i < WARP; ++i) {
            const double one = __shfl_sync(ALL, chunk64, i);
            if (low <= i && i < high) sum += one;
        }
        return sum;
    }
    const double behind = __shfl_sync(ALL, running, high - 1), before = __shfl_sync(ALL, running, low - 1);
    if (low < high) sum = behind - (low ? before : 0);
    return sum;
}

// As exact_sums_of, where TURN_BY_TURN: all chunks are taken as they come, and no sums of them are kept.
template <typename Where>
__device__ inline double sums_of_turns(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop,
                                       GroupMemory& shared) {
    constexpr u32 EACH = WARP / LANES;  // chunks of an MMA
    const int lane = threadIdx.x % WARP;
    const u32 turned = chunk64_of_lane(lane), below = (1u << turned) - 1;
    const u32 source = warp::opaque(lane % EACH * LANES + lane / EACH);  // the lane that has 64-byte chunk number `lane`
    const u32 chunks64 = (length + CHUNK64 - 1) / CHUNK64;
    const u32 behind = warp::inclusive_scan(chunks64), before = behind - chunks64;
    list_entries(shared, chunks64, {from - before * 64, length + before * CHUNK64});
    double sum = 0;
    for_each_stretch(where, before, behind, from, length, longs, begin, stop, [&](u32 first, u32 end) {
        u32 entry = entry_of(first, before, behind);
        u32 number = warp::opaque(turned + first), ahead = warp::opaque((chunks64 ? before - 1 : 1u << 31) - first);
        int low = static_cast<int>(before - first);
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP, low -= WARP) {
            const Entry mine = next_entry(shared, entry, ahead, below);
            const u32 at = mine.from + number * 64;
            where.need(at);
            double chunk64 = 0;
            where.template put<false>(at, min(static_cast<int>(mine.rest - number * CHUNK64), CHUNK64), &chunk64,
                                      static_cast<int>(turned) < left ? 0 : -1, left);
            sum += sum_of_chunks64(__shfl_sync(ALL, chunk64, source), low, low + static_cast<int>(chunks64));
        }
    });
    return sum;
}

}  // namespace tcu::ragged
