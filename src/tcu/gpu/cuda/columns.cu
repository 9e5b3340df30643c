// Sums along an axis that is not the last: every column has the bits of its own sum by the plan of sum.cu.
//
// The array is (outer, length, inner), and inner numbers lie side by side; a column is `length` of them, a row apart.
// What one accumulator of the plan adds up is a leaf: rows at the distance `period`.  Leaves come together two by two,
// `distance[k]` rows apart on level k.  The first levels are shared by lanes; a warp goes through the leaves above in
// the order in which LEVELS numbers have to wait; the last levels are shared by warps.  Of long columns a block has a
// chunk, and another launch, by the plan's last steps, adds up what the chunks come to.
//
// Compiled with ELEMENT and LAYOUT (array.cuh; of 16-bit numbers, ALIGNED: what is loaded begins at multiples of GRAIN
// bytes), and
//   GRAIN    16, or 8, of 16-bit numbers ALIGNED and not NARROW
//   COLUMNS  of a unit: of 16-bit numbers 8, or where NARROW is 1, the inner extent, which is no more, and its rows lie
//            without gaps; of others, what a lane loads at once, which divides the inner extent
//   SPREAD   levels that lanes share, of 16-bit numbers up to 3, of others up to 5
//   LEVELS   of a warp
//   HALVES   of 16-bit numbers, 1: no column has more than 16 rows, half a leaf, and two units come together
//   TURNS    of 16-bit numbers, turns at a time, so that enough is read at once; else 1
//   LOOPS    1: a chunk has more turns than that
//   ALONG    warps that share a column; the block's other warps have other columns
//   PIPED    1: 16-bit numbers, ALIGNED and not NARROW, ALONG 1: a warp has columns one after another, and asks for what
//            comes next before it adds up
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
    u64 inverse;  // 2^64 / pieces, rounded up; 0 where there is one piece
    i64 length;
    i64 chunk;   // rows
    i64 period;  // rows
    i64 results;  // of a chunk
    void* out;
    double divisor;
    i64 target;
    int distance[MAX_LEVELS];
};

// A lane's columns of a chunk, from its own leaf on.
struct Chunk {
    const Code* data;
    i64 stride;
    int columns;
    int rows;
};

// The sum of the leaves that 2^DEPTH neighbouring lanes share.
template <int DEPTH>
__device__ inline double across_lanes(double v) {
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) v += __shfl_xor_sync(ALL, v, 1 << k);
    return v;
}

// What is there, if any, to words that are zero before; not by a branch, behind which the compiler would wait for each.
__device__ inline void read_if(bool any, const void* at, u32 (&to)[1]) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.u32 %0, [%1]; }"
                 : "+r"(to[0])
                 : "l"(at), "r"(static_cast<u32>(any)));
}
__device__ inline void read_if(bool any, const void* at, u32 (&to)[2]) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2]; }"
                 : "+r"(to[0]), "+r"(to[1])
                 : "l"(at), "r"(static_cast<u32>(any)));
}
__device__ inline void read_if(bool any, const void* at, u32 (&to)[4]) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                 : "l"(at), "r"(static_cast<u32>(any)));
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// Lane 4g + t has eight rows of 32, for the columns of a unit, and there is one, or a leaf of one, for each g.  Two rows,
// one above the other, are what lane t of four has of a row in rows.cu, and so operand B.  All rows of D are alike: it has
// one column of each unit, and of the columns the lane keeps number g, for units 2t and 2t + 1.
struct Leaves {
    static constexpr int UNIT = COLUMNS, LANES = HALVES ? 2 : 4, WITHIN = 0, DEPTH = 8;
    static constexpr int PARTS = 4 / LANES, NUMBERS = SPREAD == 0 ? 2 * PARTS : 1;
    double low[2 * PARTS] = {}, high[2 * PARTS] = {};

    typedef Granules Asked[COLUMNS];

    static __device__ int group() { return threadIdx.x % WARP / 4; }
    static __device__ int part() { return threadIdx.x % 4 / LANES; }

    // Which row number i of a lane is, of those that follow its first one.  NARROW, 8t + i, so that it has them in one
    // piece; else such that lanes 2s and 2s + 1 read neighbouring rows.  The bits of the sum are the same: what an MMA
    // adds at a time, on any architecture, are numbers of two lanes and of rows alike but for the bits that change places.
#if NARROW
    static __device__ int first() { return threadIdx.x % LANES * DEPTH; }
#else
    static __device__ int first() { return threadIdx.x % LANES / 2 * 16 + threadIdx.x % 2; }
    static __device__ constexpr int row_of(int i) { return i % 2 * 8 + i / 2 * 2; }
#endif

