// A warp's way through segments that follow each other, by windows: as many segments at a time as have room in shared
// memory.  A bulk copy brings their numbers there.  No warp waits for another.
//
// Compiled with ELEMENT, for sm_90 and later, and
//   MARKED     1, of 16 or 32 bits: there are marks, and what shares granules with a window's numbers becomes +0

#pragma once

#include "device/exact/range.cuh"
#include "device/load/bulk_copy.cuh"
#include "device/warp/uniform.cuh"

namespace tcu::ragged {

constexpr int SIZE = sizeof(Code);
constexpr int LINE = 128;  // bytes of memory that are lines of shared memory, too (load/ring.cuh)

// Whole segments that have room in shared memory together.
struct SegmentStretch {
    i64 segment = 0;  // the first
    i64 begin = 0;    // in elements of the array
    int segments = 0;
    int count = 0;  // numbers
};

// The same in shared memory.
struct SegmentWindow : SegmentStretch {
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

// A warp's way, on which the numbers of the next window are copied to shared memory while it works on the present one.
// Two windows have room: the one that is worked on and the next.
//
// `Problem` has `offsets` of `segments` in `n` numbers at `data`; `per_warp` of them, of which `most` and `tile` numbers at
// most have room; and where in shared memory, from the marks on, the begins and the numbers lie, and how far apart the numbers of
// two windows are (`window`).
template <typename Problem>
struct WindowWay {
    const Problem& p;
    u64* full;   // two barriers
    u32* marks;  // the first of what p.begins and p.numbers count from
    i64 segment, last;
    int stage = 0;
    u32 odd = 0;  // parities, a bit for each stage

    __device__ WindowWay(const Problem& p, u64* full, u32* marks)
        : p(p), full(full), marks(marks), segment(blockIdx.x * p.per_warp), last(min(segment + p.per_warp, p.segments)) {
        if (threadIdx.x == 0) {
            load::prepare(full);
            load::prepare(full + 1);
        }
        __syncwarp();
    }

    // The next window; it has no segments if there is none.  Calls `other` for each segment before it that has no room,
    // or is invalid: it ends before it begins, or outside the array.
    template <typename Other>
    __device__ SegmentStretch next(const Other& other) {
        const int lane = threadIdx.x % WARP;
        SegmentStretch window;
#pragma unroll 1
        while (segment < last) {
            const i64* const offsets = p.offsets + segment;
            const i64 begin = offsets[0];
            int together = static_cast<int>(min(last - segment, p.most));
            i64 end = offsets[together];
            if (static_cast<u64>(end - begin) > static_cast<u64>(p.tile)) {
                together = fitting(offsets, begin, together - 1, p.tile);
                end = offsets[max(together, 1)];
            }
            if (together == 0 || begin < 0 || end > p.n) {
                other(segment, begin, end);
                ++segment;
                continue;
            }
            segment += together;
            const i64* const ahead = p.offsets + segment + lane * (LINE / sizeof(i64));
            if (ahead < p.offsets + last) asm volatile("prefetch.global.L2 [%0];" ::"l"(ahead));
            window.segment = segment - together;
            window.begin = begin;
            window.segments = together;
            window.count = static_cast<int>(end - begin);
            break;
        }
        return window;
    }

    __device__ u64 address(const SegmentStretch& window) const {
        return reinterpret_cast<u64>(static_cast<const Code*>(p.data) + window.begin);
    }
    __device__ char* numbers(const SegmentStretch& window, int stage) const {
        return reinterpret_cast<char*>(marks) + p.numbers + stage * p.window + address(window) % LINE;
    }
    __device__ u16* begins() const { return reinterpret_cast<u16*>(reinterpret_cast<char*>(marks) + p.begins); }
    __device__ SegmentWindow in_memory(const SegmentStretch& window, int stage) const {
        return {window, numbers(window, stage), begins(), marks};
    }

