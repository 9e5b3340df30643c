// D = A·B + D of binary64 for a warp: 16 × K times K × 8, each number of D one fused multiply-add after another, k ascending.
//
// GPUs before sm_80 have no such instruction, and those before sm_90 one of 8 × 8 × 4.  All give the same bits.

#pragma once

#include "device/types/ieee.cuh"
#include "device/types/types.cuh"

namespace tcu::mma {

// Lane l has A[l / 4 + 8·(w % 2)][4·(w / 2) + l % 4], B[4·w + l % 4][l / 4] and D[l / 4 + 8·(w / 2)][2·(l % 4) + w % 2]
// (PTX ISA, "Matrix fragments for mma.m16n8k4 with .f64", "... mma.m16n8k16 with .f64").
__device__ inline void multiply(double (&d)[4], const double (&a)[2], const double (&b)[1]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(b[0]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
                     : "d"(a[half]), "d"(b[0]));
#else
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const double of_a = __shfl_sync(ALL, a[w / 2], lane / 4 * 4 + k);
            d[w] = fused(of_a, __shfl_sync(ALL, b[0], (lane % 4 * 2 + w % 2) * 4 + k), d[w]);
        }
    }
#endif
}

__device__ inline void multiply(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
                 "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
                   "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const double of_a[] = {a[2 * w], a[2 * w + 1]}, of_b[] = {b[w]};
        multiply(d, of_a, of_b);
    }
#endif
}

}  // namespace tcu::mma
