// Sums of many short rows.  Each has the bits of its own sum by the plan of sum.cu.
//
// In the plan, a short row is what warps 0 to TILES - 1 load first.  Here one warp has 32 / LANES rows at once, LANES
// lanes to a row, or one row in TILES loads.  The plan's other lanes, rows of fragments, warps and loads would be
// zeros, which change no sum.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every row begins at a multiple of 16 bytes), and
//   LANES    1 to 32, a power of two
//   TILES    1 to 8; more than 1 with 32 lanes alone
//   LOOPS    1: rows longer than 8 tiles, which a warp goes through chunk by chunk, each in as many turns as the plan;
//            AT_ONCE turns of TOGETHER tiles are in flight (UNROLL is 1)
//   UNROLL   groups of rows of a warp in flight
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow

#include "device/finish/store.cuh"
#include "device/load/row.cuh"
#include "device/reduce/rows.cuh"
#include "device/warp/tree.cuh"

using namespace tcu;

constexpr int WARPS = THREADS / WARP;
constexpr int ROWS = WARP / LANES;  // rows of a warp at once

#include "generated/rows/Rows.inc"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rows(const __grid_constant__ Rows p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 first = (static_cast<i64>(blockIdx.x) * UNROLL * WARPS + warp) * ROWS + lane / LANES;
    const auto data_of = [&](int u) { return static_cast<const Code*>(p.data) + (first + u * WARPS * ROWS) * p.stride; };
    const auto length_of = [&](int u) { return first + u * WARPS * ROWS < p.rows ? p.length : 0; };
    const auto offset_of = [&](int turn, int t) {
        return static_cast<i64>((turn * TILES + t) * WARP + lane % LANES) * PER_LOAD;
    };
#if LOOPS
    constexpr int TURN = TILES * WARP * PER_LOAD;
    constexpr int WIDTH = warp::power_of_two(TILES);
    double total = 0;  // the sum of chunk number `lane`
#pragma unroll 1
    for (int chunk = 0; chunk < static_cast<int>(p.chunks); ++chunk) {
        const i64 begin = chunk * p.turns * TURN, length = max(length_of(0) - begin, 0ll);
        const Code* const data = data_of(0) + begin;
        const int turns = static_cast<int>(min(p.turns, (length + TURN - 1) / TURN));
        // Few tiles at a time, so that the accumulators stay in registers.
        double tiles[WIDTH] = {};
#pragma unroll
        for (int t = 0; t < TILES; t += TOGETHER) {
            reduce::RowTile some[TOGETHER];
#pragma unroll 1
            for (int turn = 0; turn < turns; turn += AT_ONCE) {
                load::Granules x[TOGETHER][AT_ONCE];
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < AT_ONCE; ++i) x[j][i] = load::ask<true>(data, length, offset_of(turn + i, t + j));
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < AT_ONCE; ++i)
                        some[j].add(load::assemble<true>(x[j][i], data, length, offset_of(turn + i, t + j)));
            }
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j) tiles[t + j] = some[j].sum();
        }
        const double number = reduce::sum_of_tiles<WIDTH>(tiles);
        if (lane == chunk) total = number;
    }
#else
    load::Granules x[UNROLL][TILES];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int t = 0; t < TILES; ++t) x[u][t] = load::ask(data_of(u), length_of(u), offset_of(0, t));
    const auto part = [&](int u, int t) {
        return reduce::sum_of(load::assemble(x[u][t], data_of(u), length_of(u), offset_of(0, t)));
    };
#if LANES == 32
    constexpr int WIDTH = warp::power_of_two(TILES);
    double tiles[WIDTH * UNROLL] = {};
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) tiles[t * UNROLL + u] = reduce::number_of(part(u, t));
#endif
#endif
    const finish::Target target = static_cast<finish::Target>(p.target);
    const auto store = [&](i64 row, double number) {
        if (p.divisor != 1) number /= p.divisor;
        if (row < p.rows) finish::store_rounded(finish::place(p.out, row, target), number, target);
    };
#if LOOPS
    total = warp::tree<WARP>(total);
    if (lane == 0) store(first, total);
#elif LANES == 32
    static_assert(!reduce::NEAR || UNROLL == 1 || WIDTH * UNROLL <= 4, "the first lanes have the rows");
    const double number = reduce::sum_of_tiles<WIDTH>(tiles);
    constexpr int STEP = reduce::NEAR ? 1 : WARP / (WIDTH * UNROLL);  // lanes from row to row
    if (lane < STEP * UNROLL && lane % STEP == 0) store(first + lane / STEP * WARPS * ROWS, number);
#else
    // As many rows at a time as a row has lanes.
    constexpr int PIECES = LANES < UNROLL ? LANES : UNROLL;
#pragma unroll
    for (int u = 0; u < UNROLL; u += PIECES) {
        reduce::Pieces<PIECES> pieces;
#pragma unroll
        for (int i = 0; i < PIECES; ++i) pieces.take(i, part(u + i, 0));
        const i64 row = first + (u + pieces.number()) * WARPS * ROWS;
        if (pieces.PLAIN && target == finish::TO_BINARY32 && p.divisor == 1) {
            const float sum = pieces.plain_sum();
            if (pieces.stores() && row < p.rows) static_cast<float*>(p.out)[row] = sum;
        } else {
            const double sum = pieces.sum();
            if (pieces.stores()) store(row, sum);
        }
    }
#endif
}
