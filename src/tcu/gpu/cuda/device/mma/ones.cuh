// MMAs of the 256 numbers that a warp has loaded with a matrix of ones, which gives 16 sums; or with another matrix.

#pragma once

#include "device/types/element.cuh"

namespace tcu::mma {

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

constexpr u32 ONES = ELEMENT == BFLOAT16 ? 0x3f803f80 : 0x3c003c00;

// D = A·B + C with operand A in the order in which 16-byte loads fill its registers (PTX ISA, "Matrix fragments for
// mma.m16n8k16"). Words 0 and 2 of D belong to rows g and g + 8, where g is lane / 4. b: this lane's part of B, the
// same in both its registers.
__device__ inline void multiply(float (&d)[4], const Vector& a, u32 b) {
#if ELEMENT == BFLOAT16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b));
#else
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b));
#else  // Turing's MMA is half as deep: first k from 0 to 7, then from 8 to 15
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a.word[2 * half]), "r"(a.word[2 * half + 1]), "r"(b));
#endif
#endif
}

__device__ inline void multiply_by_ones(float (&d)[4], const Vector& a) { multiply(d, a, ONES); }

// After an MMA by ones the four lanes of a row have the same sums.  So a lane calls add for four MMAs, and keeps the
// sums of the one whose number is the lane's number in its row.
struct OwnRows {
    float low, high;  // rows g and g + 8

    __device__ void add(int number, const Vector& a) {
        float d[4] = {0, 0, 0, 0};
        multiply_by_ones(d, a);
        if (number == 0 || threadIdx.x % 4 == number) low = d[0], high = d[2];
    }
};

// D = A·B + C with another split of the operands: `low` and `high` are this lane's words of B, rows k = 2t and 2t + 1
// and then 2t + 8 and 2t + 9 of column g.  `upper` and `lower` are its words of A, rows g and g + 8, the same in both
// halves of k.
__device__ inline void multiply(float (&d)[4], u32 upper, u32 lower, u32 low, u32 high) {
#if ELEMENT == BFLOAT16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%6, %7}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(upper), "r"(lower), "r"(low), "r"(high));
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%6, %7}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(upper), "r"(lower), "r"(low), "r"(high));
#else
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(upper), "r"(lower), "r"(half ? high : low));
#endif
}

#endif

}  // namespace tcu::mma
