// A pass of fast Fourier transforms: transforms of a part of the length, all of whose numbers a block has in hand.
//
// A block takes neighbouring columns, a transform each.  Its threads have butterflies of a level in registers and exchange
// results through shared memory: what the levels do, and in which order, is the program of tcu/plan/butterflies.py and the
// plan of tcu/plan/fft.py, which the CPU executes, too.  All is IEEE arithmetic, rounded step by step.
//
// Instructions, for each number of 4096 = 16·16·16: 27 of butterflies, 7.5 of twiddle factors and 2 for their loads, 4 of shared
// memory, 2 of memory, 3 of conversions from and to binary16, 2 of indices: 50, where steps in memory are known beforehand.  A
// multiprocessor of an H100 has time for 75 while 8 bytes are read and written.
//
// FFT_PASS(NAME) makes a structure of what a pass is compiled with, macros that begin with NAME:
//   _LENGTH, _RADICES  of the pass's transforms, and of its levels
//   _COLUMNS        that a block takes
//   _THREADS        of a block
//   _WHOLE          1: blocks have all their columns
//   _READ_STEP, _WRITE_STEP, _UP_STEP  from a number of a column to the next, where that is known beforehand, else 0
//   _ROWS_IN, _ROWS_OUT  1: neighbouring threads take neighbouring numbers of one column; 0: neighbouring columns
//   _BY_COLUMN, _PITCH  1: shared memory holds a column after the other, so many places apart; 0: the columns of a number beside each other
//   _SOURCE, _TARGET  formats of real numbers in memory
//   _SOURCE_KIND, _TARGET_KIND  of SourceKind
//   _READING        of Reading
//   _SWAP_IN, _SWAP_OUT, _SWAP_LAST
//                   1: real and imaginary parts are exchanged when read, behind the last level, behind the table
//   _SHORT          1: numbers from p.taken on are zero, results from p.made on are not wanted
//   _TABLE_IN, _TABLE_OUT  1: numbers, results are multiplied by a table's
//   _SCALED         1: results are multiplied by p.factor
//   _TURNED         1: results are multiplied by roots of unity, behind them transforms are left
//   _UP, _DOWN      1: numbers are multiplied by what their column was divided by; columns are divided by powers of two

#pragma once

#include "device/fourier/numbers.cuh"

namespace tcu::fourier {

template <int COUNT>
struct Butterfly;

#include "generated/fft/BUTTERFLIES.inc"

#include "generated/fft/SCALES.inc"

#include "generated/fft/FftPlaces.inc"

#include "generated/fft/FftPass.inc"

// PAIRS: complex numbers; REALS: their real parts, the others are zero or not wanted; NEIGHBOURS: real numbers, two of which make
// a complex one; HERMITIAN: the first half of complex numbers, of whose conjugates the second half consists; HALVES: the first
// half and one more of the transform of real numbers, of which half as many complex ones are made, or which are made of them.
enum SourceKind { PAIRS, REALS, NEIGHBOURS, HERMITIAN, HALVES };

#define FFT_PASS(NAME)                                                                                                        \
    struct NAME {                                                                                                             \
        static constexpr int RADICES[] = {NAME##_RADICES};                                                                    \
        static constexpr int LEVELS = sizeof(RADICES) / sizeof(int);                                                          \
        static constexpr u32 LENGTH = NAME##_LENGTH, COLUMNS = NAME##_COLUMNS, THREADS = NAME##_THREADS, PITCH = NAME##_PITCH; \
        static constexpr i64 READ_STEP = NAME##_READ_STEP, WRITE_STEP = NAME##_WRITE_STEP, UP_STEP = NAME##_UP_STEP;          \
        static constexpr bool WHOLE = NAME##_WHOLE, ROWS_IN = NAME##_ROWS_IN, ROWS_OUT = NAME##_ROWS_OUT,                     \
                              BY_COLUMN = NAME##_BY_COLUMN;                                                                   \
        static constexpr int SOURCE = NAME##_SOURCE, TARGET = NAME##_TARGET;                                                  \
        static constexpr fourier::SourceKind SOURCE_KIND = fourier::NAME##_SOURCE_KIND,                                       \
                                             TARGET_KIND = fourier::NAME##_TARGET_KIND;                                       \
        static constexpr fourier::Reading READING = fourier::NAME##_READING;                                                  \
        static constexpr bool SWAP_IN = NAME##_SWAP_IN, SWAP_OUT = NAME##_SWAP_OUT, SWAP_LAST = NAME##_SWAP_LAST,             \
                              SHORT = NAME##_SHORT, TABLE_IN = NAME##_TABLE_IN, TABLE_OUT = NAME##_TABLE_OUT,                 \
                              SCALED = NAME##_SCALED, TURNED = NAME##_TURNED, UP = NAME##_UP, DOWN = NAME##_DOWN;             \
    };

// Which columns a block takes, of which transforms: a batch of groups of blocks of columns; what lies between passes has slots.
struct Tile {
    u32 batch = 0, group = 0, slot = 0, block = 0, column = 0;

