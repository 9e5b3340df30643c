// Slots in memory through which blocks hand each other numbers: one for each block, added up in a stated order.

#pragma once

#include "device/warp/tree.cuh"

namespace tcu::grid {

// What a slot holds until its block has written a number.  No number has these bits: see publish.
constexpr u64 MISSING = 0xffffffffffffffff;

__device__ inline void write(u64* slot, u64 bits) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(bits) : "memory");
}

__device__ inline void publish(u64* slot, double number) {
    if (number != number) number = __longlong_as_double(0x7fffffffffffffff);
    write(slot, __double_as_longlong(number));
}

__device__ inline u64 look(const u64* slot) {
    u64 bits;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(slot) : "memory");
    return bits;
}

// Waits until the slot is written.  Puts MISSING back into it, which the next launch needs.
__device__ inline u64 take_bits(u64* slot, u64 bits) {
    while (bits == MISSING) bits = look(slot);
    *slot = MISSING;
    return bits;
}

__device__ inline double take(u64* slot, u64 bits) { return __longlong_as_double(take_bits(slot, bits)); }

// The sum of all chunks' numbers: each thread adds up every BLOCK-th one in order, then come the trees of warps and
// block.
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
