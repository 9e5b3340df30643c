// Sums of a group of segments by the plan's tree of tiles.  It adds up the sums of the segments' 64-byte chunks; of
// numbers that no MMA takes (binary32 and binary64), also those of whole tiles.

#pragma once

#include "device/ragged/group_list.cuh"
#include "device/ragged/tiles.cuh"
#include "device/warp/multi_reduce.cuh"

namespace tcu::ragged {

constexpr int TILES = 8;
constexpr int WIDTH = 8 * PARTS;  // numbers of a tile
constexpr int TILES_AT_ONCE = 4;

// The tree over `count` numbers, at most WIDTH of them.
template <int WIDTH, typename Read>
__device__ inline double tree_over(int count, const Read& read, int first = 0, int step = 1) {
    if constexpr (WIDTH == 1)
        return first < count ? read(first) : 0;
    else
        return tree_over<WIDTH / 2>(count, read, first, 2 * step) +
               tree_over<WIDTH / 2>(count, read, first + step, 2 * step);
}

// The sum of the lane's segment, from the sums of its tiles.  Each lies in the place of the tile's first number.
__device__ inline double sum_of_listed_tiles(const double* own, u32 chunks64) {
    if (__any_sync(ALL, chunks64 > 8)) return chunks64 ? tree_over<TILES>((chunks64 + 7) / 8,
                                                                          [&](int i) { return own[i * WIDTH]; }) : 0;
    return chunks64 ? *own : 0;
}

// The sum of a lane's chunks by the plan's tree.  First come the trees of tiles, shared among as many lanes as there
// are segments.  MOST: the most chunks of any segment, or 8, those of a tile.
template <int SEGMENTS, int MOST>
__device__ inline double sum_by_tree(double* numbers, const Chunks64& chunks64) {
    const u32 lane = threadIdx.x % WARP;
    const u32 tiled = SEGMENTS < WARP ? __shfl_sync(ALL, chunks64.count, lane % SEGMENTS) : chunks64.count;
    double* const own = numbers + chunks64.first * PARTS;
    double* const mine =
        SEGMENTS < WARP ? numbers + __shfl_sync(ALL, chunks64.first, lane % SEGMENTS) * PARTS : own;
    for (u32 tile = lane / SEGMENTS; __any_sync(ALL, tile * 8 < tiled); tile += WARP / SEGMENTS) {
        double* const at = mine + tile * WIDTH;
        const int those = static_cast<int>(tiled - tile * 8) * PARTS;
        if (tile * 8 < tiled) *at = tree_over<MOST * PARTS>(those, [&](int i) { return at[i]; });
    }
    __syncwarp();
    return sum_of_listed_tiles(own, chunks64.count);
}

// The same with PARTS lanes to a tile: first the tree over its chunks, then the tree over the parts.
__device__ inline double sum_by_parts(double* numbers, const Chunks64& chunks64) {
    const u32 lane = threadIdx.x % WARP, part = lane % PARTS;
#pragma unroll 1
    for (u32 first = 0; first < WARP; first += WARP / PARTS) {
        const u32 count = __shfl_sync(ALL, chunks64.count, first + lane / PARTS);
        double* const own = numbers + __shfl_sync(ALL, chunks64.first, first + lane / PARTS) * PARTS;
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
    return sum_of_listed_tiles(numbers + chunks64.first * PARTS, chunks64.count);
}

// The sums of SEGMENTS segments.  Each lane's segment has `length` numbers from `from` bytes after the base on.  The
// numbers of all lanes lie between the bytes `begin` and `stop`. `longs` is a mask of the lanes with long segments,
// of which nothing is added up here; what lies on the two sides of a long segment is not read together.
//
// JOINED: the last, partial chunk of a segment is taken together with its whole ones.  Otherwise the partial chunks
// of all segments have a turn of their own.
template <int SEGMENTS, bool JOINED, typename Where>
__device__ inline double sums_of(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop, GroupMemory& shared) {
    const int lane = threadIdx.x % WARP;
    const u32 turned = chunk64_of_lane(lane), below = (1u << turned) - 1;
    double* const numbers = shared.numbers;
    // In the lower half of a word all chunks of a segment, in the upper half those that are listed.
    const u32 chunks64 = (length + CHUNK64 - 1) / CHUNK64, listed = JOINED ? chunks64 : length / CHUNK64;
    const u32 both = chunks64 | listed << 16, so_far = warp::inclusive_scan(both), before = so_far - both;
    const u32 all = __shfl_sync(ALL, so_far, WARP - 1);
    const u32 listed_before = before >> 16, place = before & 0xffff, behind = so_far & 0xffff;
    // Where the segment's listed chunks begin; far ahead if it has none.
    const u32 begins_at = listed ? listed_before - 1 : 1u << 31;
    list_entries(shared, listed,
                 {from - listed_before * 64, JOINED ? length + listed_before * CHUNK64 : place - listed_before});
    const bool several = (all & 0xffff) > CAPACITY || longs;
    double sum = 0;
    u32 end;
#pragma unroll 1
    for (u32 first = 0; first != all; first = end) {
        const u32 first_place = first & 0xffff;
        u32 first_byte = begin, end_byte = stop, limit = ALL;
        bool is_in = chunks64;
        end = all;
        if (several) {
            // As many segments as have room, and none behind a long one.
            if ((all & 0xffff) - first_place > CAPACITY)
                end = __shfl_sync(ALL, so_far, 31 - __clz(__ballot_sync(ALL, behind <= first_place + CAPACITY)));
            if (const u32 next = longs & __ballot_sync(ALL, place > first_place)) {
                const int who = __ffs(next) - 1;
                const u32 cut = __shfl_sync(ALL, before, who);
                limit = __shfl_sync(ALL, from, who);
                if ((cut & 0xffff) < (end & 0xffff)) end = cut;
            }
            is_in = chunks64 && place >= first_place && behind <= (end & 0xffff);
            find_bytes(is_in, from, length, first_byte, end_byte);
        }
        where.begin(first_byte, end_byte, limit);
        u32 entry = entry_of(first >> 16, listed_before, so_far >> 16);
        u32 number = warp::opaque(turned + (first >> 16)), ahead = warp::opaque(begins_at - (first >> 16));
#pragma unroll 1
        for (int left = (end >> 16) - (first >> 16); left > 0; left -= WARP, number += WARP, ahead -= WARP) {
            const Entry mine = next_entry(shared, entry, ahead, below);
            const u32 at = mine.from + number * 64;
            where.need(at);
            const u32 numbered = (JOINED ? 0 : mine.rest) - first_place + number;
            const int rest = JOINED ? min(static_cast<int>(mine.rest - number * CHUNK64), CHUNK64) : CHUNK64;
            where.template put<!JOINED>(at, rest, numbers,
                                        static_cast<int>(turned) < left ? static_cast<int>(numbered) : -1, left);
        }
        if constexpr (!JOINED) {
            // The partial chunk at the end of each segment.
            const bool has_rest = is_in && chunks64 != listed;
            where.template put<false>(has_rest ? from + listed * 64 : 0, static_cast<int>(length - listed * CHUNK64),
                                      numbers,
                                      has_rest ? static_cast<int>(place + listed - first_place) : -1, WARP);
        }
        where.leave();
        __syncwarp();
        const Chunks64 own = {place - first_place, is_in ? chunks64 : 0};
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

// As sums_of, but by tiles: the warp reads a tile as a warp of the plan does.  It takes some tiles at a time, so that
// their trees share steps.  A tile becomes one number in shared memory.
template <typename Where>
__device__ inline double sums_of_tiles(Where& where, u32 from, u32 length, u32 longs, u32 begin, u32 stop,
                                       GroupMemory& shared) {
    constexpr u32 TILE = WARP * PER_LOAD, BYTES = WARP * 16;
    constexpr int SOME = TILES_AT_ONCE, EACH = WARP / SOME;  // lanes that all have a tile's sum in the end
    const int lane = threadIdx.x % WARP;
    const u32 below = (1u << lane) - 1;
    const u32 tiles = (length + TILE - 1) / TILE, behind = warp::inclusive_scan(tiles), before = behind - tiles;
    list_entries(shared, tiles, {from - before * BYTES, length + before * TILE});
    for_each_stretch(where, before, behind, from, length, longs, begin, stop, [&](u32 first, u32 end) {
        u32 entry = entry_of(first, before, behind);
        u32 number = lane + first, ahead = warp::opaque((tiles ? before - 1 : 1u << 31) - first);
        // Each lane gives one tile.
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
                const double sum = warp::multi_reduce<SOME, WARP / 2, 1>(v);
                if (lane % EACH == 0) shared.numbers[end - left + step + lane / EACH] = sum;
            }
        }
    });
    __syncwarp();
    const double* const own = shared.numbers + before;
    if (__any_sync(ALL, tiles > 1)) return tiles ? tree_over<TILES>(tiles, [&](int i) { return own[i]; }) : 0;
    return tiles ? *own : 0;
}

// Average bytes of a segment in a group, from which on sums are taken by tiles.  H200, binary32, part of the read
// ceiling with 200, 300 or 400 here, and never by tiles: segments of 64 numbers on average 0.639, 0.681, 0.671,
// 0.670; of 100 numbers 0.783, 0.785, 0.745, 0.675. Segments of 512 numbers, all by tiles, 0.796 in place of 0.669.
constexpr u32 TILED = 300;

}  // namespace tcu::ragged
