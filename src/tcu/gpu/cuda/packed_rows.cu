// Sums of rows that lie in memory without gaps: each has the bits of its own sum by the plan of sum.cu.
//
// A warp reads its rows through a ring in shared memory and takes PIECES of 32 · 16 bytes at a time, in each of
// which 32 / LANES rows have LANES lanes, or one row has one of its TILES; the plan's other lanes, rows of fragments,
// warps and loads would be zeros, which change no sum.  Rows of more than 8 tiles it reads chunk by chunk, each in
// the plan's turns of 8 tiles.
//
// Compiled with ELEMENT and LAYOUT (array.cuh; ALIGNED: every row begins at a multiple of 16 bytes), and
//   LANES    1 to 32, a power of two
//   TILES    1 to 8; more than 1 with 32 lanes alone
//   WORDS    of 4 bytes that may hold what a lane has of a row, up to 5; less than 5 with one lane alone
//   LOOPS    1: rows of more than 8 tiles (TILES is 8)
//   RESIDENT   blocks per multiprocessor that the registers must allow
//
// Reading rows of 3 to 100 numbers from memory directly (rows.cu) took 80 to 180 instructions a piece, two to three
// times what memory speed allows.
//
// The host fills the structure field by field (tcu/gpu/rows.py): change both together.

#include "halving.cuh"
#include "mma_ones.cuh"
#include "result.cuh"
#include "stream.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / WARP;
constexpr bool MMA = sizeof(Code) == 2;
constexpr int WIDTH = power_of_two(TILES);
// At once, and with TILES those of PIECES / WIDTH rows.  Twice as many leave too little of the ring under way.
constexpr int PIECES = WIDTH > 4 ? WIDTH : LANES < 4 ? LANES : 4;
// Of pieces, before memory is asked again.
[[maybe_unused]] constexpr int TURNS = WORDS == 2 ? 8 : PIECES < 4 ? 4 / PIECES : 1;
[[maybe_unused]] constexpr int ROWS = WARP / LANES * (PIECES / WIDTH);   // of a turn
// Lanes that have the same sums after an MMA; each goes on with the sums of another piece.
constexpr int ALIKE = !MMA || TILES > 1 ? 1 : LANES < 4 ? LANES : 4;
[[maybe_unused]] constexpr int NUMBERS = PIECES / ALIKE;  // of a lane

struct PackedRows {
    const void* data;
    i64 rows;
    i64 length;
    void* out;
    double divisor;
    i64 target;
    i64 share;   // rows of a warp
    i64 turns;   // of a chunk
    i64 chunks;  // of a row, up to WARP
};

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// The parts of this lane's row: rows g and g + 8 of the fragment.
__device__ inline float2 sum_of(const Vector& x) {
    const int lane = threadIdx.x % WARP, column = lane / 4;
    float d[4] = {0, 0, 0, 0};
    if (LANES >= 4) {
        multiply_by_ones(d, x);
        return make_float2(d[0], d[2]);
    }
    // The lanes of a row of the fragment belong to several rows here: B has ones where column and lane belong
    // together, so each finds its sum in its own columns.  The others' numbers are multiplied by 0, which makes NaN
    // of their inf: where a sum is NaN, each has an MMA of its own.
    constexpr int PARTS = LANES < 4 ? 4 / LANES : 1;
    multiply(d, x, column * PARTS / 8 == lane % 4 / LANES ? ONES : 0);
    float2 sum = make_float2(d[0], d[2]);
    if (__any_sync(ALL, sum.x + sum.y != sum.x + sum.y)) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const bool mine = lane % 4 / LANES == part;
            Vector masked = x;
            if (!mine) masked.words = make_uint4(0, 0, 0, 0);
            float e[4] = {0, 0, 0, 0};
            multiply_by_ones(e, masked);
            if (mine) sum = make_float2(e[0], e[2]);
        }
    }
    return sum;
}
typedef float2 Part;
__device__ inline double number_of(const Part& v) { return static_cast<double>(v.x) + static_cast<double>(v.y); }
constexpr int LAST = 4;  // lanes of a row of fragments have the same

// What a warp of the plan has added up.
struct Tile {
    double low = 0, high = 0;
    __device__ void add(const Vector& x) {
        const Part sum = sum_of(x);
        low += sum.x;
        high += sum.y;
    }
    __device__ double sum() const { return low + high; }
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
        return sums[0];
    }
};
typedef double Part;
__device__ inline Part sum_of(const Vector& x) {
    Tile tile;
    tile.add(x);
    return tile.sum();
}
__device__ inline double number_of(Part v) { return v; }
constexpr int LAST = 1;

#endif

// Elements up to number `left`, +0 behind.
__device__ inline Vector masked(Vector v, int left) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v.word[i] = lowest(v.word[i], 8 * static_cast<int>(sizeof(Code)) * left - 32 * i);
    return v;
}