    // Asks for a window's numbers, which go to a stage.
    __device__ void ask(const SegmentStretch& window, int stage) const {
        if (threadIdx.x || window.count == 0) return;
        const u64 from = address(window), shift = from % 16;
        load::copy_bulk(numbers(window, stage) - shift, reinterpret_cast<const void*>(from - shift),
                        static_cast<u32>(shift + window.count * SIZE + 15) / 16 * 16, full + stage);
    }

    __device__ void wait(const SegmentStretch& window, int stage) {
        if (window.count == 0) return;
        load::wait_for_copy(full + stage, odd >> stage & 1);
        odd ^= 1u << stage;
        if (!MARKED) return;
        Code* const codes = reinterpret_cast<Code*>(numbers(window, stage));
        const int lane = threadIdx.x % WARP, past = static_cast<int>(reinterpret_cast<u64>(codes) % 16) / SIZE;
        if (lane < past) codes[lane - past] = 0;
        if (lane < PER_LOAD) codes[window.count + lane] = 0;
        __syncwarp();
    }

    // Lists where the window's segments begin, and marks their places; returns whether all of them are valid.
    template <typename Place>
    __device__ bool list(const SegmentStretch& window, const Place& place) const {
        const int lane = threadIdx.x % WARP;
        const i64* const offsets = p.offsets + window.segment;
        u16* const begins = this->begins();
        const int past = static_cast<int>(address(window) % 16) / SIZE;
        if (MARKED)
            for (int i = lane; i < words_of_marks(window.count); i += WARP) marks[i] = 0;
        __syncwarp();
        bool good = true;
#pragma unroll 2
        for (int i = lane; i < window.segments; i += WARP) {
            const i64 begin = offsets[i] - window.begin, end = offsets[i + 1] - window.begin;
            good = good && begin >= 0 && begin <= end && end <= window.count;
            begins[i] = static_cast<u16>(begin);
            if (MARKED && good) {
                const int mark = place(static_cast<int>(begin), static_cast<int>(end), window.count, past);
                atomicOr(&marks[mark / 32], 1u << mark % 32);
            }
        }
        if (lane == 0) begins[window.segments] = static_cast<u16>(window.count);
        good = __all_sync(ALL, good);
        __syncwarp();
        return good;
    }
};

// Goes through a warp's windows.  `place`: where a segment's mark is, by where it begins and ends, the window's count, and
// how many numbers lie in the window's first granule before it.  `other`: as WindowWay::next calls it.  `use`: called with
// each window; may start stores from shared memory, by the first lane.
template <typename Problem, typename Place, typename Other, typename Use>
__device__ inline void for_each_window(const Problem& p, u64* full, u32* marks, const Place& place, const Other& other,
                                       const Use& use) {
    WindowWay<Problem> way(p, full, marks);
    SegmentStretch now = way.next(other);
    if (now.segments) way.ask(now, 0);
#pragma unroll 1
    for (int stage = 0; now.segments; stage ^= 1) {
        const SegmentStretch ahead = way.next(other);
        const bool good = way.list(now, place);
        if (threadIdx.x == 0) load::wait_for_stores();  // of the window before
        __syncwarp();
        if (ahead.segments) way.ask(ahead, stage ^ 1);
        way.wait(now, stage);
        if (good) use(way.in_memory(now, stage));
        // As not all of them are valid, the segments are taken one by one.
        for (int i = 0; !good && i < now.segments; ++i) {
            SegmentStretch one;
            one.segment = now.segment + i;
            one.begin = p.offsets[one.segment];
            one.segments = 1;
            const i64 end = p.offsets[one.segment + 1];
            if (one.begin < 0 || one.begin > end || end > p.n || end - one.begin > p.tile) {
                other(one.segment, one.begin, end);
                continue;
            }
            one.count = static_cast<int>(end - one.begin);
            way.ask(one, stage);
            way.list(one, place);
            way.wait(one, stage);
            use(way.in_memory(one, stage));
            if (threadIdx.x == 0) load::wait_for_stores();
            __syncwarp();
        }
        now = ahead;
    }
    if (threadIdx.x == 0) load::wait_for_stores();
}

}  // namespace tcu::ragged
