// A pass of fast Fourier transforms: transforms of a part of the length, all of whose numbers a block has in hand.
//
// A block takes neighbouring columns, a transform each.  Its threads have butterflies of a level in registers and exchange
// results through shared memory: what the levels do, and in which order, is the program of tcu/plan/butterflies.py and the
// plan of tcu/plan/fft.py, which the CPU executes, too.  All is IEEE arithmetic, rounded step by step.
//
// Instructions, for each number of 4096 = 16·16·16: 27 of butterflies, 7.5 of twiddle factors and 2 for their loads, 4 of shared
// memory, 2 of memory, 3 of conversions from and to binary16, 4 of indices: 50, where steps in memory are known beforehand (81 before
// they were).  A multiprocessor of an H200 has time for 75 while 8 bytes are read and written.  Twiddle factors and shared memory take
// 13 cycles for each 32 numbers, and the instructions 12.5: where a multiprocessor has one block, all of whose threads are at the same
// step, these add up.  Fewer levels of up to 32 numbers took 5 to 16 % less time than of up to 16 (2^10 to 2^14).
//
// What failed (2^26 numbers, H100 but where it says H200).  Two passes in one launch, with what lies between them in a ring in the
// second cache: blocks drew tiles in order and waited for those before.  Of 2^16 numbers of binary32 it took 661 in place of 729 us, of
// 2^18 805 in place of 736, of binary16 475 in place of 395: a tile's butterflies are the limit then, and drawing and waiting came on
// top.  The copy engine, which brought the next tile while a block worked: of 2^13 numbers of binary16 270 in place of 223 us, of 2^14 of
// binary32 498 in place of 450; copies by each thread of its own numbers (H200): of 2^16 of binary16 466 in place of 332, of 2^14 331 in
// place of 265.  A cluster's blocks that share a transform (H200): of 2^14 of binary16 297 of two blocks and 309 of four in place of one
// block's 265, of 2^15 423 in place of two passes' 331; of 2^15 of binary32 405 in place of 531, which is why there are clusters, and 380 since
// blocks are told of numbers that have come by asynchronous stores, in place of a barrier of all blocks.
// What lies between two passes in panels of a block's columns, so that the first pass writes what is side by side (H200): of 2^22 numbers
// of binary32 the first took 393 in place of 470, the second, which reads pieces, 380 in place of 317; of binary16 202 and 235, 215 and 183.
//
// What limits two passes is how narrow the pieces are that a block's columns leave of memory, not what is computed: without its butterflies
// and with all else 2^20 numbers of binary32 took 582 in place of 608 us, 2^22 800 in place of 789, of binary16 327 in place of 332 and 413 in
// place of 416 (H200, plans of version 3).
//
// Compiled with
//   WORK            as device/fourier/numbers.cuh says
//   LENGTH, RADICES  of the pass's transforms, and of its levels
//   COLUMNS         that a block takes
//   CLUSTER         blocks that share a transform (sm_90), where COLUMNS is 1: each has butterflies of the first level, and sends each
//                   result to the block that has all numbers of that k, as a column of a shorter transform; else 1
//   THREADS, RESIDENT  of a block, and blocks of a multiprocessor, at least
//   WHOLE           1: blocks have all their columns
//   FLAT            1: there are no batches and blocks of columns
//   TILES, BLOCKS   tiles of a block of columns, and p.blocks, where these are known beforehand, else 0
//   AHEAD           how many blocks later the block comes whose numbers the second cache is to fetch; 0: none
//   READ_STEP, WRITE_STEP, UP_STEP  from a number of a column to the next, where that is known beforehand, else 0
//   ROWS_IN, ROWS_OUT  1: neighbouring threads take neighbouring numbers of one column; 0: neighbouring columns
//   BY_COLUMN, PITCH  1: shared memory holds a column after the other, so many places apart; 0: the columns of a number beside each other
//   IN_PARTS        1: shared memory has room for real numbers alone; real and imaginary parts, of each lane, are exchanged one after the other
//   SOURCE, TARGET  formats of real numbers in memory
//   SOURCE_KIND, TARGET_KIND  of SourceKind
//   SWAP_IN, SWAP_OUT, SWAP_LAST
//                   1: real and imaginary parts are exchanged when read, behind the last level, behind the table
//   SHORT           1: numbers from p.taken on are zero, results from p.made on are not wanted
//   TABLE_IN, TABLE_OUT  1: numbers, results are multiplied by a table's
//   SCALED          1: results are multiplied by p.factor
//   TURNED          results are multiplied by roots of unity, behind them transforms are left: BY_PRODUCTS of a table's; of a first level
//                   alone by its twiddle factors, BY_TABLE; 0: they are not
//   UP, DOWN        1: numbers are multiplied by what their column was divided by; columns are divided by powers of two
//   HALVED, TWO_IN, TWO_OUT, UP_BESIDE, FALL, DROP  of binary16 (device/fourier/pass_of_lanes.cuh): lanes are even and odd numbers;
//                   lanes are beside each other in memory, where 8 bytes begin; from a lane's place in p.up to the next's; columns
//                   are divided by 2^FALL besides before the first level, by 2^DROP with roots of unity

