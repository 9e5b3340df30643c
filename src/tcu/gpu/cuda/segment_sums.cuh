// What the kernels of ragged segments share: a warp's way through its segments, sums of segments by MMAs, and what
// becomes of a group of segments, whatever they are.
//
// All segments of a group are cut into quads of 4 · 16 bytes, of which a warp takes 32 at a time wherever they lie,
// eight to an MMA: first the whole ones, of which nothing has to be masked, then what is left of each segment; or, where
// segments are long, all as they come.  Their sums come together in shared memory, where they are added up by the plan's
// tree of tiles (8 quads each), or, where they are exact, one after another; exact sums of long segments are added up
// turn by turn, and none is kept.  What the plan adds besides is zeros, which change no sum.
//
// What has more than TILES tiles, or, where sums are added up turn by turn, more than 2^13 numbers, is left to a second
// launch (long_segments.cu, long_chunks.cu).  A segment that is none (it ends before it begins, or elsewhere than in the array)
// gives NaN, and so does a long one for which there is no room because others overlap.
//
// Compiled with ELEMENT (array.cuh; LAYOUT is not looked at), and
//   TOGETHER   1: segments are long, and more of them than a few have no room in a warp's shared memory together
//   ROOM       numbers of a warp in shared memory; 1, which is not used, where sums are added up turn by turn
// A warp is a block, whose every branch the compiler sees to be one.
//
// The host fills the structure field by field (tcu/gpu/segments.py): change both together.

#pragma once

#include "items.cuh"
#include "lanes.cuh"
#include "quads.cuh"
#include "plan_loads.cuh"
#include "result.cuh"
#include "ring.cuh"

constexpr int TILES = 8;
constexpr int READ = (32 + 3 * 16) / sizeof(Code);  // elements that are read from the first of a quad on, at most
constexpr int CAPACITY = ROOM / PARTS;  // quads whose sums are in shared memory
constexpr int WIDTH = 8 * PARTS;  // numbers of a tile
constexpr i64 MORE = 4;  // as in tcu/gpu/segments.py

struct Segments {
    const void* data;
    i64 n;
    const i64* offsets;
    i64 segments;
    void* out;
    i64 target;
    i64 mean;      // whether the sums are divided by the lengths
    i64 per_warp;  // segments, one after another
    i64 first;     // warps, the first ones, that have MORE times as many
    i64 most;      // numbers of a segment that is not long: at most TILES tiles, or, TURN_BY_TURN, 2^13
    i64 together;  // of long segments: numbers that a block loads at a time
    List list;
};

// A segment that has listed quads.
struct alignas(8) Entry {
    u32 from;  // bytes from the base, less 64 for every quad listed before
    u32 rest;  // its place among all quads, less the number of those; or its length and QUAD for each of them
};

// Segments of a warp, one after another.  In shared memory, as what is looked at once in a group of segments: registers
// are for what every turn needs.
struct Run {
    i64 first;    // segment
    i64 begin;    // of the first, in elements
    u32 count;    // segments
    u32 size;     // elements of all: 32 bits count their bytes
    u32 bytes;    // the same from the base on
    u32 careful;  // a segment that ends here or later must be read with care
    u32 plain;    // whether results are sums of binary32
};

// What a group of segments needs.
struct Shared {
    Entry entries[WARP];
    double numbers[CAPACITY * PARTS];
};

// Sums of quads of binary16 are multiples of 2^-24, and those of 2^13 numbers together at most 2^29: whatever adds them up
// in binary64 has the plan's bits.
constexpr bool IS_EXACT = ELEMENT == BINARY16;
constexpr bool TURN_BY_TURN = IS_EXACT && TOGETHER;
static_assert(TURN_BY_TURN || CAPACITY >= 8 * TILES, "a segment has room");

// The tree over `count` numbers, at most WIDTH.
template <int WIDTH, typename Read>
__device__ inline double tree_over(int count, const Read& read, int first = 0, int step = 1) {
    if constexpr (WIDTH == 1)
        return first < count ? read(first) : 0;
    else
        return tree_over<WIDTH / 2>(count, read, first, 2 * step) +
               tree_over<WIDTH / 2>(count, read, first + step, 2 * step);
}

