// Sums of many short rows: each has the bits of its own sum by the plan of sum.cu.
//
// A row of a chunk's first loads is what warps 0 to TILES - 1 of the plan would load first.  Here one warp
// has 32 / LANES rows at once, LANES lanes to a row, or one row in TILES loads; the plan's other lanes,
// rows of fragments, warps and loads would be zeros, which change no sum.
//
// Compiled with ELEMENT and LAYOUT (array.cuh; ALIGNED: every row begins at a multiple of 16 bytes), and
//   LANES    1 to 32, a power of two
//   TILES    1 to 8; more than 1 with 32 lanes alone
//   LOOPS    1: rows longer than 8 tiles, which a warp goes through in as many turns as the plan, AT_ONCE of them
//            for TOGETHER tiles in flight (UNROLL is 1)
//   UNROLL   groups of rows of a warp in flight
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//
// The host fills the structure field by field (tcu/gpu/rows.py): change both together.

#include "gather.cuh"
#include "mma_ones.cuh"
#include "result.cuh"

constexpr int WARPS = THREADS / WARP;
constexpr int ROWS = WARP / LANES;  // of a warp at once

struct Rows {
    const void* data;
    i64 rows;
    i64 length;
    i64 stride;  // from row to row, in elements
    void* out;
    double divisor;
    i64 target;
    i64 turns;  // of LOOPS
};

// The sums of NUMBERS tiles over FIRST * 2 lanes, numbered from lane LAST on: lane bit FIRST says which half of
// the tiles a lane has in the end, the next bit which half of them, and so on.  Each step halves the tiles of a lane
// in place of adding up all of them, which took five shuffles a tile.
template <int NUMBERS, int FIRST, int LAST>
__device__ inline double across_lanes(double (&v)[NUMBERS]) {
    int count = NUMBERS;
#pragma unroll
    for (int half = FIRST; half >= LAST; half /= 2) {
        const bool upper = threadIdx.x & half;
        count = count > 1 ? count / 2 : 0;
#pragma unroll
        for (int i = 0; i < NUMBERS / 2; ++i) {
            if (i >= count) continue;
            const double kept = upper ? v[i + count] : v[i], given = upper ? v[i] : v[i + count];
            v[i] = kept + __shfl_xor_sync(ALL, given, half);
        }
        if (count == 0) {
            v[0] += __shfl_xor_sync(ALL, v[0], half);
            count = 1;
        }
    }
    return v[0];
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// What a warp of the plan has added up: two rows of its fragments.
struct Tile {
    double low = 0, high = 0;

    __device__ void add(const Vector& x) {
        // Four lanes share a row of the fragment: where they belong to different rows here, each has its MMA,
        // in which the others are zeros.  (A matrix that selects would multiply their inf by zero.)
        constexpr int PARTS = LANES >= 4 ? 1 : 4 / LANES;
        const int part = threadIdx.x % 4 / LANES;
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            Vector masked = x;
            if (PARTS > 1 && part != i) masked.words = make_uint4(0, 0, 0, 0);
            float d[4] = {0, 0, 0, 0};
            multiply_by_ones(d, masked);
            if (PARTS > 1 && part != i) continue;
            low += d[0];
            high += d[2];
        }
    }

    static constexpr int LAST = 4;  // lanes of a row of fragments have the same

    // This lane's share of its row's sum.
    __device__ double sum() const { return low + high; }
};

#else

struct Tile {
    static constexpr int LAST = 1;
    double sums[PER_LOAD] = {};

    __device__ void add(const Vector& x) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) sums[i] += to_binary64(x.codes[i]);
    }

    __device__ double sum() {
#pragma unroll
        for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
        return sums[0];
    }
};

#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rows(const __grid_constant__ Rows p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 first = (static_cast<i64>(blockIdx.x) * UNROLL * WARPS + warp) * ROWS + lane / LANES;
    const auto data_of = [&](int u) { return static_cast<const Code*>(p.data) + (first + u * WARPS * ROWS) * p.stride; };
    const auto length_of = [&](int u) { return first + u * WARPS * ROWS < p.rows ? p.length : 0; };
    const auto offset_of = [&](int turn, int t) {
        return static_cast<i64>((turn * TILES + t) * WARP + lane % LANES) * PER_LOAD;
    };
#if LOOPS
    // Few tiles at a time, so that the accumulators stay in registers.
    constexpr int WIDTH = power_of_two(TILES);
    double tiles[WIDTH] = {};
#pragma unroll
    for (int t = 0; t < TILES; t += TOGETHER) {
        Tile some[TOGETHER];
#pragma unroll 1
        for (int turn = 0; turn < static_cast<int>(p.turns); turn += AT_ONCE) {
            Granules x[TOGETHER][AT_ONCE];
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    x[j][i] = ask<true>(data_of(0), length_of(0), offset_of(turn + i, t + j));
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    some[j].add(assemble<true>(x[j][i], data_of(0), length_of(0), offset_of(turn + i, t + j)));
        }
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j) tiles[t + j] = some[j].sum();
    }
#else
    Granules x[UNROLL][TILES];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int t = 0; t < TILES; ++t) x[u][t] = ask(data_of(u), length_of(u), offset_of(0, t));
    const auto sum_of = [&](int u, int t) {
        Tile sum;
        sum.add(assemble(x[u][t], data_of(u), length_of(u), offset_of(0, t)));
        return sum.sum();
    };
#if LANES == 32
    // All rows' tiles together, the tile's number above the row's, so that tiles come together as lanes do.
    constexpr int WIDTH = power_of_two(TILES);
    double tiles[WIDTH * UNROLL] = {};
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) tiles[t * UNROLL + u] = sum_of(u, t);
#endif
#endif
    const Target target = static_cast<Target>(p.target);
    const auto store = [&](i64 row, double number) {
        if (p.divisor != 1) number /= p.divisor;
        if (row < p.rows) store_rounded(place(p.out, row, target), number, target);
    };
#if LANES == 32
    constexpr int NUMBERS = WIDTH * UNROLL;
    double number = across_lanes<NUMBERS, WARP / 2, Tile::LAST>(tiles);
#pragma unroll
    for (int half = WARP / 2; half > WARP / 2 / WIDTH; half /= 2) number += __shfl_xor_sync(ALL, number, half);
    constexpr int STEP = WARP / NUMBERS;  // lanes from row to row
    if (lane < STEP * UNROLL && lane % STEP == 0) store(first + lane / STEP * WARPS * ROWS, number);
#else
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        double tile[1] = {sum_of(u, 0)};
        const double number = across_lanes<1, LANES / 2, Tile::LAST>(tile);
        if (lane % LANES == 0) store(first + u * WARPS * ROWS, number);
    }
#endif
}
