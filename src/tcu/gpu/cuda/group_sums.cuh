// Sums of a group of segments by MMAs, those of a warp's lanes.
//
// All segments of a group are cut into quads of 4 · 16 bytes, of which a warp takes 32 at a time wherever they lie,
// eight to an MMA: first the whole ones, of which nothing has to be masked, then what is left of each segment; or all as
// they come.  Their sums come together in shared memory, where they are added up by the plan's tree of tiles (8 quads
// each), or, where they are exact, one after another, as many at a time as have room; exact sums of long segments are added
// up turn by turn, and none is kept.  Numbers that no MMA takes come as whole tiles, where segments are long.  What the
// plan adds besides is zeros, which change no sum.
//
// Compiled with ELEMENT (array.cuh; LAYOUT is not looked at), and
//   WITH_RESTS 1: what is left of each segment behind its whole quads is taken with them as it comes
//   ROOM       numbers of a warp in shared memory; 1, which is not used, where sums are added up turn by turn

#pragma once

#include "halving.cuh"
#include "lanes.cuh"
#include "tiles.cuh"

constexpr int TILES = 8;
constexpr int CAPACITY = ROOM / PARTS;  // quads whose sums are in shared memory
constexpr int WIDTH = 8 * PARTS;  // numbers of a tile

// A segment that has listed quads, or tiles.
struct alignas(8) Entry {
    u32 from;  // bytes from the base, less those of every quad listed before
    u32 rest;  // its place among all quads, less the number of those; or its length and all numbers of each of them
};

// What a group of segments needs.
struct Shared {
    Entry entries[WARP];
    double numbers[CAPACITY * PARTS];
};

