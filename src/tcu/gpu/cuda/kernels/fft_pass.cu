// A pass of fast Fourier transforms: transforms of a part of the length, all of whose numbers a block has in hand.
//
// A block takes neighbouring columns, a transform each.  Its threads have butterflies of a level in registers and exchange
// results through shared memory: what the levels do, and in which order, is the program of tcu/plan/butterflies.py and the
// plan of tcu/plan/fft.py, which the CPU executes, too.  All is IEEE arithmetic, rounded step by step.
//
// Bytes of memory, for each number and pass: one read, one write of a pair.  Instructions, for each number of 4096 = 16·16·16:
// 27 of butterflies, 7.5 of twiddle factors and 2 for their loads, 4 of shared memory, 2 of memory, and indices.  At the 4.2
// TB/s of an H200 a multiprocessor issues 110 instructions for each number in 8 bytes, and 55 for one in 4.
//
// Compiled with
//   LENGTH, RADICES  of the pass's transforms, and of its levels
//   COLUMNS        that a block takes
//   THREADS, RESIDENT  of a block, and blocks of a multiprocessor, at least
//   WHOLE          1: blocks have all their columns
//   FLAT           1: there are no batches and blocks
//   TILES, BLOCKS  blocks of threads that share columns, and p.blocks, where these are known beforehand, else 0
//   READ_STEP, WRITE_STEP, UP_STEP  from a number of a column to the next, where that is known beforehand, else 0
//   ROWS_IN, ROWS_OUT  1: neighbouring threads take neighbouring numbers of one column; 0: neighbouring columns
//   BY_COLUMN, PITCH  1: shared memory holds a column after the other, so many places apart; 0: the columns of a number beside each other
//   WORK, ELEMENT, RESULT  as device/fourier/numbers.cuh says
//   SOURCE_KIND, TARGET_KIND
//                  PAIRS: complex numbers; REALS: their real parts, the others are zero or not wanted; NEIGHBOURS: real numbers,
//                  two of which make a complex one; HERMITIAN: the first half of them, of whose conjugates the second half consists
//   SWAP_IN, SWAP_OUT, SWAP_LAST
//                  1: real and imaginary parts are exchanged when read, behind the last level, behind the table
//   SHORT          1: numbers from p.taken on are zero, results from p.made on are not wanted
//   TABLE_IN, TABLE_OUT  1: numbers, results are multiplied by a table's
//   SCALED         1: results are multiplied by p.factor
//   TURNED         1: results are multiplied by roots of unity, behind them transforms are left
//   UP, DOWN       1: numbers are multiplied by what their column was divided by; columns are divided by powers of two

#include "device/fourier/numbers.cuh"

using namespace tcu;
using fourier::Complex;
using fourier::fused;
using fourier::minus;
using fourier::plus;
using fourier::Real;
using fourier::times;

enum { PAIRS, REALS, NEIGHBOURS, HERMITIAN };

// A constant, rounded to each format.
__device__ constexpr Real constant(double wide, float narrow) {
    return WORK == BINARY64 ? static_cast<Real>(wide) : static_cast<Real>(narrow);
}

template <int COUNT>
struct Butterfly;

#include "generated/fft/BUTTERFLIES.inc"

#include "generated/fft/SCALES.inc"

#include "generated/fft/FftPlaces.inc"

#include "generated/fft/FftPass.inc"

constexpr int RADIX[] = {RADICES};
constexpr int LEVELS = sizeof(RADIX) / sizeof(int);
constexpr u32 PADDING = 128 / sizeof(Complex);  // of shared memory's banks, so many numbers are one row

__device__ constexpr int before(int level) { return level == 0 ? 1 : RADIX[level - 1] * before(level - 1); }
__device__ constexpr int table_of(int level) {  // where its twiddles begin
    return level == 0 ? 0 : table_of(level - 1) + (RADIX[level - 1] - 1) * (LENGTH / before(level));
}

// Indices of a block are unsigned: a division of a number with a sign takes four instructions more.
template <int AT>
struct Level {
    static constexpr u32 RADIX_ = RADIX[AT], STRIDE = before(AT), APART = LENGTH / RADIX_, LEFT = LENGTH / STRIDE;
    static constexpr u32 COUNT = APART * COLUMNS, OWN = (COUNT + THREADS - 1) / THREADS;
    static constexpr bool LAST = AT == LEVELS - 1;
    static constexpr bool IN_ROWS = LAST ? ROWS_OUT : AT == 0 ? ROWS_IN : BY_COLUMN;

    u32 at[OWN], column[OWN];  // of each butterfly that the thread has: its first number, which lies below APART
    Complex x[OWN][RADIX_];

    __device__ Level() {
#pragma unroll
        for (u32 j = 0; j < OWN; ++j) {
            const u32 own = threadIdx.x + j * THREADS;
            at[j] = IN_ROWS ? own % APART : own / COLUMNS;
            column[j] = IN_ROWS ? own / APART : own % COLUMNS;
        }
    }

    __device__ bool has(u32 j) const { return COUNT % THREADS == 0 || threadIdx.x + j * THREADS < COUNT; }
};

