// Number-theoretic transforms modulo p = 2^64 - 2^32 + 1, in passes through shared memory.
//
// A pass transforms columns: it takes parts of M numbers of a row as R × M/R, makes a transform of length R of each
// column, and multiplies number k of column c by the k·c-th power of an M-th root.  What is left are transforms of rows,
// of length M/R, for the passes behind it.  Within a pass numbers come out with their places' bits reversed, and so the
// whole transform does; the way back takes that order and undoes pass after pass.
//
// Floor: a pass reads and writes each number once, 16 bytes; of 2^24 numbers, whose passes have R = 64, 128 and 2048,
// that is 805 MB for a transform, 0.17 ms at 4.8 TB/s.  A butterfly takes about 25 instructions for two numbers: 24
// levels of 2^23 are 5·10^9, 0.18 ms of an H200's integer units, and as long in shared memory, 32 bytes each.
//
// A product of numbers of 16-bit digits has sums of at most 2^25 · (2^16 - 1)^2 < 2^57 at the longest length that the
// host lets through, 2^26: below p, so that they are exact.

#include "device/modular/prime.cuh"
#include "device/types/types.cuh"

using namespace tcu;
using namespace tcu::modular;

#include "generated/ntt/Ntt.inc"

#include "generated/ntt/LIMITS.inc"

constexpr u32 LOW = (1u << LOW_BITS) - 1;

// Powers of an N-th root: the first 2^LOW_BITS, and from there on every 2^LOW_BITS-th.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_roots(const __grid_constant__ Ntt p) {
    const i64 place = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const i64 low = 1ll << LOW_BITS, all = p.levels > LOW_BITS ? low + (1ll << (p.levels - LOW_BITS)) : low;
    if (place >= all) return;
    u64 exponent = place < low ? place : (place - low) << LOW_BITS;
    u64 power = p.factor, result = 1;  // the factor is the root here
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = times(result, power);
        power = times(power, power);
    }
    p.out[place] = result;
}

__device__ inline u64 root(const Ntt& p, u64 exponent) {
    const u64 e = exponent & ((1ull << p.levels) - 1);
    const u64 low = p.roots[e & LOW];
    return p.levels > LOW_BITS ? times(low, p.roots[LOW + 1 + (e >> LOW_BITS)]) : low;
}

__device__ inline u32 reversed(u32 x, int bits) { return bits ? __brev(x) >> (32 - bits) : 0; }

// A tile of R rows of a few neighbouring columns of one part of one row of numbers.
struct NttTile {
    i64 row, start;  // the row of numbers, and the tile's first number in it
    i64 column;
    int apart;       // the logarithm of the distance of the tile's rows

    __device__ explicit NttTile(const Ntt& p) {
        const int tiles = p.levels - p.radix - p.width;
        apart = p.levels - p.parts - p.radix;
        row = blockIdx.x >> tiles;
        const i64 tile = blockIdx.x & ((1ll << tiles) - 1), groups = apart - p.width;
        column = (tile & ((1ll << groups) - 1)) << p.width;
        start = (tile >> groups << (apart + p.radix)) + column;
    }
    __device__ i64 place(const Ntt& p, int i) const {
        return start + (static_cast<i64>(i >> p.width) << apart) + (i & ((1 << p.width) - 1));
    }
    // The exponent of an N-th root that number i of the tile is multiplied by.
    __device__ u64 twist(const Ntt& p, int i) const {
        const u64 k = reversed(i >> p.width, p.radix);
        return k * (column + (i & ((1 << p.width) - 1))) << p.parts;
    }
};

// The roots of the tile's own transforms behind its numbers: powers of an R-th root, or of its inverse.
__device__ inline void take_roots(const Ntt& p, u64* own, bool back) {
    const int half = 1 << p.radix >> 1;
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        const u64 exponent = static_cast<u64>(i) << (p.levels - p.radix);
        own[i] = root(p, back ? 0 - exponent : exponent);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) ntt_pass(const __grid_constant__ Ntt p) {
    extern __shared__ __align__(16) u64 numbers[];
    const NttTile tile(p);
    const int size = 1 << (p.radix + p.width);
    u64* const own = numbers + size;
    take_roots(p, own, false);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const i64 place = tile.place(p, i);
        if (p.limbs) {
            const u32 limb = place / 2 < p.limb_count ? p.limbs[tile.row * p.stride + place / 2] : 0;
            numbers[i] = place % 2 ? limb >> 16 : limb & 0xffff;
        } else {
            numbers[i] = below(p.x[tile.row * p.stride + place]);
        }
    }
    for (int level = p.radix - 1; level >= 0; --level) {
        const int step = level + p.width, half = 1 << step;
        __syncthreads();
        for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
            const int in = i & (half - 1), place = (i >> step << (step + 1)) + in;
            const u64 a = numbers[place], b = numbers[place + half];
            numbers[place] = plus(a, b);
            numbers[place + half] = times(minus(a, b), own[in >> p.width << (p.radix - 1 - level)]);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const u64 x = tile.apart ? times(numbers[i], root(p, tile.twist(p, i))) : numbers[i];
        p.out[(tile.row << p.levels) + tile.place(p, i)] = x;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) ntt_pass_back(const __grid_constant__ Ntt p) {
    extern __shared__ __align__(16) u64 numbers[];
    const NttTile tile(p);
    const int size = 1 << (p.radix + p.width);
    u64* const own = numbers + size;
    take_roots(p, own, true);
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const i64 place = tile.place(p, i);
        u64 x = p.x[tile.row * p.stride + place];
        if (p.y) x = times(x, p.y[tile.row * p.other_stride + place]);
        if (p.factor != 1) x = times(x, p.factor);
        if (tile.apart) x = times(x, root(p, 0 - tile.twist(p, i)));
        numbers[i] = x;
    }
    for (int level = 0; level < p.radix; ++level) {
        const int step = level + p.width, half = 1 << step;
        __syncthreads();
        for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
            const int in = i & (half - 1), place = (i >> step << (step + 1)) + in;
            const u64 a = numbers[place];
            const u64 b = times(numbers[place + half], own[in >> p.width << (p.radix - 1 - level)]);
            numbers[place] = plus(a, b);
            numbers[place + half] = minus(a, b);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x) p.out[(tile.row << p.levels) + tile.place(p, i)] = numbers[i];
}

// Numbers whose places trade with those of reversed bits.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_reorder(const __grid_constant__ Ntt p) {
    const i64 i = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x, n = 1ll << p.levels;
    if (i >= p.limb_count * n) return;  // rows, here
    const u32 place = reversed(static_cast<u32>(i & (n - 1)), p.levels);
    p.out[i] = below(p.x[(i >> p.levels) * p.stride + place]);
}