// Sums of quads of binary16 are multiples of 2^-24, and those of 2^13 numbers together at most 2^29: whatever adds them up
// in binary64 has the plan's bits.
constexpr bool IS_EXACT = ELEMENT == BINARY16;
constexpr bool TURN_BY_TURN = IS_EXACT && WITH_RESTS;
static_assert(IS_EXACT || CAPACITY >= 8 * TILES, "a segment has room");
constexpr int TILES_AT_ONCE = 4;
static_assert(PARTS == 1 || ROOM >= TILES * WARP + TILES_AT_ONCE, "tiles of all segments have room, and some behind them");

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
    __device__ void need(u32, u32) const {}
    __device__ void leave() const {}
    // The sums of the lanes' quads (quads.cuh); lanes without one, whose sum has no place, read where others may.
    template <bool WHOLE>
    __device__ void put(u32 at, int left, double* numbers, int to, int quads) const {
        const Source source(base, threadIdx.x % LANES);
        put_quads<WHOLE>(source, to < 0 ? 0 : at, to < 0 ? 0 : left, numbers, to, quads);
    }
    // As sum_tiles (tiles.cuh).
    template <bool WHOLE, int COUNT>
    __device__ void put_tiles(u32 at, int left, int step, double (&sums)[COUNT]) const {
        sum_tiles<WHOLE>(Source(base, 0), at, left, step, sums);
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

// The same of sums that are exact: every other one by itself, so that additions need not wait for each other.
__device__ inline double sum_one_by_one(const double* numbers, const Quads& quads) {
    constexpr int SOME = 4;
    double sum = 0, other = 0;
    u32 at = quads.first;
#pragma unroll 1
    for (int left = static_cast<int>(quads.count); __any_sync(ALL, left > 0); left -= SOME, at += SOME)
#pragma unroll
        for (int i = 0; i < SOME; i += 2) {
            if (left > i) sum += numbers[at + i];
            if (left > i + 1) other += numbers[at + i + 1];
        }
    return sum + other;
}

// Where the bytes of the segments that are in begin and end.
__device__ inline void find_bytes(bool is_in, u32 from, u32 length, u32& begin, u32& end) {
    begin = least_of_lanes(is_in ? from : ALL);
    end = ~least_of_lanes(is_in ? ~(from + length * static_cast<u32>(sizeof(Code))) : ALL);
}

// The entry of what is number `first` of all that is listed, of which the lane's segment has those from `before` up to
// `behind`.
__device__ inline u32 entry_of(u32 first, u32 before, u32 behind) {
    return __popc(__ballot_sync(ALL, before != behind && before <= first)) - 1;
}

// The entry of the lane's quad in a turn; and on to the one that has the next turn's first.  `ahead`: how many quads after
// the turn's first the lane's segment begins, less 1; `below`: the quads before the lane's.
__device__ inline Entry next_entry(const Shared& shared, u32& entry, u32 ahead, u32 below) {
    const u32 begins = of_any_lane(__funnelshift_lc(0, 1, ahead));
    const Entry mine = shared.entries[entry + __popc(begins & below)];
    entry += __popc(begins);
    return mine;
}

// Of a turn, this lane's quad: those of an MMA are side by side.
__device__ inline u32 quad_of_lane(int lane) {
    return opaque(lane % LANES * (WARP / LANES) + lane / LANES);
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
    const u32 turned = quad_of_lane(lane), below = (1u << turned) - 1;
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
            find_bytes(is_in, from, length, first_byte, end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        u32 entry = entry_of(first >> 16, listed_before, so_far >> 16);
        u32 number = opaque(turned + (first >> 16)), ahead = opaque(begins_at - (first >> 16));
#pragma unroll 1
        for (int left = (end >> 16) - (first >> 16); left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            const Entry mine = next_entry(shared, entry, ahead, below);
            const u32 at = mine.from + number * 64;
            where.need(at);
            const u32 numbered = (JOINED ? 0 : mine.rest) - first_place + number;
            const int rest = JOINED ? min(static_cast<int>(mine.rest - number * QUAD), QUAD) : QUAD;
            where.template put<!JOINED>(at, rest, numbers,
                                        static_cast<int>(turned) < left ? static_cast<int>(numbered) : -1, left);
        }
        if constexpr (!JOINED) {
            // What is left of each segment.
            const bool has_rest = is_in && quads != listed;
            where.template put<false>(has_rest ? from + listed * 64 : 0, static_cast<int>(length - listed * QUAD), numbers,
                                      has_rest ? static_cast<int>(place + listed - first_place) : -1, WARP);
        }
        where.leave();
        __syncwarp();
        const Quads own = {place - first_place, is_in ? quads : 0};
        double total;
        if constexpr (PARTS > 1 && JOINED)
            total = sum_by_parts(numbers, own);
        else if (__any_sync(ALL, own.count > 2))
            total = sum_by_tree<SEGMENTS, 8>(numbers, own);
        else
            total = sum_by_tree<SEGMENTS, 2>(numbers, own);
        if (is_in) sum = total;
        __syncwarp();
    }
    return sum;
}

// The same where sums are exact: whole quads first, of which as many as have room are taken at a time, wherever a segment
// ends among them; and what is left of each segment with its last ones.
template <typename Where>
__device__ inline double exact_sums_of(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    const int lane = threadIdx.x % WARP;
    const u32 turned = quad_of_lane(lane), below = (1u << turned) - 1;
    double* const numbers = shared.numbers;
    const u32 quads = length / QUAD, behind = up_to_lane(quads), before = behind - quads;
    const u32 all = __shfl_sync(ALL, behind, WARP - 1), some = __ballot_sync(ALL, quads != 0);
    const bool has_rest = length != quads * QUAD, several = all > CAPACITY || longs;
    // Far ahead where there is none.
    const u32 begins_at = quads ? before - 1 : 1u << 31;
    __syncwarp();
    if (quads) shared.entries[__popc(some & ((1u << lane) - 1))].from = from - before * 64;
    __syncwarp();
    double sum = 0;
    u32 first = 0;
#pragma unroll 1
    for (u32 pending = __ballot_sync(ALL, length != 0); __any_sync(ALL, pending != 0);) {
        u32 first_byte = begin, end_byte = stop, limit = ALL, end = all, those = pending;
        Quads own = {before, quads};
        if (several) {
            // None behind the next long segment, and no more than have room.
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
            const u32 begin_byte = from + (own.count ? low - before : quads) * 64;
            const u32 skipped = (begin_byte - from) / static_cast<u32>(sizeof(Code));
            find_bytes(is_done || own.count, begin_byte, is_done ? length - skipped : own.count * QUAD, first_byte, end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        u32 entry = entry_of(first, before, behind);
        u32 number = opaque(turned + first), ahead = opaque(begins_at - first);
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            const u32 at = next_entry(shared, entry, ahead, below).from + number * 64;
            where.need(at);
            where.template put<true>(at, QUAD, numbers,
                                     static_cast<int>(turned) < left ? static_cast<int>(number - first) : -1, left);
        }
        double last = 0;
        const bool takes = has_rest && those >> lane & 1;
        where.template put<false>(takes ? from + quads * 64 : 0, static_cast<int>(length - quads * QUAD), &last,
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

// Stretches of what a group has listed (entry_of): those on the two sides of a long one are taken one after the other.
// add: a stretch, from its first up to its end.
template <typename Where, typename Add>
__device__ inline void for_each_stretch(Where& where, u32 before, u32 behind, u32 from, u32 length, u32 longs, u32 begin,
                                        u32 stop, const Add& add) {
    const u32 all = __shfl_sync(ALL, behind, WARP - 1);
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
            find_bytes(before != behind && before >= first && behind <= end, from, length, first_byte, end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        add(first, end);
        where.leave();
    }
}

// As sums_of, TURN_BY_TURN: all quads as they come, and no sums of them are kept.
template <typename Where>
__device__ inline double sums_of_turns(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    constexpr u32 EACH = WARP / LANES;  // quads of an MMA
    const int lane = threadIdx.x % WARP;
    const u32 turned = quad_of_lane(lane), below = (1u << turned) - 1;
    const u32 source = opaque(lane % EACH * LANES + lane / EACH);  // the lane that has quad number `lane`
    const u32 quads = (length + QUAD - 1) / QUAD, behind = up_to_lane(quads), before = behind - quads;
    const u32 some = __ballot_sync(ALL, quads != 0);
    __syncwarp();
    if (quads) shared.entries[__popc(some & ((1u << lane) - 1))] = {from - before * 64, length + before * QUAD};
    __syncwarp();
    double sum = 0;
    for_each_stretch(where, before, behind, from, length, longs, begin, stop, [&](u32 first, u32 end) {
        u32 entry = entry_of(first, before, behind);
        u32 number = opaque(turned + first), ahead = opaque((quads ? before - 1 : 1u << 31) - first);
        int low = static_cast<int>(before - first);
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP, low -= WARP) {
            const Entry mine = next_entry(shared, entry, ahead, below);
            const u32 at = mine.from + number * 64;
            where.need(at);
            double quad = 0;
            where.template put<false>(at, min(static_cast<int>(mine.rest - number * QUAD), QUAD), &quad,
                                      static_cast<int>(turned) < left ? 0 : -1, left);
            sum += sum_of_quads(__shfl_sync(ALL, quad, source), low, low + static_cast<int>(quads));
        }
    });
    return sum;
}

// As sums_of, tile by tile: a warp reads a tile as the plan's warp does, some at a time, so that their trees take the same
// steps, and a tile is one number in shared memory.
template <typename Where>
__device__ inline double sums_of_tiles(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    constexpr u32 TILE = WARP * PER_LOAD, BYTES = WARP * 16;
    constexpr int SOME = TILES_AT_ONCE, EACH = WARP / SOME;  // lanes that have a tile's sum in the end
    const int lane = threadIdx.x % WARP;
    const u32 below = (1u << lane) - 1;
    const u32 tiles = (length + TILE - 1) / TILE, behind = up_to_lane(tiles), before = behind - tiles;
    const u32 some = __ballot_sync(ALL, tiles != 0);
    __syncwarp();
    if (tiles) shared.entries[__popc(some & below)] = {from - before * BYTES, length + before * TILE};
    __syncwarp();
    for_each_stretch(where, before, behind, from, length, longs, begin, stop, [&](u32 first, u32 end) {
        u32 entry = entry_of(first, before, behind);
        u32 number = lane + first, ahead = opaque((tiles ? before - 1 : 1u << 31) - first);
        // A tile of each lane.
#pragma unroll 1
        for (int left = end - first; left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            const Entry mine = next_entry(shared, entry, ahead, below);
            const bool is_one = lane < left;
            const u32 at = is_one ? mine.from + number * BYTES : 0;
            const int numbers = is_one ? static_cast<int>(min(mine.rest - number * TILE, TILE)) : 0;
            const u32 stops = at + numbers * static_cast<u32>(sizeof(Code));
            u32 partial = __ballot_sync(ALL, numbers < static_cast<int>(TILE));
#pragma unroll 1
            for (int step = 0; step < min(left, WARP); step += SOME, partial >>= SOME) {
                where.need(__shfl_sync(ALL, at, step), __shfl_sync(ALL, stops, min(step + SOME, left) - 1));
                double v[SOME];
                if (partial & ((1 << SOME) - 1))
                    where.template put_tiles<false>(at, numbers, step, v);
                else
                    where.template put_tiles<true>(at, numbers, step, v);
                const double sum = across_lanes<SOME, WARP / 2, 1>(v);
                if (lane % EACH == 0) shared.numbers[end - left + step + lane / EACH] = sum;
            }
        }
    });
    __syncwarp();
    const double* const own = shared.numbers + before;
    if (__any_sync(ALL, tiles > 1)) return tiles ? tree_over<TILES>(tiles, [&](int i) { return own[i]; }) : 0;
    return tiles ? *own : 0;
}

// Bytes of a segment, on average of a group's, from which on sums are taken tile by tile.  H200, binary32, from 200, 300 or
// 400 on, or never, of the read ceiling: segments of 64 numbers on average 0.639, 0.681, 0.671, 0.670; of 100 numbers
// 0.783, 0.785, 0.745, 0.675; of 512, all tile by tile, 0.796 in place of 0.669.
constexpr u32 TILED = 300;

// The same of a group of segments, whichever of these its sums need.
template <int SEGMENTS, bool JOINED, typename Where>
__device__ inline double sums_of_group(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, Shared& shared) {
    if constexpr (TURN_BY_TURN)
        return sums_of_turns(where, from, length, longs, begin, stop, shared);
    else if constexpr (IS_EXACT)
        return exact_sums_of(where, from, length, longs, begin, stop, shared);
    else {
        if constexpr (JOINED && PARTS > 1)
            if (__any_sync(ALL, sum_of_lanes(length) * sizeof(Code) >= SEGMENTS * TILED))
                return sums_of_tiles(where, from, length, longs, begin, stop, shared);
        return sums_of<SEGMENTS, JOINED>(where, from, length, longs, begin, stop, shared);
    }
}