    static __device__ Granules ask_row(const Code* at, int columns) {
#if GRAIN == 16
        return ask(at, columns, 0);
#else
        u32 first[2] = {}, second[2] = {};
        read_if(columns > 0, at, first);
        read_if(columns > PER_LOAD / 2, at + PER_LOAD / 2, second);
        Granules g;
        g.first = make_uint4(first[0], first[1], second[0], second[1]);
        return g;
#endif
    }

    static __device__ void ask_for(const Chunk& x, int row, Asked& asked) {
        row += first();
#if !NARROW
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {  // row by row
            const int i = k / 4 + k % 4 * 2;
            asked[i] = ask_row(at + row_of(i) * x.stride, row + row_of(i) < x.rows ? x.columns : 0);
        }
#else
        const int length = x.columns > 0 ? x.rows * COLUMNS : 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) asked[i] = ask<false, true>(x.data, length, row * COLUMNS + i * PER_LOAD);
#endif
    }

    // `then` is called as soon as the matrix unit has what was asked for.
    template <typename Then>
    __device__ void add(const Chunk& x, int row, const Asked& asked, const Then& then) {
        row += first();
        Vector v[COLUMNS];  // number c of row i is number i * COLUMNS + c
#if !NARROW
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) v[i] = assemble(asked[i], at + row_of(i) * x.stride, PER_LOAD, 0);
#else
        const int length = x.columns > 0 ? x.rows * COLUMNS : 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) v[i] = assemble(asked[i], x.data, length, row * COLUMNS + i * PER_LOAD);
#endif
        float sums[2][2 * PARTS];  // of each pair of rows in four
#if HALVES
        // Of the rows of A, the upper ones have ones for the first unit's lanes, the lower ones for the second's.  The
        // others' numbers are multiplied by 0, which makes NaN of their inf: where a sum is NaN, each has MMAs of its own.
        multiply(v, part() == 0 ? ONES : 0, part() == 1 ? ONES : 0, sums);
        bool nan = false;
#pragma unroll
        for (int n = 0; n < 2 * PARTS; ++n) nan |= sums[0][n] + sums[1][n] != sums[0][n] + sums[1][n];
        if (__any_sync(ALL, nan)) {
#pragma unroll 1
            for (int only = 0; only < PARTS; ++only) {
                Vector masked[COLUMNS];
#pragma unroll
                for (int i = 0; i < COLUMNS; ++i) masked[i].words = part() == only ? v[i].words : make_uint4(0, 0, 0, 0);
                float own[2][2 * PARTS];
                multiply(masked, ONES, ONES, own);
#pragma unroll
                for (int n = 0; n < 2 * PARTS; ++n)
                    if (n / 2 == only) sums[0][n] = own[0][n], sums[1][n] = own[1][n];
            }
        }
#else
        multiply(v, ONES, ONES, sums);
#endif
        then();
#pragma unroll
        for (int n = 0; n < 2 * PARTS; ++n) {
            low[n] += sums[0][n];
            high[n] += sums[1][n];
        }
    }

    // By an A of which the upper rows have one word, the lower ones another: this lane's of D, in the rows of both where
    // there are two parts.
    static __device__ void multiply(const Vector (&v)[COLUMNS], u32 upper, u32 lower, float (&sums)[2][2 * PARTS]) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const auto pair = [&](int i) {
                const int first = i * COLUMNS + c, second = first + COLUMNS;
                const u32 selector = (first % 2 ? 0x32 : 0x10) | (second % 2 ? 0x7600 : 0x5400);
                return __byte_perm(v[first / 8].word[first / 2 % 4], v[second / 8].word[second / 2 % 4], selector);
            };
            float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
            ::multiply(d, upper, lower, pair(0), pair(4));
            ::multiply(e, upper, lower, pair(2), pair(6));
            if (c > 0 && group() != c) continue;
#pragma unroll
            for (int n = 0; n < 2 * PARTS; ++n) {
                sums[0][n] = d[n];
                sums[1][n] = e[n];
            }
        }
    }

    __device__ void add(const Columns& p, const Chunk& x, int row) {
        const int period = static_cast<int>(p.period);
        Asked asked[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; ++i) ask_for(x, row + i * period, asked[i]);
#pragma unroll
        for (int i = 0; i < TURNS; ++i) add(x, row + i * period, asked[i], [] {});
    }

    __device__ void sums(double (&v)[NUMBERS]) const {
#if SPREAD == 0
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) v[n] = low[n] + high[n];
#else
        v[0] = across_lanes<SPREAD - 1>(low[0] + high[0] + (low[1] + high[1]));
