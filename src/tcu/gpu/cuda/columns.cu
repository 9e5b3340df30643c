// Sums along an axis that is not the last: every column has the bits of its own sum by the plan of sum.cu.
//
// The array is (outer, length, inner), and inner numbers lie side by side; a column is `length` of them, a row apart.
// What one accumulator of the plan adds up is a leaf: rows at the distance `period`.  Leaves come together two by two,
// `distance[k]` rows apart on level k; a warp goes through them in the order in which that takes LEVELS numbers.
// A warp has 64 columns of 16-bit numbers, or 32 of others.  Of long columns a block has a chunk, and another launch,
// by the plan's last steps, adds up what chunks come to.
//
// Compiled with ELEMENT and LAYOUT (array.cuh; of 16-bit numbers, ALIGNED: rows begin at multiples of 16 bytes), and
//   LEVELS   of the leaves of a warp
//   ALONG    warps that share the leaves of a column, the levels above; the block's other warps have other columns
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//
// The host fills the structure field by field (tcu/gpu/columns.py): change both together.

#include "gather.cuh"
#include "mma_ones.cuh"
#include "result.cuh"

constexpr int MAX_LEVELS = 12;

struct Columns {
    const void* data;
    i64 outer_stride;  // in elements, as the next
    i64 stride;        // from row to row
    i64 inner;
    u32 pieces;  // of `inner`, each a unit of columns
    u32 units;   // of all outer indices
    i64 length;
    i64 chunk;   // rows
    i64 period;  // rows
    i64 results;  // of a chunk
    void* out;
    double divisor;
    i64 target;
    int distance[MAX_LEVELS];
};

// A lane's columns of a chunk.
struct Chunk {
    const Code* data;
    i64 stride;
    int columns;
    int rows;
};

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// Lane 4g + t has rows 8t to 8t + 7 of the leaf's 32, columns 8g to 8g + 7 of the warp's: in pairs, one above the
// other, what lane t of four has of a row in rows.cu, and so operand B.  All rows of D are alike; of the eight columns
// of its units the lane keeps number g, so that it has column g of the units 2t and 2t + 1 in the end.
struct Leaves {
    static constexpr int COLUMNS = 8, LANES = 4, NUMBERS = 2, LEVELS_WITHIN = 0, DEPTH = 8;
    double low[NUMBERS] = {}, high[NUMBERS] = {};

    __device__ void add(const Columns&, const Chunk& x, int row) {
        const int group = threadIdx.x % WARP / LANES;
        row += threadIdx.x % LANES * DEPTH;
        const Code* at = x.data + row * x.stride;
        Granules asked[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) asked[i] = ask(at + i * x.stride, row + i < x.rows ? x.columns : 0, 0);
        Vector rows[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) rows[i] = assemble(asked[i], at + i * x.stride, PER_LOAD, 0);
        float kept[2 * NUMBERS];
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const auto pair = [&](int i) {
                return __byte_perm(rows[i].word[c / 2], rows[i + 1].word[c / 2], c % 2 ? 0x7632 : 0x5410);
            };
            float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
            ones_times(d, pair(0), pair(4));
            ones_times(e, pair(2), pair(6));
            if (c > 0 && group != c) continue;
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
                kept[n] = d[n];
                kept[NUMBERS + n] = e[n];
            }
        }
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            low[n] += kept[n];
            high[n] += kept[NUMBERS + n];
        }
    }

    __device__ void sums(double (&v)[NUMBERS]) const {
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) v[n] = low[n] + high[n];
    }

    // Whose sum number n is, of the warp's units and of the unit's columns.
    static __device__ int unit(int n) { return threadIdx.x % LANES * NUMBERS + n; }
    static __device__ int column() { return threadIdx.x % WARP / LANES; }
};

#else

// A column for each lane, and several leaves at once.
struct Leaves {
    static constexpr int COLUMNS = 1, LANES = 1, NUMBERS = 1, LEVELS_WITHIN = LEVELS < 4 ? LEVELS : 4;
    static constexpr int COUNT = 1 << LEVELS_WITHIN;
    double leaf[COUNT] = {};

