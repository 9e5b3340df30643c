// Sums of many short rows: each has the bits of its own sum by the plan of sum.cu.
//
// A row of a chunk's first loads is what warps 0 to TILES - 1 of the plan would load first.  Here one warp
// has 32 / LANES rows at once, LANES lanes to a row, or one row in TILES loads; the plan's other lanes,
// rows of fragments, warps and loads would be zeros, which change no sum.
//
// Compiled with ELEMENT and LAYOUT (array.cuh; ALIGNED: every row begins at a multiple of 16 bytes), and
//   LANES    1 to 32, a power of two
//   TILES    1 to 8; more than 1 with 32 lanes alone
//   LOOPS    1: rows longer than 8 tiles, which a warp goes through in as many turns as the plan
//   UNROLL   groups of rows of a warp in flight
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//
// The host fills the structure field by field (tcu/gpu/rows.py): change both together.

#include "array.cuh"
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

// Elements `offset` and up of the row that begins at element `start`, +0 beyond its end.
__device__ inline Vector row_vector(const Rows& p, i64 start, i64 offset) {
    Vector r;
    r.words = make_uint4(0, 0, 0, 0);
    const i64 left = p.length - offset;
    if (left <= 0) return r;
    const Code* from = static_cast<const Code*>(p.data) + start + offset;
#if LAYOUT == ALIGNED
    if (left >= PER_LOAD) {
        r.words = read_once(from);
        return r;
    }
#else
    const u64 address = reinterpret_cast<u64>(from), shift = address % 16;
    const u64 end = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + (p.rows - 1) * p.stride + p.length);
    const u64 low_at = address - shift;
    if (low_at + 32 <= end) {
        const uint4* aligned = reinterpret_cast<const uint4*>(low_at);
        const uint4 a = __ldg(aligned), b = __ldg(aligned + 1);
        u32 w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) r.word[i] = __funnelshift_r(w[i], w[i + 1], (shift & 3) * 8);
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i)
            if (i >= left) r.codes[i] = 0;
        return r;
    }
#endif
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i)
        if (i < left) r.codes[i] = from[i];
    return r;
}

// The sum of the LANES lanes that share this lane's row, in all of them.
template <int FIRST, int LAST>
__device__ inline double across_lanes(double v) {
#pragma unroll
    for (int half = FIRST; half >= LAST; half /= 2) v += __shfl_xor_sync(ALL, v, half);
    return v;
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

    // Of this lane's row.
    __device__ double sum() const { return across_lanes<LANES / 2, 4>(low + high); }
};

#else

struct Tile {
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
        return across_lanes<LANES / 2, 1>(sums[0]);
    }
};

#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rows(const __grid_constant__ Rows p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 first = (static_cast<i64>(blockIdx.x) * UNROLL * WARPS + warp) * ROWS + lane / LANES;
    const int turns = LOOPS ? static_cast<int>(p.turns) : 1;
    Tile sums[UNROLL][TILES];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        Vector x[UNROLL][TILES];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const i64 row = first + u * WARPS * ROWS;
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
                const i64 offset = ((turn * TILES + t) * WARP + lane % LANES) * PER_LOAD;
                x[u][t].words = make_uint4(0, 0, 0, 0);
                if (row < p.rows) x[u][t] = row_vector(p, row * p.stride, offset);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int t = 0; t < TILES; ++t) sums[u][t].add(x[u][t]);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const i64 row = first + u * WARPS * ROWS;
        constexpr int WIDTH = power_of_two(TILES);
        double tiles[WIDTH];
#pragma unroll
        for (int t = 0; t < WIDTH; ++t) tiles[t] = t < TILES ? sums[u][t < TILES ? t : 0].sum() : 0;
#pragma unroll
        for (int half = WIDTH / 2; half > 0; half /= 2)
#pragma unroll
            for (int t = 0; t < half; ++t) tiles[t] += tiles[t + half];
        double number = tiles[0];
        if (p.divisor != 1) number /= p.divisor;
        const Target target = static_cast<Target>(p.target);
        if (row < p.rows && lane % LANES == 0) store_rounded(place(p.out, row, target), number, target);
    }
}