// The place in shared memory of number l + k·STEP.
template <u32 STEP>
__device__ inline u32 place(u32 l, u32 column, u32 k) {
    constexpr u32 UNIT = BY_COLUMN ? STEP : STEP * COLUMNS;
    const u32 first = BY_COLUMN ? l : l * COLUMNS + column, more = BY_COLUMN ? column * PITCH : 0;
    if constexpr (UNIT % PADDING == 0) return first + first / PADDING + more + k * (UNIT + UNIT / PADDING);
    const u32 at = first + k * UNIT;
    return at + at / PADDING + more;
}

struct Tile {
    u32 batch = 0, block = 0, column;

    __device__ Tile(const FftPass& p) {
        if constexpr (FLAT) {
            column = blockIdx.x * COLUMNS;
        } else {
            const u32 tiles = TILES ? TILES : (static_cast<u32>(p.columns) + COLUMNS - 1) / COLUMNS;
            const u32 blocks = BLOCKS ? BLOCKS : static_cast<u32>(p.blocks), rest = blockIdx.x / tiles;
            column = blockIdx.x % tiles * COLUMNS;
            block = rest % blocks;
            batch = rest / blocks;
        }
    }

    // Whether there is the block's column of that number.
    __device__ bool has(const FftPass& p, u32 own) const { return WHOLE || column + own < p.columns; }

    __device__ i64 at(const FftPlaces& places, u32 own) const {
        const i64 first = static_cast<i64>(column + own) * places.column;
        return FLAT ? first : batch * places.batch + block * places.block + first;
    }
};

__device__ inline Complex root(const FftPass& p, u32 at) {
    const Complex* const high = reinterpret_cast<const Complex*>(p.high);
    const Complex* const low = reinterpret_cast<const Complex*>(p.low);
    return times(high[at >> p.shift], low[at & ((1u << p.shift) - 1)]);
}

__device__ inline Complex read(const FftPass& p, i64 at, i64 number) {
    if constexpr (SOURCE_KIND == REALS) return fourier::read_real(p.source, at);
    Complex x = fourier::read_pair(p.source, at);
    if (SOURCE_KIND == HERMITIAN && number == 0) x.im = 0;
    return x;
}

__device__ inline void fetch(const FftPass& p, const Tile& tile, Level<0>& level) {
    typedef Level<0> L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const u32 own = level.column[j];
        const bool inside = level.has(j) && tile.has(p, own);
        const i64 apart = READ_STEP ? READ_STEP : p.reads.number;
        const i64 first = tile.at(p.reads, own) + level.at[j] * apart;
        const i64 step = L::APART * apart;
        const i64 number = tile.block * p.numbers.block + (tile.column + own) * p.numbers.column + level.at[j] * p.numbers.number;
#pragma unroll
        for (u32 i = 0; i < L::RADIX_; ++i) {
            Complex x = {0, 0};
            const i64 own_number = number + i * L::APART * p.numbers.number;
            if constexpr (SOURCE_KIND == HERMITIAN) {
                const bool mirrored = 2 * own_number > p.whole;
                const i64 at = first + i * step + (mirrored ? (p.whole - 2 * own_number) * p.stride : 0);
                const bool is_there = own_number < p.whole && (mirrored ? p.whole - own_number : own_number) < p.taken;
                if (inside && is_there) x = read(p, at, own_number);
                if (mirrored) x.im = -x.im;
            } else if constexpr (SOURCE_KIND == NEIGHBOURS) {
                const i64 at = first + i * step;
                if (inside && (!SHORT || 2 * own_number < p.taken)) x.re = fourier::read_real(p.source, at).re;
                if (inside && (!SHORT || 2 * own_number + 1 < p.taken)) x.im = fourier::read_real(p.source, at + p.stride).re;
            } else if (inside && (!SHORT || own_number < p.taken)) {
                x = read(p, first + i * step, own_number);
            }
            if constexpr (SWAP_IN) x = fourier::swapped(x);
            if constexpr (UP) {
                const float up = inside ? p.up[tile.at(p.ups, own) + level.at[j] * UP_STEP + i * L::APART * UP_STEP] : 0;
                x = times(x, static_cast<Real>(up));
            }
            if constexpr (TABLE_IN)
                if (inside && own_number < p.whole) x = times(x, reinterpret_cast<const Complex*>(p.table_in)[own_number]);
            level.x[j][i] = x;
        }
    }
}

template <int AT>
__device__ inline void transform(Level<AT>& level) {
#pragma unroll
    for (u32 j = 0; j < Level<AT>::OWN; ++j) Butterfly<Level<AT>::RADIX_>::run(level.x[j]);
}

