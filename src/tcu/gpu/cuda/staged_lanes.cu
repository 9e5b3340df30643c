// As columns.cu, of binary32 whose rows begin at multiples of 16 bytes: a warp copies rows into shared memory in the
// background, pieces that lie side by side together, and each lane reads its column from there.
//
// Compiled with ELEMENT BINARY32 and LAYOUT ALIGNED, LEVELS, LOOPS, ALONG, THREADS and RESIDENT as columns.cu says, and
//   WITHIN   of the levels of a warp, those of the leaves that it adds up at a time
//   PIECES   of 16 bytes: of a row, where it has 2 or 4 of them, and rows lie without gaps; else 8, all of a warp
//   STAGES   turns of such leaves that a warp has room for
//   SHARES, MANY   as staged_columns.cu says

#define COLUMNS 4

#include "columns.cuh"
#include "result.cuh"

constexpr int ROWS = 1 << WITHIN, UNITS = 8, NUMBERS = 1;
constexpr int ACROSS = THREADS / WARP / ALONG, PIECE = 16, TILE_BYTES = ROWS * UNITS * PIECE, COPIES = TILE_BYTES / PIECE / WARP;

// To shared memory, or zeros.
__device__ inline void copy_if(bool any, u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(any ? 16 : 0) : "memory");
}
__device__ inline void end_tile() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER>
__device__ inline void wait_for_tile() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

__device__ inline u32 load_code(u32 at) {
    u32 code;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(code) : "r"(at) : "memory");
    return code;
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
    int leaf, row, own;
    const char* data;  // the lane's, of row 0
    bool any;

    __device__ Tiles(const Columns& p, u32 slots, u32 units, u32 step, u32 end, i64 begin, int first, int rows)
        : p(p), slots(slots), ask(0), take(0), units(units), step(step), end(end), begin(begin), first(first), rows(rows),
          leaf(0), own(rows_to(threadIdx.x % WARP / PIECES)) {
        go_to_leaf();
        go_to_units();
    }

    __device__ void go_to_leaf() {
        row = first;
#pragma unroll
        for (int k = 0; k < LEVELS - WITHIN; ++k)
            if (leaf >> k & 1) row += p.distance[WITHIN + k];
        if (row >= static_cast<int>(p.period)) row = rows;  // a plan may have warps in other numbers than powers of two
    }

    // How many rows lie between the first one of a tile and that number; some bits of it, in a warp the same.
    __device__ int rows_to(int number) const {
        int rows = 0;
#pragma unroll
        for (int k = 0; k < WITHIN; ++k)
            if (number >> k & 1) rows += p.distance[k];
        return rows;
    }

    __device__ void go_to_units() {
        const u32 unit = units + threadIdx.x % WARP % PIECES, outer = outer_of(p, unit);
        const i64 at = outer * p.outer_stride + static_cast<i64>(unit - outer * p.pieces) * PER_LOAD;
        any = unit < p.units && units < end;
        data = static_cast<const char*>(p.data) + sizeof(Code) * (at + (begin + own) * p.stride);
    }

    // Asks for the next tile, if there is one.
    __device__ void ask_for_next() {
        const int lane = threadIdx.x % WARP;
        const u32 to = slots + ask * TILE_BYTES + PIECE * (lane / PIECES * UNITS + lane % PIECES);
        const char* at = data + static_cast<i64>(sizeof(Code)) * row * p.stride;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int number = i * (WARP / PIECES) % ROWS, outers = i * WARP / (PIECES * ROWS), more = rows_to(number);
            const bool here = any && row + own + more < rows && (outers == 0 || units + outers * PIECES < p.units);
            copy_if(here, to + PIECE * (number * UNITS + outers * PIECES),
                    at + static_cast<i64>(sizeof(Code)) * (more * p.stride + outers * p.outer_stride));
        }
        end_tile();
        ask = ask + 1 == STAGES ? 0 : ask + 1;
        row += static_cast<int>(p.period);
        if (LOOPS && row < rows) return;
        if (++leaf == 1 << LEVELS - WITHIN) {
            leaf = 0;
            units += step;
            go_to_units();
        }
        go_to_leaf();
    }

    // To the lane's leaves, what the next turn has of them.
    __device__ void add_next(double (&leaves)[ROWS]) {
        __syncwarp();  // all lanes have read what is there now
        ask_for_next();
        wait_for_tile<STAGES - 1>();
        __syncwarp();
        const u32 from = slots + take * TILE_BYTES + sizeof(Code) * (threadIdx.x % WARP);
        u32 codes[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) codes[i] = load_code(from + i * UNITS * PIECE);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const double number = to_binary64(codes[i]);
            leaves[i] = LOOPS ? leaves[i] + number : number;
        }
        take = take + 1 == STAGES ? 0 : take + 1;
    }
};

// The sums of the leaves below that level, the first of which begins at `row`.
template <int LEVEL>
__device__ inline void sum_below(Tiles& tiles, int row, double (&v)[NUMBERS]) {
    const Columns& p = tiles.p;
    if constexpr (LEVEL == WITHIN) {
        double leaves[ROWS] = {};
        if (row >= static_cast<int>(p.period)) row = tiles.rows;
#pragma unroll 1
        do {
            tiles.add_next(leaves);
            row += static_cast<int>(p.period);
        } while (LOOPS && row < tiles.rows);
#pragma unroll
        for (int step = 1; step < ROWS; step *= 2)
#pragma unroll
            for (int i = 0; i < ROWS; i += 2 * step) leaves[i] += leaves[i + step];
        v[0] = leaves[0];
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

// The lane's result.
__device__ inline void store(const Columns& p, u32 units, double (&v)[NUMBERS]) {
    const Target target = static_cast<Target>(p.target);
    const int lane = threadIdx.x % WARP;
    const u32 unit = units + lane / PER_LOAD, outer = outer_of(p, unit);
    const i64 column = static_cast<i64>(unit - outer * p.pieces) * PER_LOAD + lane % PER_LOAD;
    if (unit >= p.units || column >= p.inner) return;
    if (p.divisor != 1) v[0] /= p.divisor;
    store_rounded(place(p.out, blockIdx.y * p.results + outer * p.inner + column, target), v[0], target);
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
