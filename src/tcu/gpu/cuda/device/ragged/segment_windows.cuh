// A warp's way through segments that follow each other, by windows: as many segments at a time as have room in shared
// memory.  A bulk copy brings their numbers there.  No warp waits for another.
//
// With room for two windows, the next of which is copied while the warp works on the present one, windows are smaller, and
// it was slower: running sums of binary16, segments of 100 numbers on average, 2.6 in place of 2.8 TB/s, of 4 numbers 1.9
// in place of 2.8 (H200, 2^28 numbers).  So it was where each warp asked L2 for what the warp after it reads: binary32 of 100
// numbers 2.7 in place of 3.6.
//
// Compiled with ELEMENT, for sm_90 and later, and
//   MARKED     1, of 16 or 32 bits: there are marks, and what shares granules with a window's numbers becomes +0

#pragma once

#include "device/exact/range.cuh"
#include "device/load/bulk_copy.cuh"
#include "device/warp/uniform.cuh"

namespace tcu::ragged {

constexpr int SIZE = sizeof(Code);
constexpr int LINE = load::LINE;  // bytes of memory that are lines of shared memory, too (load/ring.cuh)

// Whole segments in shared memory.
struct SegmentWindow {
    i64 segment;  // the first
    i64 begin;    // in elements of the array
    int segments;
    int count;  // numbers
    char* numbers;
    const u16* begins;  // of the segments, from the window's, and the end of the last
    u32* marks;         // a bit for each number, and more than one behind the last: set where a segment begins
};

#if MARKED
#if ELEMENT == BINARY32
// The largest magnitude, and the smallest one that is not zero, less one.
struct MagnitudeRange {
    u32 largest = 0, smallest = ALL;