    __device__ i64 at(const FftPlaces& places, u32 own) const {
        return batch * places.batch + group * places.group + slot * places.slot + block * places.block +
               static_cast<i64>(column + own) * places.column;
    }
};

template <typename P>
__device__ constexpr u32 before(int level) {
    return level == 0 ? 1 : P::RADICES[level - 1] * before<P>(level - 1);
}

// Where a level's twiddle factors begin.
template <typename P>
__device__ constexpr u32 table_of(int level) {
    return level == 0 ? 0 : table_of<P>(level - 1) + (P::RADICES[level - 1] - 1) * (P::LENGTH / before<P>(level));
}

// What a thread has of a level.  Indices of a block are unsigned: a division of a number with a sign takes four instructions more.
template <typename P, int AT>
struct Level {
    static constexpr u32 RADIX = P::RADICES[AT], STRIDE = before<P>(AT), APART = P::LENGTH / RADIX, LEFT = P::LENGTH / STRIDE;
    static constexpr u32 COUNT = APART * P::COLUMNS, OWN = (COUNT + P::THREADS - 1) / P::THREADS;
    static constexpr bool LAST = AT == P::LEVELS - 1;
    static constexpr bool IN_ROWS = LAST ? P::ROWS_OUT : AT == 0 ? P::ROWS_IN : P::BY_COLUMN;

    u32 at[OWN], column[OWN];  // of each butterfly: its first number, which lies below APART
    Complex x[OWN][RADIX];

    __device__ Level() {
#pragma unroll
        for (u32 j = 0; j < OWN; ++j) {
            const u32 own = threadIdx.x + j * P::THREADS;
            at[j] = IN_ROWS ? own % APART : own / P::COLUMNS;
            column[j] = IN_ROWS ? own / APART : own % P::COLUMNS;
        }
    }

    __device__ bool has(u32 j) const { return COUNT % P::THREADS == 0 || threadIdx.x + j * P::THREADS < COUNT; }

    __device__ bool has(const FftPass& p, const Tile& tile, u32 j) const {
        return has(j) && (P::WHOLE || tile.column + column[j] < p.columns);
    }
};

// The place in shared memory of number l + k·STEP.  Behind each row of its banks, one place is left out.
template <typename P, u32 STEP>
__device__ inline u32 place(u32 l, u32 column, u32 k) {
    constexpr u32 PADDING = 128 / sizeof(Complex), UNIT = P::BY_COLUMN ? STEP : STEP * P::COLUMNS;
    const u32 first = P::BY_COLUMN ? l : l * P::COLUMNS + column, more = P::BY_COLUMN ? column * P::PITCH : 0;
    if constexpr (UNIT % PADDING == 0) return first + first / PADDING + more + k * (UNIT + UNIT / PADDING);
    const u32 at = first + k * UNIT;
    return at + at / PADDING + more;
}

__device__ inline Complex root(const FftPass& p, u32 at) {
    const Complex* const high = static_cast<const Complex*>(p.high);
    const Complex* const low = static_cast<const Complex*>(p.low);
    return times(high[at >> p.shift], low[at & ((1u << p.shift) - 1)]);
}

// Number `own` of a whole transform, which is `at` in memory.
template <typename P>
__device__ inline Complex number_of(const FftPass& p, i64 at, i64 own) {
    const auto pair = [&](i64 beyond) { return read_pair<P::SOURCE, P::READING>(p.source, at + beyond); };
    if constexpr (P::SOURCE_KIND == PAIRS) return P::SHORT && own >= p.taken ? Complex{0, 0} : pair(0);
    if constexpr (P::SOURCE_KIND == REALS)
        return {P::SHORT && own >= p.taken ? 0 : read_real<P::SOURCE>(p.source, at), 0};
    if constexpr (P::SOURCE_KIND == NEIGHBOURS)
        return {P::SHORT && 2 * own >= p.taken ? 0 : read_real<P::SOURCE>(p.source, at),
                P::SHORT && 2 * own + 1 >= p.taken ? 0 : read_real<P::SOURCE>(p.source, at + p.stride)};
    if (own >= p.whole) return {0, 0};
    if constexpr (P::SOURCE_KIND == HERMITIAN) {
        const bool mirrored = 2 * own > p.whole;
        const i64 from = mirrored ? p.whole - own : own;
        Complex x = {0, 0};
        if (from < p.taken) x = pair((from - own) * p.stride);
        return {x.re, own == 0 ? 0 : mirrored ? -x.im : x.im};
    } else {
        Complex near = {0, 0}, far = {0, 0};
        if (!P::SHORT || own < p.taken) near = pair(0);
        if (!P::SHORT || p.whole - own < p.taken) far = pair((p.whole - 2 * own) * p.stride);
        if (own == 0) near.im = far.im = 0;
        return folded(near, far, static_cast<const Complex*>(p.halves)[own]);
    }
}

template <typename P>
__device__ inline void fetch(const FftPass& p, const Tile& tile, Level<P, 0>& level) {
    typedef Level<P, 0> L;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const bool inside = level.has(p, tile, j);
        const i64 apart = P::READ_STEP ? P::READ_STEP : p.reads.number;
        const i64 first = tile.at(p.reads, level.column[j]) + level.at[j] * apart;
        const i64 number = tile.at(p.numbers, level.column[j]) + level.at[j] * p.numbers.number;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            Complex x = {0, 0};
            const i64 own = number + i * L::APART * p.numbers.number;
            if (inside) x = number_of<P>(p, first + i * L::APART * apart, own);
            if constexpr (P::SWAP_IN) x = swapped(x);
            if constexpr (P::UP) {
                const float* const up = p.up + tile.at(p.ups, level.column[j]) + level.at[j] * P::UP_STEP + i * L::APART * P::UP_STEP;
                if (inside) x = times(x, static_cast<Real>(fetched<P::READING>(up)));
            }
            if constexpr (P::TABLE_IN)
                if (inside && own < p.whole) x = times(x, static_cast<const Complex*>(p.table_in)[own]);
            level.x[j][i] = x;
        }
    }
}

