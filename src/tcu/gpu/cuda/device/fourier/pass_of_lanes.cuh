// What a pass in binary16 reads and writes: its lanes are neighbouring columns, or the numbers of even and of odd place of a column
// (HALVED).  A transform is divided by a power of two before its first level, so that no step overflows.
//
// Instructions, for each number of 2^14 = 2·16·16·32: 36, of which 15 are butterflies, 6 twiddle factors, 3 moves of halves and 3 scales;
// of a first pass along 1,024 = 32·32 31, of a last one 28.  Half as much shared memory and half as many registers as of binary32
// let a multiprocessor have two blocks and more, one of which reads while another computes: 2^14 took 153 us in place of 260, 2^20 322
// in place of 470 (H200, 2^26 numbers; a copy takes 128).
//
// Passes of eight columns, 32 bytes, took 190 us where those of sixteen took 165 (2^20 numbers each): so 2^22, of which a multiprocessor
// holds eight columns of 4,096 in the last pass, gains least: 174 and 221 us.  Three passes of it took 438 us in place of 390.
//
// Part of pass.cuh, which says with what it is compiled.

#include "device/fourier/passes.cuh"

namespace tcu::fourier::PASS {

static_assert(SOURCE == BINARY16 && TARGET == BINARY16 && TARGET_KIND == PAIRS && (SOURCE_KIND == PAIRS || SOURCE_KIND == REALS));
static_assert(!TABLE_IN && !TABLE_OUT && !SWAP_LAST && CLUSTER == 1 && TURNED != BY_TABLE && !(HALVED && (UP || DOWN)));

// Two numbers beside each other; LINES: as read_pair of numbers.cuh.
template <bool LINES>
__device__ inline void read_two(const u32* from, u32 (&codes)[2]) {
    if constexpr (READ_ONCE) {
        const uint2 both = load::read_first_out(reinterpret_cast<const uint2*>(from));
        codes[0] = both.x, codes[1] = both.y;
    } else if constexpr (LINES) {
        asm volatile("ld.global.L2::128B.v2.b32 {%0, %1}, [%2];" : "=r"(codes[0]), "=r"(codes[1]) : "l"(from));
    } else {
        const uint2 both = *reinterpret_cast<const uint2*>(from);
        codes[0] = both.x, codes[1] = both.y;
    }
}

// Of a column: its largest part's code, or the largest of what its numbers are multiplied by (UP), as bits of binary32.  A warp's
// threads of one column first: all of them, or those so many columns apart.
template <typename Level>
__device__ inline void keep_largest(u32* largest, u32 column, u32 value, bool inside) {
    constexpr bool ALIKE = THREADS % WARP == 0 && (COLUMNS == 1 || (Level::IN_ROWS && Level::APART % WARP == 0));
    constexpr bool IN_TURNS = THREADS % WARP == 0 && !Level::IN_ROWS && COLUMNS < WARP && WARP % COLUMNS == 0;
    constexpr u32 STEP = ALIKE ? 1 : IN_TURNS ? COLUMNS : WARP;
    if (!inside) value = 0;
#pragma unroll
    for (u32 apart = STEP; apart < WARP; apart *= 2) value = max(value, __shfl_xor_sync(ALL, value, apart));
    if (inside && threadIdx.x % WARP < STEP) atomicMax(largest + column, value);
}

constexpr float MOST = 32768;  // the largest power of two of binary16

// What a column's results are multiplied by, a power of two.
__device__ inline float power_of(u32 largest) {
    if constexpr (UP) return __uint_as_float(largest);
    const u32 field = max(__float_as_uint(low_value({largest})) >> 23, 127u - 24);
    return __uint_as_float(((field == 255 ? 127 : field) + FALL) << 23);
}

__device__ inline float inverse_of(float power) { return __uint_as_float((254u << 23) - __float_as_uint(power)); }

template <typename Level>
__device__ inline bool has_second(const FftPass& p, const FftTile& tile, const Level& level, u32 j) {
    return HALVED || WHOLE || tile.column + 2 * level.column[j] + 1 < p.columns;
}

// What numbers of both lanes are multiplied by; of a lane that is not there, 0.  Powers of two, of which memory holds the upper half of
// binary32's codes: with all of them, the middle one of three passes read as many bytes of powers as of numbers.
__device__ inline u32 ups_of(const u16* up, bool inside, bool second) {
    if constexpr (UP_BESIDE == 1 && WHOLE && UP_STEP % 2 == 0) return inside ? *reinterpret_cast<const u32*>(up) : 0;
    const u32 near = inside ? *up : 0;
    return near | (!UP_BESIDE ? near : second ? up[UP_BESIDE] : 0) << 16;
}

__device__ inline u32 low_power(u32 ups) { return ups << 16; }
__device__ inline u32 high_power(u32 ups) { return ups & 0xffff0000; }

__device__ inline void fetch(const FftPass& p, const FftTile& tile, Butterflies<0>& level, u32* largest) {
    typedef Butterflies<0> L;
    constexpr u32 EACH = HALVED ? 2 : 1;  // numbers of a column beside each other
    u32 ups[L::OWN][L::RADIX];
    for (u32 own = threadIdx.x; own < WIDTH; own += THREADS) largest[own] = 0;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const bool inside = level.has(p, tile, j), second = inside && has_second(p, tile, level, j);
        const u32 column = SIDE * level.column[j], step = static_cast<u32>(p.numbers.number), taken = static_cast<u32>(p.taken);
        const i64 apart = READ_STEP ? READ_STEP : p.reads.number;
        const i64 first = tile.at(p.reads, column) + EACH * level.at[j] * apart, beside = HALVED ? apart : p.reads.column;
        const u32 number = static_cast<u32>(tile.at(p.numbers, column)) + EACH * level.at[j] * step;
        const u32 number_beside = HALVED ? step : static_cast<u32>(p.numbers.column);
        const u16* const up = reinterpret_cast<const u16*>(p.up) + (UP ? tile.at(p.ups, column) + level.at[j] * UP_STEP : 0);
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            const i64 at = first + i * EACH * L::APART * apart;
            const u32 own = number + i * EACH * L::APART * step;
            u32 codes[2] = {0, 0};
            if constexpr (TWO_IN) {
                if (inside) read_two<!ROWS_IN>(static_cast<const u32*>(p.source) + at, codes);
            } else {
#pragma unroll
                for (u32 lane = 0; lane < 2; ++lane)
                    if ((lane ? second : inside) && !(SHORT && own + lane * number_beside >= taken))
                        codes[lane] = SOURCE_KIND == REALS ? static_cast<const u16*>(p.source)[at + lane * beside]
                                                           : static_cast<const u32*>(p.source)[at + lane * beside];
            }
            level.x[j][i] = {lows(codes[0], codes[1]), highs(codes[0], codes[1])};
            if constexpr (SWAP_IN) level.x[j][i] = swapped(level.x[j][i]);
            if constexpr (UP) ups[j][i] = ups_of(up + i * L::APART * UP_STEP, inside, second);
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        const bool inside = level.has(p, tile, j), second = inside && has_second(p, tile, level, j);
        const u32 column = SIDE * level.column[j];
        u32 most[2] = {0, 0};
        if constexpr (UP) {
#pragma unroll
            for (u32 i = 0; i < L::RADIX; ++i) {
                most[0] = max(most[0], low_power(ups[j][i]));
                if constexpr (UP_BESIDE) most[1] = max(most[1], high_power(ups[j][i]));
            }
            if constexpr (!UP_BESIDE) most[1] = most[0];
        } else {
            Lanes both = {0};
#pragma unroll
            for (u32 i = 0; i < L::RADIX; ++i) both = larger(larger(both, level.x[j][i].re), level.x[j][i].im);
            most[0] = both.codes & 0xffff, most[1] = both.codes >> 16;
        }
        if constexpr (HALVED) {
            keep_largest<L>(largest, column, max(most[0], most[1]), inside);
        } else {
            keep_largest<L>(largest, column, most[0], inside);
            keep_largest<L>(largest, column + 1, most[1], second);
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(j)) continue;
        const u32 column = SIDE * level.column[j];
        const float down = inverse_of(power_of(largest[column])), too = HALVED ? down : inverse_of(power_of(largest[column + 1]));
        Lanes factor = lanes_of(fminf(down, MOST), fminf(too, MOST));
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            if constexpr (UP) {
                const float near = times(__uint_as_float(low_power(ups[j][i])), down);
                factor = lanes_of(near, UP_BESIDE ? times(__uint_as_float(high_power(ups[j][i])), too) : near);
            }
            level.x[j][i] = times(level.x[j][i], factor);
        }
        if constexpr (!UP)
            if (fmaxf(down, too) > MOST) {  // all are small, which is rare
                factor = lanes_of(fmaxf(times(down, 1 / MOST), 1), fmaxf(times(too, 1 / MOST), 1));
#pragma unroll
                for (u32 i = 0; i < L::RADIX; ++i) level.x[j][i] = times(level.x[j][i], factor);
            }
    }
}