    __device__ void add(const Columns& p, const Chunk& x, int row) {
        Code codes[COUNT];
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {  // in Gray's order, each leaf a level away from the one before
            const int gray = i ^ i >> 1;
            codes[gray] = 0;
            if (row < x.rows && x.columns > 0) codes[gray] = __ldg(at);
#pragma unroll
            for (int k = 0; k < LEVELS_WITHIN; ++k) {
                if ((i + 1) % (2 << k) != 1 << k) continue;
                const int step = gray >> k & 1 ? -p.distance[k] : p.distance[k];
                row += step;
                at += step * x.stride;
            }
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) leaf[i] += to_binary64(codes[i]);
    }

    __device__ void sums(double (&v)[NUMBERS]) {
#pragma unroll
        for (int step = 1; step < COUNT; step *= 2)
#pragma unroll
            for (int i = 0; i < COUNT; i += 2 * step) leaf[i] += leaf[i + step];
        v[0] = leaf[0];
    }

    static __device__ int unit(int) { return threadIdx.x % WARP; }
    static __device__ int column() { return 0; }
};

#endif

constexpr int NUMBERS = Leaves::NUMBERS;
constexpr int UNITS = WARP / Leaves::LANES;  // of a warp
constexpr int ACROSS = THREADS / WARP / ALONG;

// Neighbouring columns, none of them beyond the last unit.
struct Unit {
    u32 outer;
    i64 first;
    int columns;

    __device__ Unit(const Columns& p, u32 unit) : outer(unit / p.pieces) {
        first = static_cast<i64>(unit % p.pieces) * Leaves::COLUMNS;
        columns = unit < p.units ? static_cast<int>(min(p.inner - first, i64(Leaves::COLUMNS))) : 0;
    }
};

// The sums of the leaves below that level, the first of which begins at `row`.
template <int LEVEL>
__device__ inline void sum_below(const Columns& p, const Chunk& x, int row, double (&v)[NUMBERS]) {
    if constexpr (LEVEL == Leaves::LEVELS_WITHIN) {
        Leaves leaves;
        if (row < static_cast<int>(p.period))  // a plan may have warps in other numbers than powers of two
#pragma unroll 1
            for (int turn = row; turn < x.rows; turn += static_cast<int>(p.period)) leaves.add(p, x, turn);
        leaves.sums(v);
    } else {
        double first[NUMBERS];
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            sum_below<LEVEL - 1>(p, x, row + half * p.distance[LEVEL - 1], v);
#pragma unroll
            for (int n = 0; n < NUMBERS; ++n) {
                if (half == 0) first[n] = v[n];
                else v[n] += first[n];
            }
        }
    }
}

// The tree over the warps that share columns, in the first of them.  Every thread of the block comes here.
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

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) columns(const __grid_constant__ Columns p) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, along = warp % ALONG;
    const u32 units = (blockIdx.x * ACROSS + warp / ALONG) * UNITS;  // the first of the warp's
    const i64 begin = blockIdx.y * p.chunk;
    int row = 0;
#pragma unroll
    for (int k = 0; 1 << k < ALONG; ++k)
        if (along >> k & 1) row += p.distance[LEVELS + k];
    double v[NUMBERS];
    {
        const Unit unit(p, units + lane / Leaves::LANES);
        const Code* data = static_cast<const Code*>(p.data) + unit.outer * p.outer_stride + unit.first;
        const int rows = static_cast<int>(min(p.length - begin, p.chunk));
        sum_below<LEVELS>(p, {data + begin * p.stride, p.stride, unit.columns, rows}, row, v);
    }
    across_warps_of_columns(v);
    const Target target = static_cast<Target>(p.target);
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n) {
        const Unit unit(p, units + Leaves::unit(n));
        const int column = Leaves::column();
        if (along != 0 || column >= unit.columns) continue;
        if (p.divisor != 1) v[n] /= p.divisor;
        store_rounded(place(p.out, blockIdx.y * p.results + unit.outer * p.inner + unit.first + column, target), v[n], target);
    }
}