#include "device/fourier/numbers.cuh"
#include "device/load/bulk_copy.cuh"
#include "device/load/cluster_pairs.cuh"

using namespace tcu;
using namespace tcu::fourier;

template <int COUNT>
struct Butterfly;

#include "generated/fft_pass/BUTTERFLIES.inc"

#include "generated/fft_pass/SCALES.inc"

#include "generated/fft_pass/FftPlaces.inc"

#include "generated/fft_pass/FftPass.inc"

// PAIRS: complex numbers; REALS: their real parts, the others are zero or not wanted; NEIGHBOURS: real numbers, two of which make
// a complex one; HERMITIAN: the first half of complex numbers, of whose conjugates the second half consists; HALVES: the first
// half and one more of the transform of real numbers, of which half as many complex ones are made, or which are made of them.
enum SourceKind { PAIRS, REALS, NEIGHBOURS, HERMITIAN, HALVES };

constexpr int RADICES_[] = {RADICES};
constexpr int LEVELS = sizeof(RADICES_) / sizeof(int);

enum Turned { BY_PRODUCTS = 1, BY_TABLE };

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
            const u32 blocks = BLOCKS ? BLOCKS : static_cast<u32>(p.blocks), rest = tile / tiles;
            column = tile % tiles * WIDTH;
            block = rest % blocks;
            batch = rest / blocks;
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

#if WORK != BINARY16
// Times a table's, of so many; further numbers stay.  Without a branch, behind which the next number's loads would wait.
__device__ inline Complex times_of(Complex x, const void* table, u32 at, u32 count) {
    const Complex product = times(x, static_cast<const Complex*>(table)[min(at, count - 1)]);
    return at < count ? product : x;
}

// Number `own` of a whole transform, which is `at` in memory.
__device__ inline Complex number_of(const FftPass& p, i64 at, u32 own) {
    const u32 taken = static_cast<u32>(p.taken), whole = static_cast<u32>(p.whole);
    const auto pair = [&](i64 beyond) { return read_pair<SOURCE, !ROWS_IN>(p.source, at + beyond); };
    if constexpr (SOURCE_KIND == PAIRS) return SHORT && own >= taken ? Complex{0, 0} : pair(0);
    if constexpr (SOURCE_KIND == REALS)
        return {SHORT && own >= taken ? 0 : read_real<SOURCE>(p.source, at), 0};
    if constexpr (SOURCE_KIND == NEIGHBOURS)
        return {SHORT && 2 * own >= taken ? 0 : read_real<SOURCE>(p.source, at),
                SHORT && 2 * own + 1 >= taken ? 0 : read_real<SOURCE>(p.source, at + p.stride)};
    if (SHORT && own >= whole) return {0, 0};
    if constexpr (SOURCE_KIND == HERMITIAN) {
        const bool mirrored = 2 * own > whole;
        const u32 from = mirrored ? whole - own : own;
        Complex x = {0, 0};
        if (from < taken) x = pair((static_cast<i64>(from) - own) * p.stride);
        return {x.re, own == 0 ? 0 : mirrored ? -x.im : x.im};
    } else {
        Complex near = {0, 0}, far = {0, 0};
        if (!SHORT || own < taken) near = pair(0);
        if (!SHORT || whole - own < taken) far = pair((static_cast<i64>(whole) - 2 * static_cast<i64>(own)) * p.stride);
        if (own == 0) near.im = far.im = 0;
        return folded(near, far, static_cast<const Complex*>(p.halves)[own]);
    }
}