// Results times a power of two of each lane, as binary32 holds the product, times p.factor.
__device__ inline Lanes unscaled(Lanes x, float first, float second, float factor) {
    if constexpr (SCALED)
        return lanes_of(times(times(low_value(x), first), factor), times(times(high_value(x), second), factor));
    // The same by products of binary16, of which only the last one rounds.
    if constexpr (!UP && FALL == 0) return times(x, lanes_of(first, second));
    const Lanes once = lanes_of(fminf(first, MOST), fminf(second, MOST));
    const Lanes again = lanes_of(fmaxf(times(first, 1 / MOST), 1), fmaxf(times(second, 1 / MOST), 1));
    return times(times(x, once), again);
}

__device__ inline void write_lanes(const FftPass& p, i64 at, i64 beside, Complex x, bool first, bool second) {
    u32* const to = static_cast<u32*>(p.target) + at;
    const u32 low = lows(x.re.codes, x.im.codes).codes, high = highs(x.re.codes, x.im.codes).codes;
    if constexpr (TWO_OUT && WRITTEN_ONCE) {
        load::write_first_out(reinterpret_cast<uint2*>(to), {low, high});
    } else if constexpr (TWO_OUT) {
        *reinterpret_cast<uint2*>(to) = {low, high};
    } else {
        if (first) *to = low;
        if (second) to[beside] = high;
    }
}