// Results times their twiddles to shared memory, and what the next level has from there.
template <int AT>
__device__ inline void exchange(const FftPass& p, Complex* shared, Level<AT>& level, Level<AT + 1>& next) {
    typedef Level<AT> L;
    typedef Level<AT + 1> N;
    constexpr u32 ROWS = L::LEFT / L::RADIX_;
    const Complex* const twiddles = reinterpret_cast<const Complex*>(p.twiddles) + table_of(AT);
    if constexpr (AT > 0) __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
        const u32 q = level.at[j] / L::STRIDE, l = level.at[j] % L::STRIDE + L::STRIDE * L::RADIX_ * q;
#pragma unroll
        for (u32 k = 0; k < L::RADIX_; ++k) {
            Complex x = level.x[j][k];
            if (k > 0) x = times(x, twiddles[(k - 1) * ROWS + q]);
            shared[place<L::STRIDE>(l, level.column[j], k)] = x;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < N::OWN; ++j) {
        if (!next.has(j)) continue;
#pragma unroll
        for (u32 i = 0; i < N::RADIX_; ++i) next.x[j][i] = shared[place<N::APART>(next.at[j], next.column[j], i)];
    }
}

typedef Level<LEVELS - 1> LastLevel;

__device__ inline void store(const FftPass& p, const Tile& tile, LastLevel& level, const Complex* turns, u32* largest) {
    typedef LastLevel L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const u32 own = level.column[j];
        if (!level.has(j) || !tile.has(p, own)) continue;
        const i64 number = tile.block * p.results.block + (tile.column + own) * p.results.column + level.at[j] * p.results.number;
        Complex turn;
        if constexpr (TURNED) turn = root(p, level.at[j] * (tile.column + own));
#pragma unroll
        for (u32 i = 0; i < L::RADIX_; ++i) {
            Complex x = level.x[j][i];
            if constexpr (TURNED) x = times(x, times(turn, turns[i * COLUMNS + own]));
            if constexpr (SWAP_OUT) x = fourier::swapped(x);
            if constexpr (TABLE_OUT) {
                const i64 at = number + i * L::APART * p.results.number;
                if (at < p.made) x = times(x, reinterpret_cast<const Complex*>(p.table_out)[at]);
            }
            if constexpr (SCALED) x = times(x, static_cast<Real>(p.factor));
            if constexpr (SWAP_LAST) x = fourier::swapped(x);
            level.x[j][i] = x;
        }
    }
    if constexpr (DOWN) {
#pragma unroll
        for (u32 j = 0; j < L::OWN; ++j) {
            const bool inside = level.has(j) && tile.has(p, level.column[j]);
            u32 most = 0;
#pragma unroll
            for (u32 i = 0; i < L::RADIX_; ++i) {
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
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const u32 own = level.column[j];
        if (!level.has(j) || !tile.has(p, own)) continue;
        float down = 1;
        if constexpr (DOWN) {
            const int field = largest[own] >> 23;
            const int power = field == 255 ? 0 : min(FIELD - field, MOST_SHIFT);
            down = __uint_as_float(static_cast<u32>(power + 127) << 23);
            if (level.at[j] == 0)
                p.down[(static_cast<i64>(tile.batch) * p.blocks + tile.block) * p.columns + tile.column + own] =
                    __uint_as_float(static_cast<u32>(127 - power) << 23);
        }
        const i64 apart = WRITE_STEP ? WRITE_STEP : p.writes.number;
        const i64 first = tile.at(p.writes, own) + level.at[j] * apart;
        const i64 step = L::APART * apart;
        const i64 number = tile.block * p.results.block + (tile.column + own) * p.results.column + level.at[j] * p.results.number;
#pragma unroll
        for (u32 i = 0; i < L::RADIX_; ++i) {
            if constexpr (SHORT)
                if (number + i * L::APART * p.results.number >= p.made) continue;
            Complex x = level.x[j][i];
            if constexpr (DOWN) x = times(x, static_cast<Real>(down));
            if constexpr (TARGET_KIND == REALS)
                fourier::write_real(p.target, first + i * step, x);
            else
                fourier::write_pair(p.target, first + i * step, x);
        }
    }
}

template <int AT>
__device__ inline void go_on(const FftPass& p, const Tile& tile, Complex* shared, Level<AT>& level, const Complex* turns, u32* largest) {
    transform(level);
    if constexpr (AT + 1 < LEVELS) {
        Level<AT + 1> next;
        exchange<AT>(p, shared, level, next);
        go_on(p, tile, shared, next, turns, largest);
    } else {
        store(p, tile, level, turns, largest);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS)) fft_pass(const __grid_constant__ FftPass p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Complex turns[TURNED ? RADIX[LEVELS - 1] * COLUMNS : 1];
    __shared__ u32 largest[DOWN ? COLUMNS : 1];
    const Tile tile(p);
    Level<0> first;
    fetch(p, tile, first);
    if constexpr (TURNED)
        for (u32 own = threadIdx.x; own < RADIX[LEVELS - 1] * COLUMNS; own += THREADS)
            if (tile.has(p, own % COLUMNS))
                turns[own] = root(p, own / COLUMNS * LastLevel::APART * (tile.column + own % COLUMNS));
    if constexpr (DOWN)
        for (u32 own = threadIdx.x; own < COLUMNS; own += THREADS) largest[own] = 0;
    if constexpr (LEVELS == 1 && (TURNED || DOWN)) __syncthreads();
    go_on(p, tile, reinterpret_cast<Complex*>(memory), first, turns, largest);
}
