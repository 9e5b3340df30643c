// What the kernels of ragged segments share: sums of segments by MMAs, a warp's way through its run of segments, and
// what becomes of a group of segments that is not as most are.
//
// Compiled with ELEMENT (array.cuh; LAYOUT is not looked at) and THREADS.
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#pragma once

#include "items.cuh"
#include "quads.cuh"
#include "plan_loads.cuh"
#include "result.cuh"

constexpr int WARPS = THREADS / WARP;
constexpr int TILES = 8;
constexpr int QUAD = 4 * PER_LOAD;  // numbers
constexpr int READ = (32 + 3 * 16) / sizeof(Code);  // elements that are read from the first of a quad on, at most
constexpr int CAPACITY = PARTS == 1 ? 384 : 128;  // quads whose sums are in shared memory
constexpr int WIDTH = 8 * PARTS;  // numbers of a tile

struct Segments {
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, one after another
    i64 most;      // numbers of a segment that is not long: at most TILES tiles
    i64 together;  // of long segments: numbers that a block loads at a time
    List list;
};

// A segment that has numbers.
struct alignas(16) Entry {
    u32 from;   // bytes from the base
    u32 quads;  // of those before it
    u32 length;
};

struct Shared {
    Entry entries[WARP];
    double numbers[(CAPACITY + WARP) * PARTS];
};

// The tree over `count` numbers, at most WIDTH.
template <int WIDTH, typename Read>
__device__ inline double tree_over(int count, const Read& read, int first = 0, int step = 1) {
    if constexpr (WIDTH == 1)
        return first < count ? read(first) : 0;
    else
        return tree_over<WIDTH / 2>(count, read, first, 2 * step) +
               tree_over<WIDTH / 2>(count, read, first + step, 2 * step);
}

// The sum over all lower lanes and this one.
__device__ inline u32 up_to_lane(u32 v) {
#pragma unroll
    for (int step = 1; step < WARP; step *= 2)
        asm volatile("{ .reg .pred p; .reg .s32 r; shfl.sync.up.b32 r|p, %0, %1, 0, 0xffffffff;\n"
                     "@p add.s32 %0, %0, r; }"
                     : "+r"(v)
                     : "r"(step));
    return v;
}

__device__ inline u32 of_any_lane(u32 bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(ALL, bits);
#else
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) bits |= __shfl_xor_sync(ALL, bits, half);
    return bits;
#endif
}

// The sums of SEGMENTS segments: each lane's has `length` numbers from `from` bytes after the base on.
template <int SEGMENTS, bool AT_END>
__device__ inline double sums_of(const char* base, u32 from, u32 length, Shared& shared) {
    const int lane = threadIdx.x % WARP;
    const u32 below = (1u << lane) - 1;
    double* const numbers = shared.numbers;
    const u32 quads = (length + QUAD - 1) / QUAD, so_far = up_to_lane(quads), before = so_far - quads;
    const u32 all = __shfl_sync(ALL, so_far, WARP - 1);
    const u32 some = __ballot_sync(ALL, quads != 0);
    __syncwarp();
    if (quads) shared.entries[__popc(some & below)] = {from, before, length};
    __syncwarp();
    const Entry* entry = shared.entries;  // which has the next quad
    double sum = 0;
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first < all; first = end) {
        // As many segments as there is room for.
        end = all;
        if (all - first > CAPACITY)
            end = __shfl_sync(ALL, so_far, 31 - __clz(__ballot_sync(ALL, so_far <= first + CAPACITY)));
        double* to = numbers;
#pragma unroll 1
        for (u32 quad = first; quad < end; quad += WARP, to += WARP * PARTS) {
            // Which segments begin behind this quad, up to that of the next turn.
            const u32 ahead = before - quad - 1;
            const u32 begins = of_any_lane(quads && ahead < min(end - quad, 32u) ? 1u << ahead : 0);
            const Entry mine = entry[__popc(begins & below)];
            entry += __popc(begins);
            const u32 number = quad + lane - mine.quads;
            const int left = static_cast<int>(mine.length - number * QUAD);
            const u32 at = mine.from + (left > 0 ? number * 64 : 0);
            put_quads<AT_END>(base, at, left, to);
        }
        __syncwarp();
        const u32 count = before >= first && so_far <= end ? quads : 0;
        const u32 tiled = SEGMENTS < WARP ? __shfl_sync(ALL, count, lane % SEGMENTS) : count;
        double* const own = numbers + (before - first) * PARTS;
        double* const mine =
            SEGMENTS < WARP ? numbers + (__shfl_sync(ALL, before, lane % SEGMENTS) - first) * PARTS : own;
        for (u32 tile = lane / SEGMENTS; __any_sync(ALL, tile * 8 < tiled); tile += WARP / SEGMENTS) {
            double* const at = mine + tile * WIDTH;
            const int those = static_cast<int>(tiled - tile * 8) * PARTS;
            if (tile * 8 < tiled) *at = tree_over<WIDTH>(those, [&](int i) { return at[i]; });
        }
        __syncwarp();
        if (__any_sync(ALL, count > 8)) {
            if (count) sum = tree_over<TILES>((count + 7) / 8, [&](int i) { return own[i * WIDTH]; });
        } else if (count) {
            sum = *own;
        }
        __syncwarp();
    }
    return sum;
}