__device__ inline void store(
    const FftPass& p, const FftTile& tile, Butterflies<LEVELS - 1>& level, const Complex* turns, const u32* largest) {
    typedef Butterflies<LEVELS - 1> L;
    constexpr u32 NEXT = LENGTH / L::RADIX;
#pragma unroll
    for (u32 j = 0; j < L::OWN; ++j) {
        if (!level.has(p, tile, j)) continue;
        const bool second = has_second(p, tile, level, j);
        const u32 column = SIDE * level.column[j], step = static_cast<u32>(p.results.number), made = static_cast<u32>(p.made);
        const float drop = static_cast<float>(1u << DROP), power = times(power_of(largest[column]), drop);
        const float power_beside = HALVED ? power : times(power_of(largest[column + 1]), drop);
        Complex turn;
        if constexpr (TURNED == BY_PRODUCTS) turn = roots(p, level.at[j], tile.column + column, second, DROP);
        if constexpr (DOWN)
            if (level.at[j] == 0) {
                u16* const down = reinterpret_cast<u16*>(p.down);
                down[tile.at(p.downs, column)] = __float_as_uint(power) >> 16;
                if (second) down[tile.at(p.downs, column + 1)] = __float_as_uint(power_beside) >> 16;
            }
        const i64 apart = WRITE_STEP ? WRITE_STEP : p.writes.number, beside = HALVED ? LENGTH * apart : p.writes.column;
        const i64 to = tile.at(p.writes, column) + level.at[j] * apart;
        const u32 number = static_cast<u32>(tile.at(p.results, column)) + level.at[j] * step;
        const u32 number_beside = HALVED ? LENGTH * step : static_cast<u32>(p.results.column);
        const u32* const halves = static_cast<const u32*>(p.halves) + level.at[j];
#pragma unroll
        for (u32 i = 0; i < L::RADIX; ++i) {
            Complex x = level.x[j][i];
            if constexpr (TURNED == BY_PRODUCTS) x = times(x, times(turn, turns[i * COLUMNS + level.column[j]]));
            if constexpr (HALVED) {
                // The odd numbers' transform is turned; then a butterfly of both.
                const u32 w = __ldg(halves + i * NEXT);
                x = times(x, Complex{lows(0x3c00, w), highs(0, w)});
                x.re = fused(high_of(x.re.codes), {0xbc003c00}, low_of(x.re.codes));
                x.im = fused(high_of(x.im.codes), {0xbc003c00}, low_of(x.im.codes));
            }
            if constexpr (!DOWN) {
                const float factor = static_cast<float>(p.factor);
                x = {unscaled(x.re, power, power_beside, factor), unscaled(x.im, power, power_beside, factor)};
            }
            if constexpr (SWAP_OUT) x = swapped(x);
            const u32 own = number + i * NEXT * step;
            write_lanes(p, to + i * NEXT * apart, beside, x, !SHORT || own < made, second && (!SHORT || own + number_beside < made));
        }
    }
}

}  // namespace tcu::fourier::PASS