// Where a warp finds the quads of its segments: in memory.
template <typename Source>
struct Outside {
    const char* base;
    __device__ void begin(u32, u32, u32) const {}
    __device__ void need(u32) const {}
    __device__ void leave() const {}
    // The sums of the lanes' quads (quads.cuh); lanes without one, whose sum has no place, read where others may.
    template <bool WHOLE>
    __device__ void put(u32 at, int left, double* numbers, int to, int quads) const {
        const Source source(base, threadIdx.x % LANES);
        put_quads<WHOLE>(source, to < 0 ? 0 : at, to < 0 ? 0 : left, numbers, to, quads);
    }
};

// A segment's quads, among those whose numbers are in shared memory.
struct Quads {
    u32 first, count;
};

// From the sums of a segment's tiles, each where the tile's first number was: those of the lane's segment together.
__device__ inline double sum_of_tiles(const double* own, u32 quads) {
    if (__any_sync(ALL, quads > 8)) return quads ? tree_over<TILES>((quads + 7) / 8, [&](int i) { return own[i * WIDTH]; }) : 0;
    return quads ? *own : 0;
}

// The sum of a lane's quads, by the plan's tree: of tiles, of which as many lanes as there are segments take some each.
// MOST: quads of any segment, or a tile's.
template <int SEGMENTS, int MOST>
__device__ inline double sum_by_tree(double* numbers, const Quads& quads) {
    const u32 lane = threadIdx.x % WARP;
    const u32 tiled = SEGMENTS < WARP ? __shfl_sync(ALL, quads.count, lane % SEGMENTS) : quads.count;
    double* const own = numbers + quads.first * PARTS;
    double* const mine =
        SEGMENTS < WARP ? numbers + __shfl_sync(ALL, quads.first, lane % SEGMENTS) * PARTS : own;
    for (u32 tile = lane / SEGMENTS; __any_sync(ALL, tile * 8 < tiled); tile += WARP / SEGMENTS) {
        double* const at = mine + tile * WIDTH;
        const int those = static_cast<int>(tiled - tile * 8) * PARTS;
        if (tile * 8 < tiled) *at = tree_over<MOST * PARTS>(those, [&](int i) { return at[i]; });
    }
    __syncwarp();
    return sum_of_tiles(own, quads.count);
}

// The same with PARTS lanes to a tile: the tree is over its quads first.
__device__ inline double sum_by_parts(double* numbers, const Quads& quads) {
    const u32 lane = threadIdx.x % WARP, part = lane % PARTS;
#pragma unroll 1
    for (u32 first = 0; first < WARP; first += WARP / PARTS) {
        const u32 count = __shfl_sync(ALL, quads.count, first + lane / PARTS);
        double* const own = numbers + __shfl_sync(ALL, quads.first, first + lane / PARTS) * PARTS;
#pragma unroll 1
        for (u32 tile = 0; __any_sync(ALL, tile * 8 < count); ++tile) {
            double* const at = own + tile * WIDTH;
            double sum = 0;
            if (tile * 8 < count)
                sum = tree_over<8>(static_cast<int>(count - tile * 8), [&](int i) { return at[i * PARTS + part]; });
#pragma unroll
            for (int other = PARTS / 2; other > 0; other /= 2) sum += __shfl_xor_sync(ALL, sum, other);
            if (tile * 8 < count && part == 0) *at = sum;
        }
    }
    __syncwarp();
    return sum_of_tiles(numbers + quads.first * PARTS, quads.count);
}

// The same of sums that are exact, and few.
__device__ inline double sum_one_by_one(const double* numbers, const Quads& quads) {
    constexpr int SOME = 4;
    const double* const own = numbers + quads.first;
    double sum = 0;
#pragma unroll 1
    for (u32 i = 0; __any_sync(ALL, i < quads.count); i += SOME) {
        const int count = static_cast<int>(quads.count - i);
        sum += tree_over<SOME>(count, [&](int k) { return own[i + k]; });
    }
    return sum;
}

