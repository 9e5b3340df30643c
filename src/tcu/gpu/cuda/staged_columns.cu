// As columns.cu, of 16-bit numbers whose rows begin at multiples of 16 bytes: a warp copies rows into shared memory in the
// background, pieces that lie side by side together, and the matrix unit has them from there, transposed.
//
// Compiled with ELEMENT and LAYOUT ALIGNED, LEVELS, HALVES, LOOPS, ALONG, THREADS and RESIDENT as columns.cu says, and
//   PIECES   of 16 bytes: of a row, where it has 2, 4 or 8 of them, and rows lie without gaps; else all units of a warp
//   STAGES   leaves that a warp has room for
//   UNROLL   of the loop over a tile's units
//   SHARES   1: a block's columns lie side by side; 0: blocks take turns
//   MANY     1: a warp has columns one after another, ALONG 1

#define COLUMNS 8

#include "columns.cuh"
#include "mma_ones.cuh"
#include "result.cuh"

constexpr int ROWS = HALVES ? 16 : 32, UNITS = HALVES ? 16 : 8, PARTS = HALVES ? 2 : 1, NUMBERS = 2 * PARTS;
constexpr int ACROSS = THREADS / WARP / ALONG, TILE_BYTES = 4096, COPIES = 8, PIECE = 16;

// A piece's place in the tile: the eight rows of a matrix lie in different banks, and so do pieces copied together.
// Every bit is the sum, modulo 2, of bits of row and unit, so that places of sums without carries are sums.
__device__ constexpr u32 place_of_piece(int row, int unit) {
    const int b0 = row & 1, b1 = row >> 1 & 1, b3 = row >> 3 & 1, last = HALVES ? row >> 2 & 1 : row >> 4 & 1;
    const int key = PIECES == 2   ? b0 << 1 | (b1 ^ b3) << 2 | last
                    : PIECES == 4 ? b0 << 2 | b3 << 1 | last
                                  : b0 | b3 << 1 | last << 2;
    return PIECE * (row * UNITS + (unit ^ key));
}

// To shared memory, or zeros.
__device__ inline void copy_if(bool any, u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(any ? 16 : 0) : "memory");
}
__device__ inline void end_tile() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER>
__device__ inline void wait_for_tile() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

__device__ inline void load_transposed(u32 (&m)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(at)
                 : "memory");
}

// unit / pieces: see columns.cu.
__device__ inline u32 outer_of(const Columns& p, u32 unit) {
    const u64 low = (p.inverse & 0xffffffff) * unit, high = (p.inverse >> 32) * unit + (low >> 32);
    return p.inverse == 0 ? unit : static_cast<u32>(high >> 32);
}

// A warp's tiles, in the order in which they are added up: those of the turns of a leaf, of the leaves, of the columns.
struct Tiles {
    const Columns& p;
    u32 slots;  // of the warp
    u32 ask, take;
    u32 units, step, end;
    i64 begin;
    int first, rows;  // the first of the warp's leaves begins at row `first`
    int leaf, row;
    const char* data;  // the lane's, of row 0
    bool any;

    __device__ Tiles(const Columns& p, u32 slots, u32 units, u32 step, u32 end, i64 begin, int first, int rows)
        : p(p), slots(slots), ask(0), take(0), units(units), step(step), end(end), begin(begin), first(first), rows(rows),
          leaf(0) {
        go_to_leaf();
        go_to_units();
    }

    __device__ void go_to_leaf() {
        row = first;
#pragma unroll
        for (int k = 0; k < LEVELS; ++k)
            if (leaf >> k & 1) row += p.distance[k];
        if (row >= static_cast<int>(p.period)) row = rows;  // a plan may have warps in other numbers than powers of two
    }

    __device__ void go_to_units() {
        const u32 unit = units + threadIdx.x % WARP % PIECES, outer = outer_of(p, unit);
        const i64 at = outer * p.outer_stride + static_cast<i64>(unit - outer * p.pieces) * PER_LOAD;
        any = unit < p.units && units < end;
        data = static_cast<const char*>(p.data) + 2 * (at + (begin + threadIdx.x % WARP / PIECES) * p.stride);
    }

    // Asks for the next tile, if there is one.
    __device__ void ask_for_next() {
        const int own = threadIdx.x % WARP / PIECES;
        const u32 to = slots + ask * TILE_BYTES, place = place_of_piece(own, threadIdx.x % PIECES);
        const char* at = data + 2 * row * p.stride;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int more = i * (WARP / PIECES) % ROWS, outers = i * WARP / (PIECES * ROWS);
            const bool here = any && row + own + more < rows && (outers == 0 || units + outers * PIECES < p.units);
            copy_if(here, to + (place ^ place_of_piece(more, outers * PIECES)), at + 2 * (more * p.stride + outers * p.outer_stride));
        }
        end_tile();
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

