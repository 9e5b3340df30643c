// As columns.cu, for 16-bit numbers in rows of at least 32 bytes that begin at multiples of 16. A warp copies them
// into shared memory in the background, neighbouring pieces together, and takes its numbers from there.  No column
// has more rows than a chunk.
//
// Compiled with ELEMENT and LAYOUT ALIGNED, LEVELS, HALVES, LOOPS, ALONG, THREADS and RESIDENT as columns.cu says,
// and
//   PIECES       pieces of 16 bytes that lie side by side: all of a row, where it has 2 or 4 of them and rows lie without
//                gaps; else all units of a warp
//   STAGES       tiles that a warp has room for
//   EVICT_FIRST  1: results are few enough to stay in the second cache (load/evict_first.cuh)
// Where ALONG is 1, a warp takes columns one after another.

#include "device/load/async_copy.cuh"
#include "device/load/evict_first.cuh"
#include "device/reduce/columns.cuh"
#include "device/reduce/staged_columns.cuh"

using namespace tcu;
using reduce::StagedLeaves;

constexpr int NUMBERS = StagedLeaves::NUMBERS;
constexpr int UNITS = StagedLeaves::UNITS;  // units of a warp, of PER_LOAD columns each
constexpr int ACROSS = THREADS / WARP / ALONG;

// A warp's tiles, in the order in which they are added up: first the turns of a leaf, then its leaves, then its
// columns.
struct Tiles {
    static constexpr int COPIES = StagedLeaves::ROWS * UNITS / WARP, TOGETHER = PIECES, COPIED_ROWS = WARP / TOGETHER;

    const reduce::Columns& p;
    u32 slots;  // the warp's tiles in shared memory
    u32 ask = 0, take = 0;
    u32 units, step;     // units of the tile that is asked for next, and the step to the next ones
    int first, rows;     // the first of the warp's leaves begins at row `first`
    int leaf = 0, row;
    int own;             // the row, in a tile, of the lane's first piece
    const char* data;    // the lane's piece of row 0
    bool any;

    __device__ Tiles(const reduce::Columns& p, u32 slots, u32 units, u32 step, int first, int rows)
        : p(p), slots(slots), units(units), step(step), first(first), rows(rows), own(threadIdx.x % WARP / TOGETHER) {
        go_to_leaf();
        go_to_units();
    }

    __device__ void go_to_leaf() {
        row = first;
#pragma unroll
        for (int k = 0; k < LEVELS; ++k)
            if (leaf >> k & 1) row += p.distance[k];
    }

    __device__ void go_to_units() {
        const u32 unit = units + threadIdx.x % WARP % TOGETHER, outer = reduce::outer_of(p, unit);
        const i64 at = outer * p.outer_stride + static_cast<i64>(unit - outer * p.pieces) * PER_LOAD;
        any = unit < p.units;
        data = reinterpret_cast<const char*>(static_cast<const Code*>(p.data) + at + own * p.stride);
    }

    // Asks for the next tile, if there is one.
    __device__ void ask_for_next() {
        const int lane = threadIdx.x % WARP;
        const u32 to = slots + ask * StagedLeaves::TILE_BYTES, place = StagedLeaves::place_of_piece(lane / TOGETHER, lane % TOGETHER);
        constexpr i64 SIZE = sizeof(Code);
        const char* const at = data + SIZE * row * p.stride;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int number = i * COPIED_ROWS % StagedLeaves::ROWS, outers = i * COPIED_ROWS / StagedLeaves::ROWS;
            const bool there = outers == 0 || units + outers * TOGETHER < p.units;
            load::copy_if<EVICT_FIRST>(any && there && row + own + number < rows,
                                       to + (place ^ StagedLeaves::place_of_piece(number, outers * TOGETHER)),
                                       at + SIZE * (number * p.stride + outers * p.outer_stride));
        }
        load::end_copies();
        ask = ask + 1 == STAGES ? 0 : ask + 1;
        row += static_cast<int>(p.period);
        if (LOOPS && row < rows) return;
        if (++leaf == 1 << LEVELS) {
            leaf = 0;
            units += step;
            go_to_units();
        }
        go_to_leaf();
    }

    // Waits for the next tile, and returns its address, which is valid until the next call.
    __device__ u32 next() {
        __syncwarp();  // all lanes have read the tile whose place is asked for now
        ask_for_next();
        load::wait_for_copies<STAGES - 1>();
        __syncwarp();
        const u32 tile = slots + take * StagedLeaves::TILE_BYTES;
        take = take + 1 == STAGES ? 0 : take + 1;
        return tile;
    }
};

// The sums of the leaves below a level.  The first leaf begins at `row`.
template <int LEVEL>
__device__ inline void sum_below(Tiles& tiles, int row, double (&v)[NUMBERS]) {
    const reduce::Columns& p = tiles.p;
    if constexpr (LEVEL == 0) {
        StagedLeaves leaves;
#pragma unroll 1
        do {
            leaves.add(tiles.next());
            row += static_cast<int>(p.period);
        } while (LOOPS && row < tiles.rows);
        leaves.sums(v);
    } else {
        double first[NUMBERS];
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            sum_below<LEVEL - 1>(tiles, half ? row + p.distance[LEVEL - 1] : row, v);
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
                if (half == 0) first[n] = v[n];
                else v[n] += first[n];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    columns(const __grid_constant__ reduce::Columns p) {
    extern __shared__ __align__(128) unsigned char staged[];
    const int warp = threadIdx.x / WARP, along = warp % ALONG;
    const u32 slots = static_cast<u32>(__cvta_generic_to_shared(staged)) + warp * STAGES * StagedLeaves::TILE_BYTES;
    const u32 step = gridDim.x * ACROSS * UNITS;
    u32 units = (blockIdx.x * ACROSS + warp / ALONG) * UNITS;
    const int rows = static_cast<int>(p.length);
    int first = 0;
#pragma unroll
    for (int k = 0; 1 << k < ALONG; ++k)
        if (along >> k & 1) first += p.distance[LEVELS + k];
    Tiles tiles(p, slots, units, step, first, rows);
#pragma unroll 1
    for (int i = 1; i < STAGES; ++i) tiles.ask_for_next();
#pragma unroll 1
    do {
        if (ALONG == 1 && units >= p.units) break;
        double v[NUMBERS];
        sum_below<LEVELS>(tiles, first, v);
        reduce::across_warps_of_columns(v);
        if (along == 0) StagedLeaves::store(p, units, v);
        units += step;
    } while (ALONG == 1);
    load::wait_for_copies<0>();
}
