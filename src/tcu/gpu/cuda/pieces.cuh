// Sums of pieces of memory that a warp takes side by side, each by some of its lanes.

#pragma once

#include "anywhere.cuh"
#include "mma_ones.cuh"

// LANES pieces for each LANES lanes, of LANES · 16 bytes: each lane gives one (bytes from the base, and numbers from
// there on), and has 16 bytes of each in turn.  Loads of all are under way before the first is used.
//
// Without care, all bytes of a piece are read, and 16 behind it, whatever is left.
template <int LANES, bool CAREFUL, typename Use>
__device__ inline void for_each_piece(const char* base, u32 at, int left, const Use& use) {
    const int number = threadIdx.x % LANES;
    const char* const own = base + number * 16;
    const int bits = left * 8 * static_cast<int>(sizeof(Code));
    Raw loaded[LANES];
    Vector vectors[LANES];
    const auto left_of = [&](int j) {
        return LANES > 1 ? __shfl_sync(ALL, bits, j, LANES) - number * 128 : bits;
    };
#pragma unroll
    for (int j = 0; j < LANES; ++j) {
        const u32 from = LANES > 1 ? __shfl_sync(ALL, at, j, LANES) : at;
        if (CAREFUL)
            vectors[j] = one_by_one(own, from, left_of(j) / 8 / static_cast<int>(sizeof(Code)));
        else
            loaded[j] = fetch(own, from, 0);
    }
#pragma unroll
    for (int j = 0; j < LANES; ++j) {
        if (!CAREFUL) {
            const int some = left_of(j);
            vectors[j] = shifted(loaded[j]);
#pragma unroll
            for (int i = 0; i < 4; ++i) vectors[j].word[i] = lowest(vectors[j].word[i], some - 32 * i);
        }
        use(j, vectors[j]);
    }
}

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

constexpr int PARTS = 1;  // of a quad that the plan does not add up at once

// Of rows g and g + 8 of the fragment: each lane has those of its own piece.
template <int LANES, bool CAREFUL>
__device__ inline float2 rows_of(const char* base, u32 at, int left) {
    const int lane = threadIdx.x % WARP;
    const u32 b = LANES == 4 || lane / 4 * (4 / LANES) / 8 == lane % 4 / LANES ? ONES : 0;
    float2 rows;
    for_each_piece<LANES, CAREFUL>(base, at, left, [&](int j, const Vector& x) {
        float d[4] = {0, 0, 0, 0};
        multiply(d, x, b);
        if (j == 0 || lane % LANES == j) rows = make_float2(d[0], d[2]);
    });
    return rows;
}

__device__ inline double number_of(const float2& rows) {
    return static_cast<double>(rows.x) + static_cast<double>(rows.y);
}

// The sums of the lanes' quads to their places.
template <bool CAREFUL>
__device__ inline void put_quads(const char* base, u32 at, int left, double* numbers) {
    numbers[threadIdx.x % WARP] = number_of(rows_of<4, CAREFUL>(base, at, left));
}

#else

constexpr int PARTS = 4;

__device__ inline double sum_of(const Vector& x) {
    double v[PER_LOAD];
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) v[i] = to_binary64(x.codes[i]);
#pragma unroll
    for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) v[i] += v[i + half];
    return v[0];
}

template <bool CAREFUL>
__device__ inline void put_quads(const char* base, u32 at, int left, double* numbers) {
    const int lane = threadIdx.x % WARP;
    for_each_piece<4, CAREFUL>(base, at, left, [&](int j, const Vector& x) {
        numbers[(lane / 4 * 4 + j) * PARTS + lane % 4] = sum_of(x);
    });
}

#endif