#endif
    }

    // The units are numbered such that what the lanes store at a time lies side by side: those of even columns of D
    // come before those of odd ones; leaves of a unit are neighbours.
    static __device__ int unit() { return SPREAD == 0 ? part() * 8 + group() % 2 * 4 + group() / 2 : group(); }
    // Whose sum number n is, of the warp's units and leaves, and of the unit's columns.
    static __device__ int owner(int n) { return SPREAD == 0 ? n * 4 + threadIdx.x % 4 : threadIdx.x % 4 * 2; }
    static __device__ int column() { return group(); }
    static __device__ void arrange(double (&)[NUMBERS]) {}
};

#else

// Neighbouring columns for each lane, or a leaf of them, and several leaves at once.
struct Leaves {
    static constexpr int UNIT = COLUMNS, LANES = 1, NUMBERS = COLUMNS;
    static constexpr int WITHIN = LEVELS < 4 ? LEVELS : 4, COUNT = 1 << WITHIN;
    double leaf[COUNT][COLUMNS] = {};

    union Piece {
        u32 words[COLUMNS * sizeof(Code) / 4];
        Code codes[COLUMNS];
    };

    __device__ void add(const Columns& p, const Chunk& x, int row) {
        Piece pieces[COUNT] = {};
        const Code* at = x.data + row * x.stride;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {  // in Gray's order, each leaf a level away from the one before
            const int gray = i ^ i >> 1;
            read_if(row < x.rows && x.columns > 0, at, pieces[gray].words);
#pragma unroll
            for (int k = 0; k < WITHIN; ++k) {
                if ((i + 1) % (2 << k) != 1 << k) continue;
                const int step = gray >> k & 1 ? -p.distance[SPREAD + k] : p.distance[SPREAD + k];
                row += step;
                at += step * x.stride;
            }
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const double number = to_binary64(pieces[i].codes[c]);
                leaf[i][c] = LOOPS ? leaf[i][c] + number : number;
            }
    }

    __device__ void sums(double (&v)[NUMBERS]) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) leaf[i][c] = across_lanes<SPREAD>(leaf[i][c]);
#pragma unroll
            for (int step = 1; step < COUNT; step *= 2)
#pragma unroll
                for (int i = 0; i < COUNT; i += 2 * step) leaf[i][c] += leaf[i + step][c];
            v[c] = leaf[0][c];
        }
    }

    static __device__ int unit() { return threadIdx.x % WARP; }

    // For the store, number n of the lanes are neighbouring columns: a number of owner's, which holds COLUMNS of them.
    static __device__ int owner(int n) { return (n * WARP + threadIdx.x % WARP) / COLUMNS; }
    static __device__ int column() { return threadIdx.x % COLUMNS; }
    static __device__ void arrange(double (&v)[NUMBERS]) {
#if COLUMNS > 1
        double own[COLUMNS];
#pragma unroll
        for (int n = 0; n < COLUMNS; ++n) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const double number = __shfl_sync(ALL, v[c], owner(n));
                if (c == 0 || column() == c) own[n] = number;
            }
        }
#pragma unroll
        for (int n = 0; n < COLUMNS; ++n) v[n] = own[n];
#endif
    }
};

#endif

constexpr int NUMBERS = Leaves::NUMBERS;
constexpr int UNITS = WARP / Leaves::LANES >> SPREAD;  // of a warp
constexpr int ACROSS = THREADS / WARP / ALONG;

// Neighbouring columns, none of them beyond the last unit.
struct Unit {
    u32 outer;
    i64 first;
    int columns;

    __device__ Unit(const Columns& p, u32 unit) : outer(outer_of(p, unit)) {
        first = static_cast<i64>(unit - outer * p.pieces) * Leaves::UNIT;
        columns = unit < p.units ? static_cast<int>(min(p.inner - first, i64(Leaves::UNIT))) : 0;
    }

    // unit / pieces, exact for 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019); a
    // warp of few rows took a fifth of its instructions for divisions.
    static __device__ u32 outer_of(const Columns& p, u32 unit) {
        const u64 low = (p.inverse & 0xffffffff) * unit, high = (p.inverse >> 32) * unit + (low >> 32);
        return p.inverse == 0 ? unit : static_cast<u32>(high >> 32);
    }
};