// Results times their twiddles to shared memory, and what the next level has from there.
template <typename P, int AT>
__device__ inline void exchange(const FftPass& p, Complex* shared, Level<P, AT>& level, Level<P, AT + 1>& next) {
    typedef Level<P, AT> L;
    typedef Level<P, AT + 1> N;
    constexpr u32 ROWS = L::LEFT / L::RADIX;
    const Complex* const twiddles = static_cast<const Complex*>(p.twiddles) + table_of<P>(AT);
    if constexpr (AT > 0) __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
        const u32 q = level.at[j] / L::STRIDE, l = level.at[j] % L::STRIDE + L::STRIDE * L::RADIX * q;
#pragma unroll
        for (u32 k = 0; k < L::RADIX; ++k) {
            Complex x = level.x[j][k];
            if (k > 0) x = times(x, twiddles[(k - 1) * ROWS + q]);
            shared[place<P, L::STRIDE>(l, level.column[j], k)] = x;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < N::OWN; ++j) {
        if (!next.has(j)) continue;
#pragma unroll
        for (u32 i = 0; i < N::RADIX; ++i) next.x[j][i] = shared[place<P, N::APART>(next.at[j], next.column[j], i)];
    }
}

// The power of two by which each column is divided, so that its largest part is below 2^15.
template <typename P, typename L>
__device__ inline void find_largest(const FftPass& p, const Tile& tile, const L& level, u32* largest) {
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
        if constexpr (!P::ROWS_OUT && P::COLUMNS < WARP && WARP % P::COLUMNS == 0 && P::THREADS % WARP == 0) {
#pragma unroll
            for (int apart = P::COLUMNS; apart < WARP; apart *= 2) most = max(most, __shfl_xor_sync(ALL, most, apart));
            if (inside && threadIdx.x % WARP < P::COLUMNS) atomicMax(largest + level.column[j], most);
        } else if (inside) {
            atomicMax(largest + level.column[j], most);
        }
    }
    __syncthreads();
}

// Of transforms of neighbouring real numbers as complex ones: through shared memory, where each finds its counterpart.
template <typename P, typename L>
__device__ inline void store_unfolded(const FftPass& p, const Tile& tile, const L& level, Complex* shared) {
    constexpr u32 PAIRS_OF_COLUMN = P::LENGTH / 2 + 1;
    const Complex* const turns = static_cast<const Complex*>(p.halves);
    const Real factor = static_cast<Real>(p.factor);
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) shared[place<P, L::APART>(level.at[j], level.column[j], i)] = level.x[j][i];
    }
    __syncthreads();
    for (u32 own = threadIdx.x; own < PAIRS_OF_COLUMN * P::COLUMNS; own += P::THREADS) {
        const u32 column = own / PAIRS_OF_COLUMN, k = own % PAIRS_OF_COLUMN, other = P::LENGTH - k;
        if (!P::WHOLE && tile.column + column >= p.columns) continue;
        const Complex near = shared[place<P, 1>(k % P::LENGTH, column, 0)], far = shared[place<P, 1>(other % P::LENGTH, column, 0)];
        const i64 first = tile.at(p.writes, column), apart = P::WRITE_STEP ? P::WRITE_STEP : p.writes.number;
        write_pair<P::TARGET>(p.target, first + k * apart, unfolded(near, far, turns[k], factor));
        if (other != k) write_pair<P::TARGET>(p.target, first + other * apart, unfolded(far, near, turns[other], factor));
    }
}