// The sums of SEGMENTS segments: each lane's has `length` numbers from `from` bytes after the base on.  Those of all lanes
// lie between `begin` and `stop`.  `longs` are the lanes that have long ones, of which nothing is to be added up: what
// lies on their two sides is not looked at together.
//
// JOINED: what is left of a segment behind its whole quads is taken with them as it comes, and not all that is left of
// all segments in a turn of its own.
template <int SEGMENTS, bool JOINED, typename Where>
__device__ inline double sums_of(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    const int lane = threadIdx.x % WARP;
    // Of a turn, this lane's quad: those of an MMA are side by side.
    const u32 turned = opaque(lane % LANES * (WARP / LANES) + lane / LANES);
    const u32 below = (1u << turned) - 1;
    double* const numbers = shared.numbers;
    // All quads of a segment in the lower half of a word, those that are listed in the upper half.
    const u32 quads = (length + QUAD - 1) / QUAD, listed = JOINED ? quads : length / QUAD;
    const u32 both = quads | listed << 16, so_far = up_to_lane(both), before = so_far - both;
    const u32 all = __shfl_sync(ALL, so_far, WARP - 1);
    const u32 some = __ballot_sync(ALL, listed != 0);
    const u32 listed_before = before >> 16, place = before & 0xffff, behind = so_far & 0xffff;
    // Far ahead where there is none.
    const u32 begins_at = listed ? listed_before - 1 : 1u << 31;
    __syncwarp();
    if (listed)
        shared.entries[__popc(some & ((1u << lane) - 1))] = {
            from - listed_before * 64, JOINED ? length + listed_before * QUAD : place - listed_before};
    __syncwarp();
    const bool several = (all & 0xffff) > CAPACITY || longs;
    double sum = 0;
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first != all; first = end) {
        const u32 first_place = first & 0xffff;
        u32 first_byte = begin, end_byte = stop, limit = ALL;
        bool is_in = quads;
        end = all;
        if (several) {
            // As many segments as there is room for, and none behind a long one.
            if ((all & 0xffff) - first_place > CAPACITY)
                end = __shfl_sync(ALL, so_far, 31 - __clz(__ballot_sync(ALL, behind <= first_place + CAPACITY)));
            if (const u32 next = longs & __ballot_sync(ALL, place > first_place)) {
                const int who = __ffs(next) - 1;
                const u32 cut = __shfl_sync(ALL, before, who);
                limit = __shfl_sync(ALL, from, who);
                if ((cut & 0xffff) < (end & 0xffff)) end = cut;
            }
            is_in = quads && place >= first_place && behind <= (end & 0xffff);
            first_byte = least_of_lanes(is_in ? from : ALL);
            end_byte = ~least_of_lanes(is_in ? ~(from + length * static_cast<u32>(sizeof(Code))) : ALL);
        }
        where.begin(first_byte, end_byte, limit);
        // Which has the next quad.
        const Entry* entry = shared.entries + (__popc(__ballot_sync(ALL, listed && listed_before <= first >> 16)) - 1);
        u32 number = opaque(turned + (first >> 16)), ahead = opaque(begins_at - (first >> 16));
#pragma unroll 1
        for (int left = (end >> 16) - (first >> 16); left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            // Which segments begin behind the turn's first quad, up to that of the next turn.
            const u32 begins = of_any_lane(__funnelshift_lc(0, 1, ahead));
            const Entry mine = entry[__popc(begins & below)];
            entry += __popc(begins);
            const u32 at = mine.from + number * 64;
            where.need(at);
            const u32 numbered = IS_EXACT ? number - (first >> 16)
                                 : JOINED ? number - first_place
                                          : mine.rest - first_place + number;
            const int rest = JOINED ? min(static_cast<int>(mine.rest - number * QUAD), QUAD) : QUAD;
            where.template put<!JOINED>(at, rest, numbers,
                                        static_cast<int>(turned) < left ? static_cast<int>(numbered) : -1, left);
        }
        [[maybe_unused]] double last = 0;
        if constexpr (!JOINED) {
            // What is left of each segment.
            const bool has_rest = is_in && quads != listed;
            const int numbered = IS_EXACT ? 0 : static_cast<int>(place + listed - first_place);
            where.template put<false>(has_rest ? from + listed * 64 : 0, static_cast<int>(length - listed * QUAD),
                                      IS_EXACT ? &last : numbers, has_rest ? numbered : -1, WARP);
        }
        where.leave();
        __syncwarp();
        const Quads own = IS_EXACT ? Quads{listed_before - (first >> 16), is_in ? listed : 0}
                                   : Quads{place - first_place, is_in ? quads : 0};
        double total;
        if constexpr (PARTS > 1 && JOINED)
            total = sum_by_parts(numbers, own);
        else if constexpr (IS_EXACT)
            total = sum_one_by_one(numbers, own);
        else if (__any_sync(ALL, own.count > 2))
            total = sum_by_tree<SEGMENTS, 8>(numbers, own);
        else
            total = sum_by_tree<SEGMENTS, 2>(numbers, own);
        if (is_in) sum = IS_EXACT ? total + last : total;
        __syncwarp();
    }
    return sum;
}