// 16 bytes of the ring, whatever they are.
__device__ inline Vector vector_at(const Data& data, u32 at) {
#if LAYOUT == ALIGNED
    Vector v;
    v.words = *reinterpret_cast<const uint4*>(data.at(at));
    return v;
#else
    return shifted(read<(LANES <= 4), WORDS>(data, at));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) packed_rows(const __grid_constant__ PackedRows p) {
    __shared__ Data::Memory memory[WARPS];
    const int lane = threadIdx.x % WARP;
    Data data(memory[threadIdx.x / WARP]);
    const i64 begin = (static_cast<i64>(blockIdx.x) * WARPS + threadIdx.x / WARP) * p.share;
    const i64 end = min(begin + p.share, p.rows);
    if (begin >= end) return;
    const u32 length = static_cast<u32>(p.length), bytes = length * static_cast<u32>(sizeof(Code));
    const u32 rows = static_cast<u32>(end - begin);
    const u32 shift = data.start(static_cast<const Code*>(p.data) + begin * p.length, rows * bytes);
    u32 at = shift + lane / LANES * bytes + lane % LANES * 16;
    const Target target = static_cast<Target>(p.target);
#if LOOPS
    constexpr u32 TURN = TILES * WARP * 16;  // bytes
#pragma unroll 1
    for (u32 done = 0; done < rows; ++done) {
        double total = 0;  // of chunk number `lane`
        u32 to_come = bytes;
#pragma unroll 1
        for (int chunk = 0; chunk < static_cast<int>(p.chunks); ++chunk) {
            Tile tiles[TILES];
#pragma unroll 1
            for (int turn = 0; turn < static_cast<int>(p.turns) && to_come; ++turn) {
                const u32 some = min(to_come, TURN), behind = at - lane * 16 + some;
                data.wait(behind);
                if (some == TURN) {
#pragma unroll
                    for (int t = 0; t < TILES; ++t) tiles[t].add(vector_at(data, at + t * WARP * 16));
                } else {
#pragma unroll
                    for (int t = 0; t < TILES; ++t) tiles[t].add(masked(vector_at(data, at + t * WARP * 16),
                        (static_cast<int>(some) - (t * WARP + lane) * 16) / static_cast<int>(sizeof(Code))));
                }
                at += some;
                to_come -= some;
                data.go_on(behind);
            }
            double v[TILES];
#pragma unroll
            for (int t = 0; t < TILES; ++t) v[t] = tiles[t].sum();
            const double number = sum_of_tiles<TILES, LAST>(v);
            if (lane == chunk) total = number;
        }
        total = tree<WARP>(total);
        if (p.divisor != 1) total /= p.divisor;
        if (lane == 0) store_rounded(place(p.out, begin + done, target), total, target);
    }
#else
    // Of the last tile: what is behind the row is none of it.
    const int left = static_cast<int>(length) - ((TILES - 1) * WARP + lane % LANES) * PER_LOAD;
    Vector mask;
    mask.words = make_uint4(ALL, ALL, ALL, ALL);
    mask = masked(mask, left);
    // Lanes that have nothing of the row read its beginning, where another does.
    if (TILES == 1 && left <= 0) at -= lane % LANES * 16;
    // The sum of two multiples of 2^-24 below 2^21 is exact in binary64: one rounding is enough.
    [[maybe_unused]] const bool plain = ELEMENT == BINARY16 && ALIKE == LANES && target == TO_BINARY32 && p.divisor == 1;
    constexpr int STEP = LANES / NUMBERS > ALIKE ? LANES / NUMBERS : ALIKE;  // lanes from number to number
    const int number = lane % LANES / STEP;                                  // of the NUMBERS, of this lane
    const int piece = number * ALIKE + lane % ALIKE;
    const int row = piece % (PIECES / WIDTH) * (WARP / LANES) + lane / LANES;
    const bool stores = lane % STEP < ALIKE && piece < PIECES / WIDTH;
    u32 done = 0;
#pragma unroll 1
    while (done < rows) {
        data.wait(shift + min(done + ROWS * TURNS, rows) * bytes);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn, done += ROWS) {
            double v[NUMBERS] = {};
            Part mine[NUMBERS] = {};
#pragma unroll
            for (int u = 0; u < PIECES / WIDTH; ++u, at += WARP / LANES * bytes)
#pragma unroll
                for (int t = 0; t < TILES; ++t) {
                    Vector x = vector_at(data, at + t * WARP * 16);
                    if (t == TILES - 1)
#pragma unroll
                        for (int i = 0; i < 4; ++i) x.word[i] &= mask.word[i];
                    const Part sum = sum_of(x);
                    if (TILES > 1)
                        v[t * (PIECES / WIDTH) + u] = number_of(sum);
                    else if (u % ALIKE == 0 || lane % ALIKE == u % ALIKE)
                        mine[u / ALIKE] = sum;
                }
            const bool any = stores && done + row < rows;
#if ELEMENT == BINARY16
            if (plain) {
                if (any) static_cast<float*>(p.out)[begin + done + row] = mine[0].x + mine[0].y + 0.0f;
                continue;
            }
#endif
            if (TILES == 1)
#pragma unroll
                for (int i = 0; i < NUMBERS; ++i) v[i] = number_of(mine[i]);
            double sum = LANES == WARP ? sum_of_tiles<WIDTH, LAST>(v) : across_lanes<NUMBERS, LANES / 2, LAST>(v);
            if (p.divisor != 1) sum /= p.divisor;
            if (any) store_rounded(place(p.out, begin + done + row, target), sum, target);
        }
        data.go_on(shift + min(done, rows) * bytes);
    }
#endif
    data.finish();
}
