// Numbers that blocks hand to each other: a slot in memory for each block, and their sum in a stated order.

#pragma once

#include "device/warp/tree.cuh"

namespace tcu::grid {

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
    return warp::across_warps<BLOCK / WARP>(warp::tree<WARP>(total));
}

}  // namespace tcu::grid