// What the quads of a turn, each a lane's, add to the lanes' segments, of which each has those from `low` to `high` - 1:
// differences of running sums, which are exact.
__device__ inline double sum_of_quads(double quad, int low, int high) {
    low = min(max(low, 0), WARP);
    high = min(max(high, 0), WARP);
    const double running = up_to_lane<WARP>(quad);
    double sum = 0;
    if (__any_sync(ALL, running - running != 0)) {  // inf or NaN
#pragma unroll 1
        for (int i = 0; i < WARP; ++i) {
            const double one = __shfl_sync(ALL, quad, i);
            if (low <= i && i < high) sum += one;
        }
        return sum;
    }
    const double behind = __shfl_sync(ALL, running, high - 1), before = __shfl_sync(ALL, running, low - 1);
    if (low < high) sum = behind - (low ? before : 0);
    return sum;
}

// As sums_of, TURN_BY_TURN: all quads as they come, and no sums of them are kept.
template <typename Where>
__device__ inline double sums_of_turns(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    constexpr u32 EACH = WARP / LANES;  // quads of an MMA
    const u32 lane = threadIdx.x % WARP, turned = opaque(lane % LANES * EACH + lane / LANES);
    const u32 source = opaque(lane % EACH * LANES + lane / EACH), below = (1u << turned) - 1;
    const u32 quads = (length + QUAD - 1) / QUAD, behind = up_to_lane(quads), before = behind - quads;
    const u32 all = __shfl_sync(ALL, behind, WARP - 1), some = __ballot_sync(ALL, quads != 0);
    __syncwarp();
    if (quads) shared.entries[__popc(some & ((1u << lane) - 1))] = {from - before * 64, length + before * QUAD};
    __syncwarp();
    double sum = 0;
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first != all; first = end) {
        u32 first_byte = begin, end_byte = stop, limit = ALL;
        end = all;
        if (longs) {  // up to the next of them
            if (const u32 next = longs & __ballot_sync(ALL, before > first)) {
                const int who = __ffs(next) - 1;
                end = __shfl_sync(ALL, before, who);
                limit = __shfl_sync(ALL, from, who);
            }
            const bool is_in = quads && before >= first && behind <= end;
            first_byte = least_of_lanes(is_in ? from : ALL);
            end_byte = ~least_of_lanes(is_in ? ~(from + length * static_cast<u32>(sizeof(Code))) : ALL);
        }
        where.begin(first_byte, end_byte, limit);
        const Entry* entry = shared.entries + (__popc(__ballot_sync(ALL, quads && before <= first)) - 1);
        u32 number = opaque(turned + first), ahead = opaque((quads ? before - 1 : 1u << 31) - first);
        int low = static_cast<int>(before - first);
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP, low -= WARP) {
            const u32 begins = of_any_lane(__funnelshift_lc(0, 1, ahead));
            const Entry mine = entry[__popc(begins & below)];
            entry += __popc(begins);
            const u32 at = mine.from + number * 64;
            where.need(at);
            double quad = 0;
            where.template put<false>(at, min(static_cast<int>(mine.rest - number * QUAD), QUAD), &quad,
                                      static_cast<int>(turned) < left ? 0 : -1, left);
            sum += sum_of_quads(__shfl_sync(ALL, quad, source), low, low + static_cast<int>(quads));
        }
        where.leave();
    }
    return sum;
}

__device__ inline double not_a_number() { return __longlong_as_double(0x7fffffffffffffff); }

__device__ __noinline__ void store_any(const Segments& p, i64 segment, double number, u32 length) {
    if (p.mean) number /= length;
    const Target target = static_cast<Target>(p.target);
    store_rounded(place(p.out, segment, target), number, target);
}

__device__ inline float rounded(double sum) {
    const float v = __double2float_rn(sum + 0.0);
    return v != v ? __int_as_float(0x7fffffff) : v;
}