struct Ahead {
#if PIPED
    Leaves::Asked asked;  // of the next leaf
    Chunk next;           // the columns that follow
#endif
};
constexpr int NEXT_COLUMNS = -1;

// The sums of the leaves below that level, the first of which begins at `row`, and the one that follows them at `after`.
template <int LEVEL>
__device__ inline void sum_below(const Columns& p, const Chunk& x, int rows, int row, int after, Ahead& ahead,
                                 double (&v)[NUMBERS]) {
    if constexpr (LEVEL == Leaves::WITHIN) {
        Leaves leaves;
        const int period = static_cast<int>(p.period);
        if (row >= period) row = rows;  // a plan may have warps in other numbers than powers of two
#if PIPED
        if (after >= period) after = rows;
#pragma unroll 1
        do {
            const int turn = row + period;
            leaves.add(x, row, ahead.asked, [&] {
                const bool again = LOOPS && turn < rows, here = again || after != NEXT_COLUMNS;
                const Chunk& y = ahead.next;  // field by field, as a choice between addresses would need memory
                const Chunk from = {here ? x.data : y.data, x.stride, here ? x.columns : y.columns, here ? x.rows : y.rows};
                Leaves::ask_for(from, again ? turn : here ? after : 0, ahead.asked);
            });
            row = turn;
        } while (LOOPS && row < rows);
#else
        if (!LOOPS) leaves.add(p, x, row);
        else
#pragma unroll 1
            for (int turn = row; turn < rows; turn += TURNS * period) leaves.add(p, x, turn);
#endif
        leaves.sums(v);
    } else {
        double first[NUMBERS];
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            const int second = row + p.distance[SPREAD + LEVEL - 1];
            sum_below<LEVEL - 1>(p, x, rows, half ? second : row, half ? after : second, ahead, v);
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

// Where a warp stands: its first unit, and the chunk of rows.
struct Here {
    u32 units;
    i64 begin;
    int rows;

    // A lane's columns of it, from the lane's own leaf on.
    __device__ Chunk chunk(const Columns& p) const {
        const int own = Leaves::unit();
        const Unit unit(p, units + (own >> SPREAD));
        int leaf = 0;
#pragma unroll
        for (int k = 0; k < SPREAD; ++k)
            if (own >> k & 1) leaf += p.distance[k];
        const Code* data = static_cast<const Code*>(p.data) + unit.outer * p.outer_stride + unit.first;
        return {data + (begin + leaf) * p.stride, p.stride, unit.columns, rows - leaf};
    }

    __device__ void store(const Columns& p, double (&v)[NUMBERS]) const {
        const Target target = static_cast<Target>(p.target);
        Leaves::arrange(v);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            const int owner = Leaves::owner(n), column = Leaves::column();
            const Unit unit(p, units + (owner >> SPREAD));
            if (owner % (1 << SPREAD) != 0 || column >= unit.columns) continue;
            if (p.divisor != 1) v[n] /= p.divisor;
            const i64 result = blockIdx.y * p.results + unit.outer * p.inner + unit.first + column;
            store_rounded(place(p.out, result, target), v[n], target);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) columns(const __grid_constant__ Columns p) {
    const int warp = threadIdx.x / WARP;
    Here here;
    here.units = (blockIdx.x * ACROSS + warp / ALONG) * UNITS;
    here.begin = blockIdx.y * p.chunk;
    here.rows = static_cast<int>(min(p.length - here.begin, p.chunk));
    double v[NUMBERS];
    Ahead ahead;
#if PIPED
    // Of which a warp has many: what comes next is asked for as soon as there is room for it.
    const u32 step = gridDim.x * ACROSS * UNITS;
    Chunk x = here.chunk(p);
    Leaves::ask_for(x, 0, ahead.asked);
#pragma unroll 1
    for (; here.units < p.units; here.units += step) {
        const Here later = {here.units + step, here.begin, here.rows};
        ahead.next = later.chunk(p);
        sum_below<LEVELS>(p, x, here.rows, 0, NEXT_COLUMNS, ahead, v);
        here.store(p, v);
        x = ahead.next;
    }
#else
    const int along = warp % ALONG;
    int row = 0;  // where the warp's leaves begin
#pragma unroll
    for (int k = 0; 1 << k < ALONG; ++k)
        if (along >> k & 1) row += p.distance[SPREAD + LEVELS + k];
    sum_below<LEVELS>(p, here.chunk(p), here.rows, row, NEXT_COLUMNS, ahead, v);
    across_warps_of_columns(v);
    if (along == 0) here.store(p, v);
#endif
}
