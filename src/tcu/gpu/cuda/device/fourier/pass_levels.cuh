// The levels of a pass: which butterflies a thread has of each, and how numbers come from one to the next through shared memory.
//
// Part of pass.cuh, which says with what it is compiled.

#include "device/fourier/passes.cuh"
#include "device/load/cluster_pairs.cuh"

namespace tcu::fourier::PASS {

constexpr int RADICES_[] = {RADICES};
constexpr int LEVELS = sizeof(RADICES_) / sizeof(int);

constexpr u32 SIDE = WORK == BINARY16 && !HALVED ? 2 : 1;  // columns in the lanes of one
constexpr u32 WIDTH = SIDE * COLUMNS;

// What a block of a cluster has behind the first level.
constexpr u32 OWN_COLUMNS = RADICES_[0] / CLUSTER, OWN_LENGTH = LENGTH / RADICES_[0];
static_assert(CLUSTER == 1 || (COLUMNS == 1 && BY_COLUMN && WHOLE && !IN_PARTS && !TURNED && !UP && !DOWN && TARGET_KIND != HALVES));
static_assert(CLUSTER == 1 || (LEVELS > 1 && RADICES_[0] % CLUSTER == 0 && OWN_LENGTH % CLUSTER == 0));

// Which columns a block of threads takes: from one on, of a block of columns in a batch.
struct FftTile {
    u32 batch = 0, block = 0, column;

    __device__ FftTile(const FftPass& p, u32 number) {
        const u32 tile = number / CLUSTER;
        if constexpr (FLAT) {
            column = tile * WIDTH;
        } else {
            const u32 tiles = TILES ? TILES : (static_cast<u32>(p.columns) + WIDTH - 1) / WIDTH;
            const u32 blocks = BLOCKS ? BLOCKS : static_cast<u32>(p.blocks);
            const u32 inner = BLOCKS_INNER ? blocks : tiles, outer = BLOCKS_INNER ? tiles : blocks, rest = tile / inner;
            column = (BLOCKS_INNER ? rest % outer : tile % inner) * WIDTH;
            block = BLOCKS_INNER ? tile % inner : rest % outer;
            batch = rest / outer;
        }
    }

    __device__ i64 at(const FftPlaces& places, u32 own) const {
        return batch * places.batch + block * places.block + static_cast<i64>(column + own) * places.column;
    }
};

__device__ constexpr u32 before(int level) {
    return level == 0 ? 1 : RADICES_[level - 1] * before(level - 1);
}

// Where a level's twiddle factors begin.
__device__ constexpr u32 table_of(int level) {
    return level == 0 ? 0 : table_of(level - 1) + (RADICES_[level - 1] - 1) * (LENGTH / before(level));
}

// What a thread has of a level.  Indices of a block are unsigned: a division of a number with a sign takes four instructions more.
template <int AT>
struct Butterflies {
    static constexpr bool SENT = CLUSTER > 1 && AT > 0;  // to a block that has it as columns of a shorter transform
    static constexpr u32 RADIX = RADICES_[AT], STRIDE = before(AT) / (SENT ? RADICES_[0] : 1), LEFT = LENGTH / before(AT);
    static constexpr u32 APART = (SENT ? OWN_LENGTH : LENGTH) / RADIX, BESIDE = SENT ? OWN_COLUMNS : COLUMNS;
    static constexpr u32 COUNT = APART * BESIDE / (SENT ? 1 : CLUSTER), OWN = (COUNT + THREADS - 1) / THREADS;
    static constexpr bool LAST = AT == LEVELS - 1;
    static constexpr bool IN_ROWS = LAST ? ROWS_OUT && !SENT : AT == 0 ? ROWS_IN : BY_COLUMN;

    u32 at[OWN], column[OWN];  // of each butterfly: its first number, which lies below APART
    Complex x[OWN][RADIX];

    __device__ Butterflies() {
#pragma unroll
        for (u32 j = 0; j < OWN; ++j) {
            const u32 own = threadIdx.x + j * THREADS;
            at[j] = IN_ROWS ? own % APART : own / BESIDE;
            column[j] = IN_ROWS ? own / APART : own % BESIDE;
            if constexpr (CLUSTER > 1 && AT == 0) at[j] = blockIdx.x % CLUSTER * COUNT + own, column[j] = 0;
        }
    }

    __device__ bool has(u32 j) const { return COUNT % THREADS == 0 || threadIdx.x + j * THREADS < COUNT; }

    __device__ bool has(const FftPass& p, const FftTile& tile, u32 j) const {
        return has(j) && (WHOLE || tile.column + SIDE * column[j] < p.columns);
    }

