// The tiles of a product by number: of one matrix for all rows, or of one for each segment of rows.

#pragma once

#include "device/product/stages.cuh"
#include "device/warp/warp_scan.cuh"

namespace tcu::product {

#if __CUDA_ARCH_FEAT_SM90_ALL

template <int TOGETHER>
struct AllTiles {
    __device__ bool has(const Product& p, u32 tile) const { return tile < p.tiles; }
    __device__ Tile place(const Product& p, u32 tile, u32 rank) const {
        if constexpr (KEPT_B > 0) {  // one column of them
            const u32 batch = tile / p.tile_rows;
            return {static_cast<int>(tile - batch * p.tile_rows) * ROWS, 0, static_cast<int>(batch), p.rows};
        }
        return locate<TOGETHER>(p, tile, rank);
    }
};

// Asked for tiles in the order of their numbers by all lanes of a warp, each of which looks at one segment of 32.
template <int TOGETHER>
struct TilesOfSegments {
    static constexpr int LINES = SHARES_A ? COLUMNS : ROWS;  // of a tile, that are rows of a segment

    int first = 0, end = 0;  // rows of the lane's segment
    u32 tiles = 0;           // up to its last one
    u32 next = 0;            // segment, behind the 32

    __device__ bool has(const Product& p, u32 tile) {
        for (u32 before = all(); tile >= before; before = all()) {
            if (next >= p.segments) return false;
            const u32 i = next + threadIdx.x % WARP;
            first = edge(p, i), end = edge(p, i + 1);
            tiles = before + warp::inclusive_scan(high(end - first) * across(p));
            next += WARP;
        }
        return true;
    }

    __device__ Tile place(const Product& p, u32 tile, u32) const {
        const u32 whose = __popc(__ballot_sync(ALL, tiles <= tile));
        const int from = __shfl_sync(ALL, first, whose), to = __shfl_sync(ALL, end, whose);
        const u32 rows = high(to - from), before = __shfl_sync(ALL, tiles, whose) - rows * across(p);
        const auto [row, column] = turn<TOGETHER>(rows, across(p), tile - before);
        const int line = from + static_cast<int>(row) * LINES, other = static_cast<int>(column) * (SHARES_A ? ROWS : COLUMNS);
        return {SHARES_A ? other : line, SHARES_A ? line : other, static_cast<int>(next - WARP + whose), to};
    }

private:
    __device__ u32 all() const { return __shfl_sync(ALL, tiles, WARP - 1); }
    __device__ static u32 across(const Product& p) { return SHARES_A ? p.tile_rows : p.tile_columns; }
    __device__ static u32 high(int rows) { return (max(rows, 0) + LINES - 1) / LINES; }

    // Wrong offsets lead to no other memory.
    __device__ static int edge(const Product& p, u32 i) {
        const i64 offset = __ldg(p.offsets + min(i, p.segments));
        return static_cast<int>(offset < 0 ? 0 : offset < p.rows ? offset : p.rows);
    }
};

#if SEGMENTS
template <int TOGETHER>
using ProductTiles = TilesOfSegments<TOGETHER>;
#else
template <int TOGETHER>
using ProductTiles = AllTiles<TOGETHER>;
#endif

#endif

}  // namespace tcu::product
