// What the kernels of ragged segments share: the way of a warp through its segments, group by group
// (ragged/group_sums.cuh), and the handling of groups that are not as usual.
//
// A segment of more numbers than the host says (Segments.most) is long, and left to another launch (long_segments.cu,
// long_chunks.cu). A segment that is invalid (it ends before it begins, or outside the array) gives NaN. So does a
// long one that has no room in the queue because others overlap.
//
// Compiled with what ragged/group_sums.cuh needs, and
//   MORE       how many times as many segments the first warps have
// A block is one warp.  The compiler sees that each of its branches is uniform.

#pragma once

#include "device/load/ring.cuh"
#include "device/ragged/group_sums.cuh"
#include "device/ragged/segment_list.cuh"

namespace tcu::ragged {

constexpr int READ = (32 + 3 * 16) / sizeof(Code);  // elements that are read from a chunk's first one on, at most

// A run: segments of a warp that follow each other.  It lies in shared memory, as it is looked at once in a group of
// segments: registers are for what every turn needs.
struct SegmentRun {
    i64 first;    // segment
    i64 begin;    // of the first segment, in elements
    u32 count;    // segments
    u32 size;     // elements of all segments: few enough that 32 bits count their bytes
    u32 bytes;    // bytes of all, from the base on
    u32 careful;  // segments that end here or later must be read element by element
    u32 plain;    // whether results are sums, and no means, in binary32
};

__device__ inline float rounded(double sum) {
    const float v = __double2float_rn(sum + 0.0);
    return v != v ? __int_as_float(0x7fffffff) : v;
}

template <typename Source>
__device__ inline double sums_from_memory(const char* base, u32 from, u32 length, GroupMemory& shared) {
    Outside<Source> where = {base};
    return sums_of_group<WARP, false>(where, from, length, 0, 0, 0, shared);
}

// Any group of segments of a run, from memory: stores sums, appends long segments to the queue, and stores NaN for
// invalid ones.  `done` segments of the run come before the group.  `begin` and `end` count from the run's begin.  It
// is rarely called, and not inline, so that it takes no registers from the callers.
__device__ __noinline__ void sum_group_from_memory(const Segments& p, const SegmentRun& run, u32 done, bool has_lane,
                                                   u32 begin,
                                                   u32 end, GroupMemory& shared) {
    const u32 lane = threadIdx.x % WARP;
    const u32 shift = run.bytes - run.size * static_cast<u32>(sizeof(Code));
    const bool is_one = has_lane && begin <= end && end <= run.size;
    const u32 length = is_one ? end - begin : 0;
    const u32 from = is_one ? begin * static_cast<u32>(sizeof(Code)) + shift : 0;
    const bool is_long = length > static_cast<u32>(p.most);
    // A segment that list_segments.cu has listed gets its sum elsewhere, even where it is not a valid one of this
    // warp.
    const i64 segment = run.first + done + lane;
    const bool is_known = is_listed(p, segment, has_lane && (is_long || !is_one));
    const bool is_new = is_long && !is_known;
    if (__any_sync(ALL, is_new)) append_all(p, segment, run.begin + begin, is_new ? length : 0);
    const char* const base = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + run.begin) - shift;
    double sum;
    const u32 numbers = is_long ? 0 : length;
    if (__any_sync(ALL, has_lane && end >= run.careful))
        sum = sums_from_memory<Careful>(base, from, numbers, shared);
    else
        sum = sums_from_memory<Direct>(base, from, numbers, shared);
    if (has_lane && !is_long && !is_known) store_any(p, segment, is_one ? sum : not_a_number(), length);
}

// Goes through the runs of a warp.  Usually all its segments are one run.  They are taken one by one where they are
// too long together, or where offsets are wrong.  `offset` reads an offset for all lanes.
template <typename Read, typename SumRun>
__device__ inline void for_each_run(const Segments& p, SegmentRun& run, const Read& offset, const SumRun& sum_run) {
    const int lane = threadIdx.x % WARP;
    const i64 warp = blockIdx.x, before = min(warp, p.first);
    i64 segment = ((MORE - 1) * before + warp) * p.per_warp;
    const i64 last = min(segment + (warp < p.first ? MORE : 1) * p.per_warp, p.segments);
    // Prefetches the ends of the first turn, which otherwise are asked for only when the run's offsets are known.
    if (segment + lane < last) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.offsets + segment + 1 + lane));
    // The vote tells the compiler that the warp stays together.
#pragma unroll 1
    while (__any_sync(ALL, segment < last)) {
        const i64 begin = offset(segment);
#pragma unroll 1
        for (i64 behind = last;; behind = segment + 1) {
            const i64 end = offset(behind), size = end - begin;
            const bool good = begin >= 0 && size >= 0 && end <= p.n;
            if (__any_sync(ALL, good && size < 1ll << 28)) {
                const u32 shift = load::behind_line(p.data, static_cast<const Code*>(p.data) + begin);
                const u32 elements = static_cast<u32>(size);
                __syncwarp();
                if (lane == 0)
                    run = {segment,
                           begin,
                           static_cast<u32>(behind - segment),
                           elements,
                           elements * static_cast<u32>(sizeof(Code)) + shift,
                           static_cast<u32>(max(min(p.n - begin - READ, size), -1ll) + 1),
                           p.target == finish::TO_BINARY32 && !p.mean};
                __syncwarp();
                sum_run();
                segment = run.first + run.count;  // read again, so that it takes no registers meanwhile
                break;
            }
            if (__any_sync(ALL, behind == segment + 1)) {
                if (__any_sync(ALL, good))
                    append_unlisted(p, segment, begin, lane ? 0 : size);
                else if (lane == 0)
                    store_any(p, segment, not_a_number(), 0);
                ++segment;
                break;
            }
        }
    }
}

}  // namespace tcu::ragged
