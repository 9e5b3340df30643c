// What a pass in binary32 or binary64 reads and writes.
//
// Part of pass.cuh, which says with what it is compiled.

#include "device/fourier/passes.cuh"

namespace tcu::fourier::PASS {

// Times a table's, of so many; further numbers stay.  Without a branch, behind which the next number's loads would wait.
__device__ inline Complex times_of(Complex x, const void* table, u32 at, u32 count) {
    const Complex product = times(x, static_cast<const Complex*>(table)[min(at, count - 1)]);
    return at < count ? product : x;
}

// Number `own` of a whole transform, which is `at` in memory.
__device__ inline Complex number_of(const FftPass& p, i64 at, u32 own) {
    const u32 taken = static_cast<u32>(p.taken), whole = static_cast<u32>(p.whole);
    const auto pair = [&](i64 beyond) { return read_pair<SOURCE, !ROWS_IN, READ_ONCE>(p.source, at + beyond); };
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
                write_pair<TARGET, WRITTEN_ONCE>(p.target, at, x);
        }
    }
}

}  // namespace tcu::fourier::PASS
