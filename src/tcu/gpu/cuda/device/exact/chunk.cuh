// What exact sums of numbers (exact/values.cuh) and of products (exact/products.cuh) share: their arguments, the
// formats, and the slow way, number by number.

#pragma once

#include "device/exact/limbs.cuh"
#include "device/exact/range.cuh"
#include "device/load/array.cuh"
#include "device/warp/warp_reduce.cuh"

namespace tcu::exact {

constexpr int WARPS = THREADS / WARP;
#include "generated/configs/LIMITS.inc"

#include "generated/sums/ExactSum.inc"

// ROOM: bits that a sum may grow above the accumulator's last place.  At most PRECISION - 2 are possible (within the
// anchor's binade). In binary64 it is less, so that the sums of all emptied accumulators and of all lanes fit 64
// bits.
template <typename Real>
struct Arithmetic;

template <>
struct Arithmetic<float> {
    typedef int Bits;
    static constexpr int PRECISION = 24, ROOM = 22, LOWEST_WINDOW = -108, HIGHEST_WINDOW = 124;
    static __device__ int bits(float x) { return __float_as_int(x); }
    static __device__ float power_and_half(int e) { return __int_as_float((e + 127) << 23 | 0x400000); }
    static __device__ float of(Code code) { return to_binary32(code); }
};

template <>
struct Arithmetic<double> {
    typedef i64 Bits;
    static constexpr int PRECISION = 53, ROOM = 47, LOWEST_WINDOW = -970, HIGHEST_WINDOW = 1015;
    static __device__ i64 bits(double x) { return __double_as_longlong(x); }
    static __device__ double power_and_half(int e) {
        return __hiloint2double((e + 1023) << 20 | 0x80000, 0);
    }
    static __device__ double of(Code code) { return to_binary64(code); }
};

__device__ inline i64 vector_of(const ExactSum& p, i64 chunk, int step) {
    return (chunk * p.loads + step) * THREADS + threadIdx.x;
}

__device__ constexpr int logarithm(int power) { return power < 2 ? 0 : 1 + logarithm(power / 2); }

// With a `window` all numbers must be below 2^window.  With UNKNOWN the first numbers place the window.
constexpr int UNKNOWN = 1 << 20;

// Loads in flight.  Shifted loads take twice the registers.
constexpr int TOGETHER = LAYOUT == STRIDED ? 1 : LAYOUT == SHIFTED && UNROLL > 1 ? UNROLL / 2 : UNROLL;

__device__ void add_number(const ExactSum& p, i64 at, int* own);

// The slow way: number by number, for any numbers.  Inf and NaN are counted.
__device__ __noinline__ void add_numbers(const ExactSum& p, i64 chunk, i64* limbs) {
    __shared__ int shared_limbs[WARPS][WORDS];
    int* own = shared_limbs[threadIdx.x / WARP];
    const int lane = threadIdx.x % WARP;
    constexpr int BETWEEN = 64;  // loads after which no limb of 32 bits can have overflowed
    for (int i = lane; i < WORDS; i += WARP) own[i] = 0;
    __syncwarp();
#pragma unroll 1
    for (int step = 0; step < p.loads; ++step) {
        const i64 first = vector_of(p, chunk, step) * PER_LOAD;
#pragma unroll 1
        for (int i = 0; i < PER_LOAD && first + i < p.x.n; ++i) add_number(p, first + i, own);
        if (step % BETWEEN < BETWEEN - 1 && step < p.loads - 1) continue;
        __syncwarp();
        for (int i = lane; i < WORDS; i += WARP) {
            if (own[i]) atomicAdd(reinterpret_cast<u64*>(limbs + i), static_cast<u64>(static_cast<i64>(own[i])));
            own[i] = 0;
        }
        __syncwarp();
    }
}

}  // namespace tcu::exact