    // What the lane has of the next tile, two columns of unit g: sums of each pair of rows in four.
    __device__ void sums_of_next(float (&sums)[2][NUMBERS]) {
        __syncwarp();  // all lanes have read what is there now
        ask_for_next();
        wait_for_tile<STAGES - 1>();
        __syncwarp();
        const int lane = threadIdx.x % WARP, matrix = lane / 8, k = lane % 8;
#if HALVES
        const int row = k % 2 | k / 2 % 2 * 8 | k / 4 * 4 | matrix % 2 * 2, unit = matrix / 2;
#else
        const int row = k % 2 | k / 2 * 8 | matrix / 2 * 2 | matrix % 2 * 4, unit = 0;
#endif
        const u32 from = slots + take * TILE_BYTES, place = place_of_piece(row, unit);
#pragma unroll UNROLL
        for (int c = 0; c < 8; ++c) {
            u32 m[4];
            load_transposed(m, from + (place ^ PIECE * PARTS * c));
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
                ::multiply(d, ONES, ONES, HALVES ? m[2 * part] : m[0], HALVES ? 0 : m[1]);
                ::multiply(e, ONES, ONES, HALVES ? m[2 * part + 1] : m[2], HALVES ? 0 : m[3]);
                if (c > 0 && lane / 4 != c) continue;
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    sums[0][2 * part + n] = d[n];
                    sums[1][2 * part + n] = e[n];
                }
            }
        }
        take = take + 1 == STAGES ? 0 : take + 1;
    }
};

// The sums of the leaves below that level, the first of which begins at `row`.
template <int LEVEL>
__device__ inline void sum_below(Tiles& tiles, int row, double (&v)[NUMBERS]) {
    const Columns& p = tiles.p;
    if constexpr (LEVEL == 0) {
        double low[NUMBERS] = {}, high[NUMBERS] = {};
        if (row >= static_cast<int>(p.period)) row = tiles.rows;
#pragma unroll 1
        do {
            float sums[2][NUMBERS];
            tiles.sums_of_next(sums);
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
                low[n] += sums[0][n];
                high[n] += sums[1][n];
            }
            row += static_cast<int>(p.period);
        } while (LOOPS && row < tiles.rows);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) v[n] = low[n] + high[n];
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

__device__ inline void across_warps_of_columns(double (&v)[NUMBERS]) {
    if (ALONG == 1) return;
    __shared__ double numbers[NUMBERS][ALONG][THREADS / ALONG];
    const int along = threadIdx.x / WARP % ALONG, thread = threadIdx.x / WARP / ALONG * WARP + threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n) numbers[n][along][thread] = v[n];
    __syncthreads();
    if (along != 0) return;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n) {
        double all[ALONG];
#pragma unroll
        for (int i = 0; i < ALONG; ++i) all[i] = numbers[n][i][thread];
#pragma unroll
        for (int step = 1; step < ALONG; step *= 2)
#pragma unroll
            for (int i = 0; i < ALONG; i += 2 * step) all[i] += all[i + step];
        v[n] = all[0];
    }
}

// As store_rounded.
__device__ inline u32 binary32_of(double value) {
    return value != value ? 0x7fffffff : __float_as_uint(__double2float_rn(value + 0.0));
}

// Two neighbouring results of each part of the lane's.
__device__ inline void store(const Columns& p, u32 units, double (&v)[NUMBERS]) {
    const Target target = static_cast<Target>(p.target);
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const u32 unit = units + (HALVES ? 2 * (lane / 4) + part : lane / 4), outer = outer_of(p, unit);
        if (unit >= p.units) continue;
        const i64 column = static_cast<i64>(unit - outer * p.pieces) * PER_LOAD + lane % 4 * 2;
        const i64 result = blockIdx.y * p.results + outer * p.inner + column;
        double a = v[2 * part], b = v[2 * part + 1];
        if (p.divisor != 1) a /= p.divisor, b /= p.divisor;
        void* const at = place(p.out, result, target);
        if (target == TO_BINARY32 && column + 1 < p.inner && reinterpret_cast<u64>(at) % 8 == 0) {
            const uint2 both = {binary32_of(a), binary32_of(b)};
            *static_cast<uint2*>(at) = both;
        } else {
            if (column < p.inner) store_rounded(at, a, target);
            if (column + 1 < p.inner) store_rounded(place(p.out, result + 1, target), b, target);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) columns(const __grid_constant__ Columns p) {
    extern __shared__ __align__(128) unsigned char staged[];
    const int warp = threadIdx.x / WARP, along = warp % ALONG;
    const u32 slots = static_cast<u32>(__cvta_generic_to_shared(staged)) + warp * STAGES * TILE_BYTES;
    const u32 together = ACROSS * UNITS;
    u32 units = blockIdx.x * together, step = gridDim.x * together, end = p.units;
    if (SHARES) {
        const u32 share = (p.units + step - 1) / step * together;
        units = blockIdx.x * share;
        step = together;
        end = min(p.units, units + share);
    }
    units += warp / ALONG * UNITS;
    const i64 begin = blockIdx.y * p.chunk;
    const int rows = static_cast<int>(min(p.length - begin, p.chunk));
    int first = 0;
#pragma unroll
    for (int k = 0; 1 << k < ALONG; ++k)
        if (along >> k & 1) first += p.distance[LEVELS + k];
    Tiles tiles(p, slots, units, step, end, begin, first, rows);
#pragma unroll 1
    for (int i = 1; i < STAGES; ++i) tiles.ask_for_next();
#pragma unroll 1
    do {
        if (MANY && units >= end) break;
        double v[NUMBERS];
        sum_below<LEVELS>(tiles, first, v);
        across_warps_of_columns(v);
        if (along == 0) store(p, units, v);
        units += step;
    } while (MANY);
    wait_for_tile<0>();
}
