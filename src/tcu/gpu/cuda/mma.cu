// D = A·B + C with one mma.sync per step of K, one tile of D per warp.
//
// Compiled once per instruction with these macros:
//   MNEMONIC            the instruction, such as "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
//   TILE_M TILE_N TILE_K  its shape
//   INPUT OUTPUT        unsigned types as wide as the elements of A and B, and of C and D
//   WORD                the register of a fragment: u64 for binary64, else u32
//   THREADS             threads per block, a multiple of 32

#include "accumulator.cuh"

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
__device__ inline WORD word_of_a(const Problem& p, const Tile& t, i64 k0, int word) {
    const int lane = threadIdx.x % WARP;
    const i64 row = t.row + lane / 4 + 8 * (word % ROW_GROUPS);
    const i64 k = k0 + word / ROW_GROUPS * K_GROUP + lane % 4 * INPUTS_PER_WORD;
    WORD bits = 0;
#pragma unroll
    for (int i = 0; i < INPUTS_PER_WORD; ++i)
        bits |= static_cast<WORD>(load<INPUT>(p.a, t.a, row, k + i, p.m, p.k)) << (8 * sizeof(INPUT) * i);
    return bits;
}

__device__ inline WORD word_of_b(const Problem& p, const Tile& t, i64 k0, int word) {
    const int lane = threadIdx.x % WARP;
    const i64 k = k0 + word * K_GROUP + lane % 4 * INPUTS_PER_WORD;
    WORD bits = 0;
#pragma unroll
    for (int i = 0; i < INPUTS_PER_WORD; ++i)
        bits |= static_cast<WORD>(load<INPUT>(p.b, t.b, k + i, t.column + lane / 4, p.k, p.n))
                << (8 * sizeof(INPUT) * i);
    return bits;
}

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

extern "C" __global__ void __launch_bounds__(THREADS) multiply_accumulate(const __grid_constant__ Problem p) {
    const i64 warps = static_cast<i64>(gridDim.x) * (THREADS / WARP);
    i64 tile = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    for (; tile < p.tiles; tile += warps) {  // the same for all lanes of a warp, as mma.sync needs
        const Tile t = locate(p, tile, TILE_M, TILE_N);
        Accumulator<D_WORDS> d;
        d.load_c(p, t, 0);
        for (i64 k0 = 0; k0 < p.k; k0 += TILE_K) {
            WORD a[A_WORDS], b[B_WORDS];
#pragma unroll
            for (int w = 0; w < A_WORDS; ++w) a[w] = word_of_a(p, t, k0, w);
#pragma unroll
            for (int w = 0; w < B_WORDS; ++w) b[w] = word_of_b(p, t, k0, w);
            mma(d.words, a, b);
        }
        d.store_d(p, t, 0);
    }
}