__device__ inline void fetch(const FftPass& p, const FftTile& tile, Butterflies<0>& level) {
    typedef Butterflies<0> L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const bool inside = level.has(p, tile, j);
        const i64 apart = READ_STEP ? READ_STEP : p.reads.number;
        const i64 first = tile.at(p.reads, level.column[j]) + level.at[j] * apart;
        const u32 step = static_cast<u32>(p.numbers.number);
        const u32 number = static_cast<u32>(tile.at(p.numbers, level.column[j])) + level.at[j] * step;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            Complex x = {0, 0};
            const u32 own = number + i * L::APART * step;
            if (inside) x = number_of(p, first + i * L::APART * apart, own);
            if constexpr (SWAP_IN) x = swapped(x);
            if constexpr (UP) {
                const float* const up = p.up + tile.at(p.ups, level.column[j]) + level.at[j] * UP_STEP + i * L::APART * UP_STEP;
                if (inside) x = times(x, static_cast<Floating>(*up));
            }
            if constexpr (TABLE_IN) x = times_of(x, p.table_in, own, static_cast<u32>(p.whole));
            level.x[j][i] = x;
        }
    }
}
#endif

// Has the second cache fetch what the block reads that follows on this multiprocessor.
__device__ inline void fetch_ahead(const FftPass& p) {
#if AHEAD
    constexpr u32 BYTES = SOURCE == BINARY16 ? 4 : sizeof(Complex);  // of a number
    if (threadIdx.x >= WIDTH || blockIdx.x + AHEAD >= gridDim.x) return;
    const FftTile next(p, blockIdx.x + AHEAD);
    load::fetch_ahead(static_cast<const char*>(p.source) + next.at(p.reads, threadIdx.x) * BYTES, LENGTH * (1 + HALVED) * BYTES);
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

#if WORK == BINARY16
#include "device/fourier/pass_of_lanes.cuh"
#else
// The power of two by which each column is divided, so that its largest part is below 2^15.
template <typename L>
__device__ inline void find_largest(const FftPass& p, const FftTile& tile, const L& level, u32* largest) {
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const bool inside = level.has(p, tile, j);
        u32 most = 0;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            const u32 re = __float_as_uint(static_cast<float>(level.x[j][i].re)) & 0x7fffffff;
            const u32 im = __float_as_uint(static_cast<float>(level.x[j][i].im)) & 0x7fffffff;
            most = max(most, max(re, im));
        }
        if (!inside) most = 0;
        // Lanes of one column first.
        if constexpr (!ROWS_OUT && COLUMNS < WARP && WARP % COLUMNS == 0 && THREADS % WARP == 0) {
#pragma unroll
            for (int apart = COLUMNS; apart < WARP; apart *= 2) most = max(most, __shfl_xor_sync(ALL, most, apart));
            if (inside && threadIdx.x % WARP < COLUMNS) atomicMax(largest + level.column[j], most);
        } else if (inside) {
            atomicMax(largest + level.column[j], most);
        }
    }
    __syncthreads();
}

// Of transforms of neighbouring real numbers as complex ones: through shared memory, where each finds its counterpart.
template <typename L>
__device__ inline void store_unfolded(const FftPass& p, const FftTile& tile, const L& level, Complex* shared) {
    constexpr u32 PAIRS_OF_COLUMN = LENGTH / 2 + 1;
    const Complex* const turns = static_cast<const Complex*>(p.halves);
    const Floating factor = static_cast<Floating>(p.factor);
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) shared[place<L::APART>(level.at[j], level.column[j], i)] = level.x[j][i];
    }
    __syncthreads();
    for (u32 own = threadIdx.x; own < PAIRS_OF_COLUMN * COLUMNS; own += THREADS) {
        const u32 column = own / PAIRS_OF_COLUMN, k = own % PAIRS_OF_COLUMN, other = LENGTH - k;
        if (!WHOLE && tile.column + column >= p.columns) continue;
        const Complex near = shared[place<1>(k % LENGTH, column, 0)], far = shared[place<1>(other % LENGTH, column, 0)];
        const i64 first = tile.at(p.writes, column), apart = WRITE_STEP ? WRITE_STEP : p.writes.number;
        write_pair<TARGET>(p.target, first + k * apart, unfolded(near, far, turns[k], factor));
        if (other != k) write_pair<TARGET>(p.target, first + other * apart, unfolded(far, near, turns[other], factor));
    }
}

