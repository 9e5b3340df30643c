// The results of a lane's group in a scan of lines.  `RunningSums` has the running sums of the group
// (scan/exact_lines.cuh or scan/plan_lines.cuh).
//
// Compiled as scan/group.cuh says.

#pragma once

#include "device/scan/any_place.cuh"
#include "device/scan/group.cuh"

namespace tcu::scan {

// Result i of a group in the order of the scan, where `carry` is the sum of the row before the group.
template <typename RunningSums>
__device__ inline double result_of(const RunningSums& running, int i, double carry) {
    return EXCLUSIVE ? i ? running.after(i - (i > 0), carry) : carry : running.after(i, carry);
}

union Results {
    Group group;
    finish::ResultCode codes[GROUP];
    u32 word[GROUP * sizeof(finish::ResultCode) / 4];
};

// The results of a group, in the order of memory, where `carry` is the sum of the row before it.
template <typename RunningSums>
__device__ inline Results rounded_results(const RunningSums& running, double carry) {
    Results r;
    if (sizeof(finish::ResultCode) == 2) {
#pragma unroll
        for (int i = 0; i < GROUP; i += 2) {
            const double first = result_of(running, i, carry), second = result_of(running, i + 1, carry);
            r.group.word[(REVERSE ? GROUP - 1 - i : i) / 2 % 8] =
                REVERSE ? finish::rounded_pair(second, first) : finish::rounded_pair(first, second);
        }
    } else {
#pragma unroll
        for (int i = 0; i < GROUP; ++i) r.codes[REVERSE ? GROUP - 1 - i : i] = finish::rounded(result_of(running, i, carry));
    }
    return r;
}

// What lies around a lane's results.  `joins`: whether they are there, and those before them belong to another lane.
// Called by a whole warp.
__device__ inline Around around(const Results& r, bool joins) {
    constexpr int LAST = sizeof(r.word) / 4 - 1;
    const int lane = threadIdx.x % WARP;
    const u32 before = REVERSE ? __shfl_down_sync(ALL, r.word[LAST], 1) : __shfl_up_sync(ALL, r.word[LAST], 1);
    const u32 all = __ballot_sync(ALL, joins);
    return {before, joins, (REVERSE ? all << 1 >> lane : all >> lane >> 1) % 2 != 0};
}

// A group in shared memory, which begins at a multiple of BYTES bytes.
template <int BYTES>
__device__ inline Group group_at(const char* at) {
    Group x;
    if constexpr (BYTES == 16)
        x = *reinterpret_cast<const Group*>(at);
    else
        read_words<BYTES>(at, x.word);
    return x;
}

template <int BYTES>
__device__ inline void put_group(char* at, const Group& x) {
    if constexpr (BYTES == 16)
        *reinterpret_cast<Group*>(at) = x;
    else
        write_words<BYTES>(at, x.word);
}

// The results of a lane's group, stored in place of the numbers, where `start` is the sum of the row before the line.
template <int BYTES, typename RunningSums>
__device__ inline void put(const RunningSums& running, char* at, double start) {
    const Results r = rounded_results(running, running.carry(start));
    if constexpr (BYTES == 2)
        write_words<BYTES>(at, r.word, around(r, threadIdx.x % WARP != (REVERSE ? WARP - 1 : 0)));
    else
        put_group<BYTES>(at, r.group);
}

// The results of a lane's group for any numbers, inf and NaN too.  Returns the sum of the row of WIDTH groups up to
// this one.
template <int WIDTH>
__device__ inline double any_results_of(const Group x, double start, finish::ResultCode (&codes)[GROUP]) {
    const int lane = threadIdx.x % WARP;
    const double sum = inclusive<WIDTH>(total(x), lane);
    scanned(x, start + exclusive<WIDTH>(sum, lane), codes);
    return sum;
}

// Scans a line in this way, with results in place of the numbers.  Returns the sum of its last row, in the last lane.
// It is rarely called, and not inline, so that it takes no registers from the callers.
template <int WIDTH, int BYTES>
__device__ __noinline__ double scan_any(char* at, double start) {
    Results r;
    const double sum = any_results_of<WIDTH>(group_at<BYTES>(at), start, r.codes);
    put_group<BYTES>(at, r.group);
    return sum;
}

}  // namespace tcu::scan