// The lanes' long segments, none where `length` is 0, go to the list: one after another, each warp had to wait for the
// counter as often.
__device__ __noinline__ void append_all(const Segments& p, const Run& run, u32 number, u32 begin, u32 length) {
    const int lane = threadIdx.x % WARP;
    const List& list = p.list;
    const u32 chunks = length ? static_cast<u32>(chunks_of(length, p.together)) : 0, behind = up_to_lane(chunks);
    u32 place = 0;
    if (lane == WARP - 1) place = reserve(list.state + COUNT, behind, list.room);
    place = __shfl_sync(ALL, place, WARP - 1);
    if (__any_sync(ALL, place == NO_ROOM)) {
        if (chunks) store_any(p, run.first + number, not_a_number(), length);
        return;
    }
    const u32 first = place + behind - chunks;
    if (chunks) put(list, first, {run.first + number, run.begin + begin, length, first, 0});
#pragma unroll 1
    for (u32 others = __ballot_sync(ALL, chunks > 1); others; others &= others - 1) {
        const int who = __ffs(others) - 1;
        const u32 its = __shfl_sync(ALL, first, who), count = __shfl_sync(ALL, chunks, who);
        const Item item = {run.first + __shfl_sync(ALL, number, who), run.begin + __shfl_sync(ALL, begin, who),
                           __shfl_sync(ALL, length, who), its, 0};
#pragma unroll 1
        for (u32 chunk = 1 + lane; chunk < count; chunk += WARP) put(list, its + chunk, item);
    }
}

template <typename Source>
__device__ inline double sums_from_memory(const char* base, u32 from, u32 length, Shared& shared) {
    Outside<Source> where = {base};
    if constexpr (TURN_BY_TURN)
        return sums_of_turns(where, from, length, 0, 0, 0, shared);
    else
        return sums_of<WARP, false>(where, from, length, 0, 0, 0, shared);
}

// Of a group of segments of a run, behind `done` others, from memory, whatever they are: sums, items of the list, or NaN.
// Begins and ends are from the run's begin on.  Not inline, so that it takes no registers where it is done once in many.
__device__ __noinline__ void sum_group_from_memory(const Segments& p, const Run& run, u32 done, bool has_lane, u32 begin,
                                                   u32 end, Shared& shared) {
    const u32 lane = threadIdx.x % WARP;
    const u32 shift = run.bytes - run.size * static_cast<u32>(sizeof(Code));
    const bool is_one = has_lane && begin <= end && end <= run.size;
    const u32 length = is_one ? end - begin : 0;
    const u32 from = is_one ? begin * static_cast<u32>(sizeof(Code)) + shift : 0;
    const bool is_long = length > static_cast<u32>(p.most);
    if (__any_sync(ALL, is_long)) append_all(p, run, done + lane, begin, is_long ? length : 0);
    const char* const base = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + run.begin) - shift;
    double sum;
    const u32 numbers = is_long ? 0 : length;
    if (__any_sync(ALL, has_lane && end >= run.careful))
        sum = sums_from_memory<Careful>(base, from, numbers, shared);
    else
        sum = sums_from_memory<Direct>(base, from, numbers, shared);
    if (has_lane && !is_long)
        store_any(p, run.first + done + lane, is_one ? sum : not_a_number(), length);
}

// The runs of a warp: all its segments at once; one by one where they are too long together, or where offsets are not
// what they should be.  `offset` reads one for all lanes.
template <typename Read, typename SumRun>
__device__ inline void for_each_run(const Segments& p, Run& run, const Read& offset, const SumRun& sum_run) {
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
                const u32 shift = behind_line(p.data, static_cast<const Code*>(p.data) + begin);
                const u32 elements = static_cast<u32>(size);
                __syncwarp();
                if (lane == 0)
                    run = {segment,
                           begin,
                           static_cast<u32>(behind - segment),
                           elements,
                           elements * static_cast<u32>(sizeof(Code)) + shift,
                           static_cast<u32>(max(min(p.n - begin - READ, size), -1ll) + 1),
                           p.target == TO_BINARY32 && !p.mean};
                __syncwarp();
                sum_run();
                segment = run.first + run.count;  // read anew: meanwhile, it takes no registers
                break;
            }
            if (__any_sync(ALL, behind == segment + 1)) {
                const bool is_listed =
                    __any_sync(ALL, good) &&
                    append(p.list, segment, begin, size, chunks_of(size, p.together)) != NO_ROOM;
                if (!is_listed && lane == 0) store_any(p, segment, not_a_number(), 0);
                ++segment;
                break;
            }
        }
    }
}