__device__ inline void store(
    const FftPass& p, const FftTile& tile, Butterflies<LEVELS - 1>& level, Complex* shared, const Complex* turns, u32* largest) {
    typedef Butterflies<LEVELS - 1> L;
    if constexpr (TARGET_KIND == HALVES) return store_unfolded(p, tile, level, shared);
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(p, tile, j)) continue;
        const u32 step = static_cast<u32>(p.results.number), made = static_cast<u32>(p.made);
        const u32 number = static_cast<u32>(tile.at(p.results, level.of_tile(j))) + level.result(j) * step;
        Complex turn;
        if constexpr (TURNED == BY_PRODUCTS) turn = root(p, level.at[j] * (tile.column + level.column[j]));
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            Complex x = level.x[j][i];
            if constexpr (TURNED == BY_PRODUCTS) x = times(x, times(turn, turns[i * COLUMNS + level.column[j]]));
            if constexpr (TURNED == BY_TABLE)
                if (i > 0) x = times(x, static_cast<const Complex*>(p.high)[(i - 1) * p.columns + tile.column + level.column[j]]);
            if constexpr (SWAP_OUT) x = swapped(x);
            if constexpr (TABLE_OUT) x = times_of(x, p.table_out, number + i * (LENGTH / L::RADIX) * step, made);
            if constexpr (SCALED) x = times(x, static_cast<Floating>(p.factor));
            if constexpr (SWAP_LAST) x = swapped(x);
            level.x[j][i] = x;
        }
    }
    if constexpr (DOWN) find_largest(p, tile, level, largest);
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(p, tile, j)) continue;
        float down = 1;
        if constexpr (DOWN) {
            const int field = largest[level.column[j]] >> 23;
            const int power = field == 255 ? 0 : min(FIELD - field, MOST_SHIFT);
            down = __uint_as_float(static_cast<u32>(power + 127) << 23);
            if (level.at[j] == 0) p.down[tile.at(p.downs, level.column[j])] = __uint_as_float(static_cast<u32>(127 - power) << 23);
        }
        const i64 apart = WRITE_STEP ? WRITE_STEP : p.writes.number;
        const i64 first = tile.at(p.writes, level.of_tile(j)) + level.result(j) * apart;
        const u32 step = static_cast<u32>(p.results.number), made = static_cast<u32>(p.made);
        const u32 number = static_cast<u32>(tile.at(p.results, level.of_tile(j))) + level.result(j) * step;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            if constexpr (SHORT)
                if (number + i * (LENGTH / L::RADIX) * step >= made) continue;
            Complex x = level.x[j][i];
            if constexpr (DOWN) x = times(x, static_cast<Floating>(down));
            const i64 at = first + i * (LENGTH / L::RADIX) * apart;
            if constexpr (TARGET_KIND == REALS)
                write_real<TARGET>(p.target, at, x.re);
            else
                write_pair<TARGET>(p.target, at, x);
        }
    }
}
#endif

template <int AT>
__device__ inline void go_on(
    const FftPass& p, const FftTile& tile, Complex* shared, Butterflies<AT>& level, const Complex* turns, u32* largest) {
#pragma unroll
    for (u32 j = 0; j < Butterflies<AT>::OWN; ++j) Butterfly<Butterflies<AT>::RADIX>::run(level.x[j]);
    if constexpr (AT + 1 < LEVELS) {
        Butterflies<AT + 1> next;
        exchange<AT>(p, shared, level, next);
        go_on<AT + 1>(p, tile, shared, next, turns, largest);
    } else {
#if WORK == BINARY16
        store(p, tile, level, turns, largest);
#else
        store(p, tile, level, shared, turns, largest);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) fft_pass(const __grid_constant__ FftPass p) {
    typedef Butterflies<LEVELS - 1> Last;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Complex turns[TURNED == BY_PRODUCTS ? Last::RADIX * COLUMNS : 1];
    __shared__ u32 largest[DOWN || WORK == BINARY16 ? WIDTH : 1];
#if CLUSTER > 1
    if (threadIdx.x == 0) load::prepare(&sent());
    load::arrive_in_cluster();
#endif
    const FftTile tile(p, blockIdx.x);
    const auto fill_turns = [&] {
        for (u32 own = threadIdx.x; own < Last::RADIX * COLUMNS; own += THREADS) {
            const u32 column = tile.column + SIDE * (own % COLUMNS);
            const bool second = WHOLE || column + 1 < p.columns;
            if (WHOLE || column < p.columns) turns[own] = roots(p, own / COLUMNS * Last::APART, column, second);
        }
    };
    Butterflies<0> first;
#if WORK == BINARY16
    if constexpr (TURNED == BY_PRODUCTS) fill_turns();
    fetch(p, tile, first, largest);
    fetch_ahead(p);
#else
    fetch(p, tile, first);
    fetch_ahead(p);
    if constexpr (TURNED == BY_PRODUCTS) fill_turns();
    if constexpr (DOWN)
        for (u32 own = threadIdx.x; own < WIDTH; own += THREADS) largest[own] = 0;
    if constexpr (LEVELS == 1 && (TURNED == BY_PRODUCTS || DOWN)) __syncthreads();
#endif
    go_on(p, tile, reinterpret_cast<Complex*>(memory), first, turns, largest);
}