    __device__ void see(u32 word) {
        const u32 magnitude = word & 0x7fffffff;
        largest = max(largest, magnitude);
        smallest = min(smallest, magnitude - 1);
    }
    __device__ int top() const { return static_cast<int>(warp::reduce_max(static_cast<int>(largest))) >> exact::FRACTION; }
    __device__ int bottom() const {
        const u32 least = warp::reduce_min(smallest);
        return least == ALL ? exact::FIELDS : static_cast<int>(least + 1) >> exact::FRACTION;
    }
};
#else
struct MagnitudeRange : exact::PairRange {
    __device__ int top() const { return warp::reduce_max(max(PairRange::top(0), PairRange::top(1))); }
    __device__ int bottom() const {
        return exact::FIELDS - warp::reduce_max(exact::FIELDS - min(PairRange::bottom(0), PairRange::bottom(1)));
    }
};
#endif

// Whether no sum of the window's numbers is rounded, in whatever order they are added up.
__device__ inline bool sums_are_exact(const SegmentWindow& window) {
    const int past = static_cast<int>(reinterpret_cast<u64>(window.numbers) % 16);
    const uint4* const granules = reinterpret_cast<const uint4*>(window.numbers - past);
    MagnitudeRange seen;
#pragma unroll 4
    for (int i = threadIdx.x % WARP; i * 16 < past + window.count * SIZE; i += WARP) {
        Vector x;
        x.words = granules[i];
#pragma unroll
        for (int word = 0; word < 4; ++word) seen.see(x.word[word]);
    }
    return exact::fits(seen.top(), seen.bottom(), 32 - __clz(window.count - 1), 53);
}
#endif

// Marks are read 512 at a time.
__device__ constexpr int words_of_marks(int count) { return ((count + 16 / SIZE) / 512 + 1) * 16 + 1; }

// How many segments have room together, of up to `most`.  Called by a whole warp.
__device__ inline int fitting(const i64* offsets, i64 begin, int most, i64 room) {
    const int lane = threadIdx.x % WARP;
    int low = 0, high = most + 1;
#pragma unroll 1
    while (high - low > 1) {
        const int step = (high - low + WARP - 1) / WARP, at = low + (lane + 1) * step;
        bool fits = at < high;
        if (fits) fits = static_cast<u64>(offsets[at] - begin) <= static_cast<u64>(room);
        const u32 missing = ~__ballot_sync(ALL, fits);
        const int found = missing ? __ffs(missing) - 1 : WARP;
        high = min(high, low + (found + 1) * step);
        low += found * step;
    }
    return low;
}

// What for_each_window reads and writes: `offsets` of `segments` in `n` numbers at `data`; `per_warp` of them, `tile`
// numbers at most that have room; and where in shared memory, from `marks`, the begins and the numbers lie.
//
// `place`: where a segment's mark is, by where it begins and ends, the window's count, and how many numbers lie in the
// window's first granule before it.  `invalid`: called for a
// segment that ends before it begins, or outside the array.  `too_long`: for one that has no room.  `use`: for all
// others, with windows; what it reads shared memory for is done when it returns.
template <typename Problem, typename Place, typename Invalid, typename TooLong, typename Use>
__device__ inline void for_each_window(const Problem& p, u64* full, u32* marks, const Place& place,
                                       const Invalid& invalid, const TooLong& too_long, const Use& use) {
    u16* const begins = reinterpret_cast<u16*>(reinterpret_cast<char*>(marks) + p.begins);
    char* const room = reinterpret_cast<char*>(marks) + p.numbers;
    const int lane = threadIdx.x % WARP;
    const i64 last = min(blockIdx.x * p.per_warp + p.per_warp, p.segments);
    if (lane == 0) load::prepare(full);
    __syncwarp();
    u32 odd = 0;
    i64 alone = 0;  // segments before this one are taken one by one, as not all of them are valid
#pragma unroll 1
    for (i64 segment = blockIdx.x * p.per_warp; segment < last;) {
        const i64* const offsets = p.offsets + segment;
        int together = segment < alone ? 1 : static_cast<int>(last - segment);
        const i64 begin = offsets[0];
        i64 end = offsets[together];
        if (static_cast<u64>(end - begin) > static_cast<u64>(p.tile)) {
            together = max(fitting(offsets, begin, together - 1, p.tile), 1);
            end = offsets[together];
        }
        const i64 size = end - begin;
        if (begin < 0 || size < 0 || end > p.n) {
            if (together > 1) {
                alone = segment + together;
            } else {
                invalid(segment);
                ++segment;
            }
            continue;
        }
        if (size > p.tile) {
            too_long(segment, begin, size);
            ++segment;
            continue;
        }
        const int count = static_cast<int>(size);
        const u64 from = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + begin);
        char* const numbers = room + from % LINE;
        const int shift = static_cast<int>(from % 16);
        if (lane == 0 && count)
            load::copy_bulk(numbers - shift, reinterpret_cast<const void*>(from - shift),
                            (shift + count * SIZE + 15) / 16 * 16, full);
        if (MARKED)
            for (int i = lane; i < words_of_marks(count); i += WARP) marks[i] = 0;
        __syncwarp();
        bool good = true;
        for (int i = lane; i < together; i += WARP) {
            const i64 first = offsets[i] - begin, behind = offsets[i + 1] - begin;
            good = good && first <= behind && first >= 0 && behind <= count;
            begins[i] = static_cast<u16>(first);
            if (MARKED && good) {
                const int mark = place(static_cast<int>(first), static_cast<int>(behind), count, shift / SIZE);
                atomicOr(&marks[mark / 32], 1u << mark % 32);
            }
        }
        if (lane == 0) begins[together] = static_cast<u16>(count);
        good = __all_sync(ALL, good);
        if (count) {
            load::wait_for_copy(full, odd);
            odd ^= 1;
        }
        if (MARKED) {
            Code* const codes = reinterpret_cast<Code*>(numbers);
            if (lane < shift / SIZE) codes[lane - shift / SIZE] = 0;
            if (lane < PER_LOAD) codes[count + lane] = 0;
            __syncwarp();
        }
        if (good) {
            use(SegmentWindow{segment, begin, together, count, numbers, begins, marks});
            segment += together;
        } else {
            alone = segment + together;
        }
        __syncwarp();
    }
}

}  // namespace tcu::ragged
