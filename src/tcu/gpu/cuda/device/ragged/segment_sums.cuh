// What the kernels of ragged segments share: a warp's way through its segments, group by group (ragged/group_sums.cuh), and what
// becomes of a group, whatever it is.
//
// What has more numbers than the host says (Segments.most) is long, and left to another launch (long_segments.cu,
// long_chunks.cu).  A segment that is none (it ends before it begins, or elsewhere than in the array) gives NaN, and so does
// a long one for which there is no room because others overlap.
//
// Compiled with what ragged/group_sums.cuh needs, and
//   MORE       how many times as many segments the first warps have
// A warp is a block, whose every branch the compiler sees to be one.

#pragma once

#include "device/load/ring.cuh"
#include "device/ragged/group_sums.cuh"
#include "device/ragged/segment_list.cuh"

namespace tcu::ragged {

constexpr int READ = (32 + 3 * 16) / sizeof(Code);  // elements that are read from the first of a 64-byte chunk on, at most

// Segments of a warp, one after another.  In shared memory, as what is looked at once in a group of segments: registers
// are for what every turn needs.
struct SegmentRun {
    i64 first;    // segment
    i64 begin;    // of the first, in elements
    u32 count;    // segments
    u32 size;     // elements of all: 32 bits count their bytes
    u32 bytes;    // the same from the base on
    u32 careful;  // a segment that ends here or later must be read with care
    u32 plain;    // whether results are sums of binary32
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

// Of a group of segments of a run, behind `done` others, from memory, whatever they are: sums, items of the list, or NaN.
// Begins and ends are from the run's begin on.  Not inline, so that it takes no registers where it is done once in many.
__device__ __noinline__ void sum_group_from_memory(const Segments& p, const SegmentRun& run, u32 done, bool has_lane, u32 begin,
                                                   u32 end, GroupMemory& shared) {
    const u32 lane = threadIdx.x % WARP;
    const u32 shift = run.bytes - run.size * static_cast<u32>(sizeof(Code));
    const bool is_one = has_lane && begin <= end && end <= run.size;
    const u32 length = is_one ? end - begin : 0;
    const u32 from = is_one ? begin * static_cast<u32>(sizeof(Code)) + shift : 0;
    const bool is_long = length > static_cast<u32>(p.most);
    // What was listed ahead has its sum, even where it is none of this warp's.
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

// The runs of a warp: all its segments at once; one by one where they are too long together, or where offsets are not
// what they should be.  `offset` reads one for all lanes.
template <typename Read, typename SumRun>
__device__ inline void for_each_run(const Segments& p, SegmentRun& run, const Read& offset, const SumRun& sum_run) {
    const int lane = threadIdx.x % WARP;
    const i64 warp = blockIdx.x, before = min(warp, p.first);
    i64 segment = ((MORE - 1) * before + warp) * p.per_warp;
    const i64 last = min(segment + (warp < p.first ? MORE : 1) * p.per_warp, p.segments);
    // The first turn's ends, which else are asked for only when the run's are known.
    if (segment + lane < last) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.offsets + segment + 1 + lane));
    // Votes say to the compiler that the warp stays together.
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
                segment = run.first + run.count;  // read anew: meanwhile, it takes no registers
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