template <typename P>
__device__ inline void store(
    const FftPass& p, const Tile& tile, Level<P, P::LEVELS - 1>& level, Complex* shared, const Complex* turns, u32* largest) {
    typedef Level<P, P::LEVELS - 1> L;
    if constexpr (P::TARGET_KIND == HALVES) return store_unfolded<P>(p, tile, level, shared);
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(p, tile, j)) continue;
        const i64 number = tile.at(p.results, level.column[j]) + level.at[j] * p.results.number;
        Complex turn;
        if constexpr (P::TURNED) turn = root(p, level.at[j] * (tile.column + level.column[j]));
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            Complex x = level.x[j][i];
            if constexpr (P::TURNED) x = times(x, times(turn, turns[i * P::COLUMNS + level.column[j]]));
            if constexpr (P::SWAP_OUT) x = swapped(x);
            if constexpr (P::TABLE_OUT) {
                const i64 at = number + i * L::APART * p.results.number;
                if (at < p.made) x = times(x, static_cast<const Complex*>(p.table_out)[at]);
            }
            if constexpr (P::SCALED) x = times(x, static_cast<Real>(p.factor));
            if constexpr (P::SWAP_LAST) x = swapped(x);
            level.x[j][i] = x;
        }
    }
    if constexpr (P::DOWN) find_largest<P>(p, tile, level, largest);
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(p, tile, j)) continue;
        float down = 1;
        if constexpr (P::DOWN) {
            const int field = largest[level.column[j]] >> 23;
            const int power = field == 255 ? 0 : min(FIELD - field, MOST_SHIFT);
            down = __uint_as_float(static_cast<u32>(power + 127) << 23);
            if (level.at[j] == 0) p.down[tile.at(p.downs, level.column[j])] = __uint_as_float(static_cast<u32>(127 - power) << 23);
        }
        const i64 apart = P::WRITE_STEP ? P::WRITE_STEP : p.writes.number;
        const i64 first = tile.at(p.writes, level.column[j]) + level.at[j] * apart;
        const i64 number = tile.at(p.results, level.column[j]) + level.at[j] * p.results.number;
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            if constexpr (P::SHORT)
                if (number + i * L::APART * p.results.number >= p.made) continue;
            Complex x = level.x[j][i];
            if constexpr (P::DOWN) x = times(x, static_cast<Real>(down));
            const i64 at = first + i * L::APART * apart;
            if constexpr (P::TARGET_KIND == REALS)
                write_real<P::TARGET>(p.target, at, x.re);
            else
                write_pair<P::TARGET>(p.target, at, x);
        }
    }
}

template <typename P, int AT>
__device__ inline void go_on(
    const FftPass& p, const Tile& tile, Complex* shared, Level<P, AT>& level, const Complex* turns, u32* largest) {
#pragma unroll
    for (u32 j = 0; j < Level<P, AT>::OWN; ++j) Butterfly<Level<P, AT>::RADIX>::run(level.x[j]);
    if constexpr (AT + 1 < P::LEVELS) {
        Level<P, AT + 1> next;
        exchange<P, AT>(p, shared, level, next);
        go_on<P, AT + 1>(p, tile, shared, next, turns, largest);
    } else {
        store<P>(p, tile, level, shared, turns, largest);
    }
}

// Places of `turns`, and of `largest`, that a block needs.
template <typename P>
constexpr u32 TURNS = P::TURNED ? P::RADICES[P::LEVELS - 1] * P::COLUMNS : 1;
template <typename P>
constexpr u32 LARGEST = P::DOWN ? P::COLUMNS : 1;

// A block's tile, from memory to memory.
template <typename P>
__device__ inline void run(const FftPass& p, const Tile& tile, Complex* shared, Complex* turns, u32* largest) {
    typedef Level<P, P::LEVELS - 1> Last;
    Level<P, 0> first;
    fetch<P>(p, tile, first);
    if constexpr (P::TURNED)
        for (u32 own = threadIdx.x; own < TURNS<P>; own += P::THREADS) {
            const u32 column = tile.column + own % P::COLUMNS;
            if (P::WHOLE || column < p.columns) turns[own] = root(p, own / P::COLUMNS * Last::APART * column);
        }
    if constexpr (P::DOWN)
        for (u32 own = threadIdx.x; own < P::COLUMNS; own += P::THREADS) largest[own] = 0;
    if constexpr (P::LEVELS == 1 && (P::TURNED || P::DOWN)) __syncthreads();
    go_on<P, 0>(p, tile, shared, first, turns, largest);
}

}  // namespace tcu::fourier