// Once in many segments: not inline, so that it takes no registers.
template <int SEGMENTS>
__device__ __noinline__ double careful_sums(const char* base, u32 from, u32 length, Shared& shared) {
    return sums_of<SEGMENTS, true>(base, from, length, shared);
}

struct Run {
    i64 first, last;  // segments
    i64 begin;        // of the first, in elements
    u32 size;         // elements of all
};

__device__ __noinline__ void store_any(const Segments& p, i64 segment, double number, u32 length) {
    if (p.mean) number /= length;
    const Target target = static_cast<Target>(p.target);
    store_rounded(place(p.out, segment, target), number, target);
}

// A number that all lanes have: kept in a register, where the compiler would compute it anew in every turn.
template <typename Number>
__device__ inline Number kept(Number v) {
    return __shfl_sync(ALL, v, 0);
}

// Where the results of a run go.
struct Results {
    const Segments& p;
    i64 first;
    bool plain;  // binary32, and no means

    __device__ void store(u32 number, double sum, u32 length) const {
        if (!plain) return store_any(p, first + number, sum, length);
        const float rounded = __double2float_rn(sum + 0.0);
        static_cast<float*>(p.out)[first + number] = rounded != rounded ? __int_as_float(0x7fffffff) : rounded;
    }
};

// Where a run's numbers are.
struct Place {
    const char* base;  // at a multiple of 16 bytes
    u32 shift;         // bytes from there to the first
    u32 unsafe;        // a segment that ends here or later must be read with care

    __device__ Place(const Segments& p, const Run& run) {
        const u64 address = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + run.begin);
        base = reinterpret_cast<const char*>(address & ~15ull);
        shift = static_cast<u32>(address % 16);
        unsafe = static_cast<u32>(max(min(p.n - run.begin - READ, static_cast<i64>(run.size)), -1ll) + 1);
    }
};

// The lanes' segments, whatever they are: sums, items of the list, or NaN.
template <int SEGMENTS>
__device__ inline void sum_group(const Segments& p, const Run& run, const Place& at, const Results& results, u32 number,
                                 u32 begin, u32 end, bool has_lane, Shared& shared) {
    const u32 most = static_cast<u32>(p.most);
    const bool is_one = has_lane && begin <= end && end <= run.size;
    const u32 length = is_one ? end - begin : 0;
    const u32 from = is_one ? begin * static_cast<u32>(sizeof(Code)) + at.shift : 0;
    const bool is_long = length > most, near_end = has_lane && end >= at.unsafe;
    bool at_end = false;
    if (__any_sync(ALL, is_long || near_end)) {
        at_end = __any_sync(ALL, near_end);
        for (u32 others = __ballot_sync(ALL, is_long); others; others &= others - 1) {
            const int who = __ffs(others) - 1;
            const i64 theirs = __shfl_sync(ALL, length, who);
            append(p.list, run.first + __shfl_sync(ALL, number, who), run.begin + __shfl_sync(ALL, begin, who), theirs,
                   chunks_of(theirs, p.together));
        }
    }
    const u32 mine = is_long ? 0 : length;
    const double sum = at_end ? careful_sums<SEGMENTS>(at.base, from, mine, shared)
                              : sums_of<SEGMENTS, false>(at.base, from, mine, shared);
    if (has_lane && !is_long) results.store(number, is_one ? sum : __longlong_as_double(0x7fffffffffffffff), length);
}

// The runs of this warp: all its segments at once; one by one where they are too long together, or where offsets are
// not what they should be.  `offset` reads one for all lanes.
template <typename Read, typename SumRun>
__device__ inline void for_each_run(const Segments& p, const Read& offset, const SumRun& sum_run) {
    const int lane = threadIdx.x % WARP;
    Run run;
    run.first = (static_cast<i64>(blockIdx.x) * WARPS + (WARPS > 1 ? threadIdx.x / WARP : 0)) * p.per_warp;
    const i64 last = min(run.first + p.per_warp, p.segments);
    // The first turn's ends, which else are asked for only when the run's are known.
    if (run.first + lane < last) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.offsets + run.first + 1 + lane));
#pragma unroll 1
    for (; __any_sync(ALL, run.first < last); run.first = run.last) {
        run.begin = offset(run.first);
        run.last = last;
        for (int attempt = 0; attempt < 2; ++attempt) {
            const i64 end = offset(run.last), size = end - run.begin;
            const bool good = run.begin >= 0 && size >= 0 && end <= p.n;
            if (__any_sync(ALL, good && size < 1ll << 28)) {
                run.size = static_cast<u32>(size);
                sum_run(run);
                break;
            }
            if (__any_sync(ALL, run.last == run.first + 1)) {
                const Target target = static_cast<Target>(p.target);
                if (__any_sync(ALL, good))
                    append(p.list, run.first, run.begin, size, chunks_of(size, p.together));
                else if (lane == 0)
                    store_rounded(place(p.out, run.first, target), __longlong_as_double(0x7fffffffffffffff), target);
                break;
            }
            run.last = run.first + 1;
        }
    }
}
