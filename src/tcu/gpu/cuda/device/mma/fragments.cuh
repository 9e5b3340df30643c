// The fragments of one mma.sync, and the instruction itself.
//
// MNEMONIC, TILE_M, TILE_N, TILE_K, INPUT and WORD are as mma.cu says.

#pragma once

#include "device/mma/output_fragment.cuh"

namespace tcu::mma {

constexpr int INPUTS_PER_WORD = sizeof(WORD) / sizeof(INPUT);
constexpr int ROW_GROUPS = TILE_M / 8;
constexpr int K_GROUP = 4 * INPUTS_PER_WORD;  // k that the four threads of a row cover with one word each
constexpr int A_WORDS = ROW_GROUPS * TILE_K / K_GROUP;
constexpr int B_WORDS = TILE_K / K_GROUP;
constexpr int D_WORDS = TILE_M * TILE_N / WARP / OUTPUTS_PER_WORD;

// Fragments of A and B: PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64", "... mma.m8n8k16",
// "... mma.m16n8k4", "... mma.m16n8k8", "... mma.m16n8k16", "... mma.m16n8k32".  All follow one rule:
// lane l holds row (of A) or column (of B) l / 4 of each group of 8, and in each group of k the
// word number l % 4; the words of A go through the groups of rows first, then through the groups of k.
__device__ inline int fragment_row(int word) { return threadIdx.x % WARP / 4 + 8 * (word % ROW_GROUPS); }
__device__ inline int fragment_k(int group) { return group * K_GROUP + threadIdx.x % 4 * INPUTS_PER_WORD; }

// One overload per number of registers; the instruction itself is the same text in each.
__device__ inline void mma(u32 (&d)[2], const u32 (&a)[1], const u32 (&b)[1]) {
    asm volatile(MNEMONIC " {%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(b[0]));
}

__device__ inline void mma(u32 (&d)[2], const u32 (&a)[2], const u32 (&b)[1]) {
    asm volatile(MNEMONIC " {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

__device__ inline void mma(u32 (&d)[2], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile(MNEMONIC " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma(u32 (&d)[4], const u32 (&a)[2], const u32 (&b)[1]) {
    asm volatile(MNEMONIC " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

__device__ inline void mma(u32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile(MNEMONIC " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma(u64 (&d)[2], const u64 (&a)[1], const u64 (&b)[1]) {
    asm volatile(MNEMONIC " {%0, %1}, {%2}, {%3}, {%0, %1};" : "+l"(d[0]), "+l"(d[1]) : "l"(a[0]), "l"(b[0]));
}

__device__ inline void mma(u64 (&d)[4], const u64 (&a)[8], const u64 (&b)[4]) {
    asm volatile(MNEMONIC " {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, "
                          "{%0, %1, %2, %3};"
                 : "+l"(d[0]), "+l"(d[1]), "+l"(d[2]), "+l"(d[3])
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(a[4]), "l"(a[5]), "l"(a[6]), "l"(a[7]),
                   "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]));
}

}  // namespace tcu::mma
