// The product of 16 × 32 bytes and 32 × 8 bytes, added to sums of 32 bits, exactly while these do not overflow.

#pragma once

#include "device/types/types.cuh"

namespace tcu::mma {

// Lane l has words k = 4·(l % 4) ... + 3 of row l / 4 (a[0]) and of row l / 4 + 8 (a[1]), and the same of k + 16 (a[2],
// a[3]); of column l / 4 words k and k + 16 (b[0], b[1]); sums of columns 2·(l % 4) and the next, of row l / 4 and then
// of row l / 4 + 8.
__device__ inline void multiply_bytes(u32 (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    const u32 a[4] = {a0, a1, a2, a3}, b[4] = {b0, b0, b1, b1};  // Turing's instruction takes a quarter of it
#pragma unroll
    for (int i = 0; i < 4; ++i)
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d[2 * (i % 2)]), "+r"(d[2 * (i % 2) + 1])
                     : "r"(a[i]), "r"(b[i]));
#endif
}

}  // namespace tcu::mma
