// The last steps of a sum: blocks' numbers together in a stated order, and the rounding to the result.

#pragma once

#include "types.cuh"

enum Target { TO_BINARY16, TO_BFLOAT16, TO_BINARY32, TO_BINARY64 };

// In place of a number that a block has not written yet.  Numbers never have these bits: see publish.
constexpr u64 MISSING = 0xffffffffffffffff;

__device__ inline void publish(u64* slot, double number) {
    if (number != number) number = __longlong_as_double(0x7fffffffffffffff);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(__double_as_longlong(number)) : "memory");
}

__device__ inline u64 look(const u64* slot) {
    u64 bits;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(slot) : "memory");
    return bits;
}

// Waits for the number, and leaves the slot as the next launch needs it.
__device__ inline double take(u64* slot, u64 bits) {
    while (bits == MISSING) bits = look(slot);
    *slot = MISSING;
    return __longlong_as_double(bits);
}

// v[i] += v[i + half], half from width / 2 down to 1; the sum is in lane 0.
template <int WIDTH, typename Number>
__device__ inline Number tree(Number v) {
#pragma unroll
    for (int half = WIDTH / 2; half > 0; half /= 2) v += __shfl_down_sync(ALL, v, half);
    return v;
}

__device__ constexpr int power_of_two(int count) {
    int width = 1;
    while (width < count) width *= 2;
    return width;
}

// The tree over the warps' numbers, each in its lane 0; thread 0 has the sum.  Every thread of the block comes here.
template <int WARPS, typename Number>
__device__ inline Number across_warps(Number v) {
    __shared__ Number warps[WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (WARPS == 1) return v;
    __syncthreads();  // the numbers of an earlier call have been read
    if (lane == 0) warps[warp] = v;
    __syncthreads();
    if (warp == 0) v = tree<power_of_two(WARPS)>(lane < WARPS ? warps[lane] : Number(0));
    return v;
}

// All chunks' numbers: sequentially at a block's stride, then by the trees.
template <int BLOCK>
__device__ inline double sum_of_chunks(u64* slots, i64 chunks) {
    constexpr int EACH = 8;
    double total = 0;
    for (i64 at = threadIdx.x; at < chunks; at += EACH * BLOCK) {
        u64 bits[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) bits[i] = at + i * BLOCK < chunks ? look(slots + at + i * BLOCK) : 0;
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (at + i * BLOCK < chunks) total += take(slots + at + i * BLOCK, bits[i]);
    }
    return across_warps<BLOCK / WARP>(tree<WARP>(total));
}

// Where result number i goes.
__device__ inline void* place(void* out, i64 i, Target target) {
    return static_cast<u8*>(out) + i * (target == TO_BINARY64 ? 8 : target == TO_BINARY32 ? 4 : 2);
}

__device__ inline u32 binary32_of(double value) {
    return value != value ? 0x7fffffff : __float_as_uint(__double2float_rn(value + 0.0));
}

// Rounded once, to nearest; zero is +0, and a NaN has all fraction bits set, as tensor cores return it.
__device__ inline void store_rounded(void* out, double value, Target target) {
    const bool nan = value != value;
    value += 0.0;
    if (target == TO_BINARY64) {
        *static_cast<u64*>(out) = nan ? 0x7fffffffffffffff : __double_as_longlong(value);
    } else if (target == TO_BINARY32) {
        *static_cast<u32*>(out) = binary32_of(value);
    } else if (target == TO_BINARY16) {
        u16 code;
        asm("{ .reg .b16 h; cvt.rn.f16.f64 h, %1; mov.b16 %0, h; }" : "=h"(code) : "d"(value));
        *static_cast<u16*>(out) = nan ? 0x7fff : code;
    } else {
        // There is no conversion from binary64.  Rounded to odd first, so that the second rounding sees
        // whether anything was cut (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008).
        float odd = __double2float_rz(value);
        u32 bits = __float_as_uint(odd);
        if (static_cast<double>(odd) != value) bits |= 1;
        const u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
        const bool infinite = (bits & 0x7fffffff) == 0x7f800000;
        *static_cast<u16*>(out) = nan ? 0x7fff : (infinite ? bits : rounded) >> 16;
    }
}