    // Of the last level: which result of the pass a butterfly's first is, LENGTH / RADIX before the next, and of which of a tile's columns.
    __device__ u32 result(u32 j) const { return SENT ? blockIdx.x % CLUSTER * OWN_COLUMNS + column[j] + RADICES_[0] * at[j] : at[j]; }
    __device__ u32 of_tile(u32 j) const { return SENT ? 0 : column[j]; }
};

// Bytes of a place in shared memory: of numbers, or of their parts, of each lane.
constexpr u32 PLACE = IN_PARTS ? sizeof(Complex) / (WORK == BINARY16 ? 4 : 2) : sizeof(Complex);

// The place in shared memory of number l + k·STEP.  Behind each row of its banks, one place is left out.
template <u32 STEP>
__device__ inline u32 place(u32 l, u32 column, u32 k) {
    constexpr u32 PADDING = 128 / PLACE, UNIT = BY_COLUMN ? STEP : STEP * COLUMNS;
    const u32 first = BY_COLUMN ? l : l * COLUMNS + column, more = BY_COLUMN ? column * PITCH : 0;
    if constexpr ((CLUSTER > 1 ? OWN_LENGTH : LENGTH) % 2) return first + more + k * UNIT;
    if constexpr (UNIT % PADDING == 0) return first + first / PADDING + more + k * (UNIT + UNIT / PADDING);
    const u32 at = first + k * UNIT;
    return at + at / PADDING + more;
}

#if WORK == BINARY16
typedef ComplexOf<float> Root;
#else
typedef Complex Root;
#endif

__device__ inline Root root(const FftPass& p, u32 at) {
    const Root* const high = static_cast<const Root*>(p.high);
    const Root* const low = static_cast<const Root*>(p.low);
    return times(high[at >> p.shift], low[at & ((1u << p.shift) - 1)]);
}

// By which number k of a column is multiplied; of lanes, that of two columns, over a power of two.
__device__ inline Complex roots(const FftPass& p, u32 k, u32 column, bool second, u32 drop = 0) {
#if WORK == BINARY16
    const float scale = __uint_as_float((127 - drop) << 23);
    const Root first = times(root(p, k * column), scale), other = times(root(p, k * (column + second)), scale);
    return {lanes_of(first.re, other.re), lanes_of(first.im, other.im)};
#else
    return root(p, k * column);
#endif
}

struct WholeNumber {
    __device__ Complex& operator()(Complex& x) const { return x; }
};
struct RealPart {
    __device__ Floating& operator()(Complex& x) const { return x.re; }
};
struct ImaginaryPart {
    __device__ Floating& operator()(Complex& x) const { return x.im; }
};

template <int AT, typename Word, typename Part>
__device__ inline void take(const Word* shared, Butterflies<AT>& level, Part part) {
    typedef Butterflies<AT> L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) part(level.x[j][i]) = shared[place<L::APART>(level.at[j], level.column[j], i)];
    }
}

// Numbers of a level, or their parts, to shared memory, and what the next level has from there.
template <int AT, typename Word, typename Part>
__device__ inline void hand_over(Word* shared, Butterflies<AT>& level, Butterflies<AT + 1>& next, Part part) {
    typedef Butterflies<AT> L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
        const u32 l = level.at[j] % L::STRIDE + L::STRIDE * L::RADIX * (level.at[j] / L::STRIDE);
#pragma unroll
        for (u32 k = 0; k < L::RADIX; ++k) shared[place<L::STRIDE>(l, level.column[j], k)] = part(level.x[j][k]);
    }
    __syncthreads();
    take(shared, next, part);
}

// The same of two lanes, part by part.
template <int AT>
__device__ inline void hand_over_lanes(u16* shared, Butterflies<AT>& level, Butterflies<AT + 1>& next) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        if (part > 0) __syncthreads();
        hand_over<AT>(shared, level, next, [part](Complex& x) -> u16& { return reinterpret_cast<u16*>(&x)[part]; });
    }
}

#if CLUSTER > 1
// Where a block is told of numbers that have come.
__device__ inline u64& sent() {
    __shared__ u64 arrived;
    return arrived;
}

// The same of a cluster's first level: to the blocks that have its columns.
__device__ inline void send(const Complex* shared, const Butterflies<0>& level, Butterflies<1>& next) {
    typedef Butterflies<0> L;
    load::wait_for_cluster();  // all of its blocks are there
    if (threadIdx.x == 0) load::expect(OWN_LENGTH * OWN_COLUMNS * sizeof(Complex), &sent());
#pragma unroll
    for (u32 block = 0; block < CLUSTER; ++block) {
        const u32 there = load::address_in_block(shared, block), barrier = load::address_in_block(&sent(), block);
#pragma unroll
        for (u32 j = 0; j < L::OWN; ++j) {
            if (!level.has(j)) continue;
#pragma unroll
            for (u32 column = 0; column < OWN_COLUMNS; ++column) {
                const Complex x = level.x[j][block * OWN_COLUMNS + column];
                load::tell_pair(there + place<1>(level.at[j], column, 0) * sizeof(Complex), barrier, x.re, x.im);
            }
        }
    }
    load::wait_for_copy(&sent(), 0);
    take(shared, next, WholeNumber());
}
#endif

// Results times their twiddles to the next level.
template <int AT>
__device__ inline void exchange(const FftPass& p, Complex* shared, Butterflies<AT>& level, Butterflies<AT + 1>& next) {
    typedef Butterflies<AT> L;
    constexpr u32 ROWS = L::LEFT / L::RADIX;
    const Twiddle* const twiddles = static_cast<const Twiddle*>(p.twiddles) + table_of(AT);
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
#pragma unroll
        for (u32 k = 1; k < L::RADIX; ++k) level.x[j][k] = times(level.x[j][k], twiddles[(k - 1) * ROWS + level.at[j] / L::STRIDE]);
    }
#if CLUSTER > 1
    if constexpr (AT == 0) return send(shared, level, next);
#endif
    if constexpr (AT > 0) __syncthreads();
    if constexpr (IN_PARTS && WORK == BINARY16) {
        hand_over_lanes<AT>(reinterpret_cast<u16*>(shared), level, next);
    } else if constexpr (IN_PARTS) {
        Floating* const parts = reinterpret_cast<Floating*>(shared);
        hand_over<AT>(parts, level, next, RealPart());
        __syncthreads();
        hand_over<AT>(parts, level, next, ImaginaryPart());
    } else {
        hand_over<AT>(shared, level, next, WholeNumber());
    }
}

}  // namespace tcu::fourier::PASS
