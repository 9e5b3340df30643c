// Sums of quads, pieces of memory of 64 bytes, that a warp takes side by side wherever they lie, each by four lanes.

#pragma once

#include "anywhere.cuh"
#include "mma_ones.cuh"

constexpr int LANES = 4;  // of a quad, 16 bytes each

// Four quads for each four lanes: each lane gives one (bytes from the base, and numbers from there on), and has 16
// bytes of each in turn.  Loads of all are under way before the first is used.
//
// Without care, all bytes of a quad are read, and 16 behind it, whatever is left.
template <bool CAREFUL, typename Use>
__device__ inline void for_each_quad(const char* base, u32 at, int left, const Use& use) {
    const int number = threadIdx.x % LANES;
    const char* const own = base + number * 16;
    const int bits = left * 8 * static_cast<int>(sizeof(Code));
    Raw loaded[LANES];
    Vector vectors[LANES];
    const auto left_of = [&](int j) { return __shfl_sync(ALL, bits, j, LANES) - number * 128; };
#pragma unroll
    for (int j = 0; j < LANES; ++j) {
        const u32 from = __shfl_sync(ALL, at, j, LANES);
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

// The sums of the lanes' quads to their places.
template <bool CAREFUL>
__device__ inline void put_quads(const char* base, u32 at, int left, double* numbers) {
    float2 rows;  // g and g + 8 of the fragment: each lane keeps those of its own quad
    for_each_quad<CAREFUL>(base, at, left, [&](int j, const Vector& x) {
        float d[4] = {0, 0, 0, 0};
        multiply_by_ones(d, x);
        if (j == 0 || threadIdx.x % LANES == j) rows = make_float2(d[0], d[2]);
    });
    numbers[threadIdx.x % WARP] = static_cast<double>(rows.x) + static_cast<double>(rows.y);
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
    for_each_quad<CAREFUL>(base, at, left, [&](int j, const Vector& x) {
        numbers[(lane / LANES * LANES + j) * PARTS + lane % LANES] = sum_of(x);
    });
}

#endif
