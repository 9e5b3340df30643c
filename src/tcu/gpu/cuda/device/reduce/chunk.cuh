// A chunk of a sum or of a dot product: what one block reduces to a number in binary64.

#pragma once

#include "device/finish/store.cuh"
#include "device/grid/slots.cuh"
#include "device/load/array.cuh"
#include "device/mma/ones.cuh"
#include "device/reduce/lane_sums.cuh"

namespace tcu::reduce {

constexpr int WARPS = THREADS / WARP;

#include "generated/sums/Sum.inc"

#if MMAS

struct Accumulator {
    float d[4];
    double low = 0, high = 0;  // rows g and g + 8 of a warp's fragments

    __device__ void add(const Vector& x, int link) {
        if (link == 0) d[0] = d[1] = d[2] = d[3] = 0;
        mma::multiply_by_ones(d, x);
        if (link < CHAIN - 1) return;
        low += d[0];
        high += d[2];
    }

    // The tree over the 16 rows; the four lanes of a row have the same numbers.
    __device__ double of_warp() const {
        double v = low + high;
#pragma unroll
        for (int half = 16; half >= 4; half /= 2) v += __shfl_down_sync(ALL, v, half);
        return v;
    }
};

#else

#if TERM == VALUE

struct Accumulator {
    LaneSums sums;
    __device__ void add(const Vector& x, int) { sums.add(x); }
    __device__ double of_warp() { return of_lanes(sums.sum()); }
};

#else

// One accumulator for each number of a load.
struct Accumulator {
    double sums[PER_LOAD] = {};

    __device__ void add_product(const Vector& x, const Vector& y) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i)
            sums[i] = __fma_rn(to_binary64(x.codes[i]), to_binary64(y.codes[i]), sums[i]);
    }

    // A multiprocessor converts 16 numbers a clock, and reads 10 of 16 bits: the squares of 2^30 of them took 571 us
    // where each was converted twice, and take 465 (binary16, H200).
    __device__ void add_squares(const Vector& x) {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const double number = to_binary64(x.codes[i]);
            sums[i] = __fma_rn(number, number, sums[i]);
        }
    }

    __device__ double of_warp() {
#pragma unroll
        for (int half = PER_LOAD / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
        return warp::tree<WARP>(sums[0]);
    }
};
#endif

#endif

// Vector number `step` of this thread in the chunk.  The links of a chain are a warp's vectors apart.
__device__ inline i64 vector_of(const Sum& p, i64 chunk, int step) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const i64 chain = (chunk * p.loads + step / CHAIN) * WARPS + warp;
    return (chain * CHAIN + step % CHAIN) * WARP + lane;
}

// Loads in flight.  Shifted loads take twice the registers.
constexpr int TOGETHER = LAYOUT == STRIDED ? 1 : LAYOUT == SHIFTED && UNROLL > 1 ? UNROLL / 2 : UNROLL;

template <typename Read>
__device__ inline void add_chunk(const Sum& p, const load::Array& a, i64 chunk, int steps, Accumulator& total,
                                 const Read& read) {
#pragma unroll 1
    for (int step = 0; step < steps; step += TOGETHER) {
        Vector x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) x[i] = read(a, vector_of(p, chunk, step + i));
#if TERM == PRODUCT
        Vector y[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) y[i] = read(p.y, vector_of(p, chunk, step + i));
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) total.add_product(x[i], y[i]);
#elif TERM == SQUARE
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) total.add_squares(x[i]);
#else
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) total.add(x[i], (step + i) % CHAIN);
#endif
    }
}

// How many steps of the chunk have elements, rounded up to whole chains and batches of loads.
__device__ inline int steps_in(const Sum& p, i64 chunk) {
    const i64 all = p.loads * CHAIN, vectors = (p.x.n + PER_LOAD - 1) / PER_LOAD - chunk * all * THREADS;
    const i64 batch = TOGETHER * CHAIN;
    const i64 needed = (vectors + THREADS - 1) / THREADS;
    return static_cast<int>(min(all, (needed + batch - 1) / batch * batch));
}

// The chunk's sum, in thread 0. Every thread of the block must call this.
__device__ inline double chunk_sum(const Sum& p, const load::Array& a, i64 chunk) {
    const i64 vectors = p.loads * CHAIN * THREADS;
    Accumulator total;
    if ((chunk + 1) * vectors <= load::whole_vectors(a)) {
        add_chunk(p, a, chunk, static_cast<int>(p.loads) * CHAIN, total,
                  [](const load::Array& a, i64 v) { return load::whole_vector(a, v); });
    } else {
        const load::End x(a), y(TERM == PRODUCT ? p.y : a);
        add_chunk(p, a, chunk, steps_in(p, chunk), total, [&](const load::Array& b, i64 v) {
            return load::vector_or_padding(b, &b == &a ? x : y, v);
        });
    }
    return warp::across_warps<WARPS>(total.of_warp());
}

}  // namespace tcu::reduce
