// D = A·B + C with one mma.sync per step of K, one tile of D per warp.
//
// Compiled once per instruction with these macros:
//   MNEMONIC            the instruction, such as "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
//   TILE_M TILE_N TILE_K  its shape
//   INPUT OUTPUT        unsigned types as wide as the elements of A and B, and of C and D
//   WORD                the register of a fragment: u64 for binary64, else u32
//   THREADS             threads per block, a multiple of 32

#include "device/mma/fragments.cuh"

using namespace tcu;

__device__ inline WORD word_of_a(const load::Problem& p, const load::MatrixTile& t, i64 k0, int word) {
    const i64 row = t.row + mma::fragment_row(word);
    const i64 k = k0 + mma::fragment_k(word / mma::ROW_GROUPS);
    WORD bits = 0;
#pragma unroll
    for (int i = 0; i < mma::INPUTS_PER_WORD; ++i)
        bits |= static_cast<WORD>(load::load<INPUT>(p.a, t.a, row, k + i, p.m, p.k)) << (8 * sizeof(INPUT) * i);
    return bits;
}

__device__ inline WORD word_of_b(const load::Problem& p, const load::MatrixTile& t, i64 k0, int word) {
    const int lane = threadIdx.x % WARP;
    const i64 k = k0 + mma::fragment_k(word);
    WORD bits = 0;
#pragma unroll
    for (int i = 0; i < mma::INPUTS_PER_WORD; ++i)
        bits |= static_cast<WORD>(load::load<INPUT>(p.b, t.b, k + i, t.column + lane / 4, p.k, p.n))
                << (8 * sizeof(INPUT) * i);
    return bits;
}

extern "C" __global__ void __launch_bounds__(THREADS) multiply_accumulate(const __grid_constant__ load::Problem p) {
    const i64 warps = static_cast<i64>(gridDim.x) * (THREADS / WARP);
    i64 tile = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    for (; tile < p.tiles; tile += warps) {  // the same for all lanes of a warp, as mma.sync needs
        const load::MatrixTile t = load::locate(p, tile, TILE_M, TILE_N);
        mma::OutputFragment<mma::D_WORDS> d;
        d.load_c(p, t, 0);
        for (i64 k0 = 0; k0 < p.k; k0 += TILE_K) {
            WORD a[mma::A_WORDS], b[mma::B_WORDS];
#pragma unroll
            for (int w = 0; w < mma::A_WORDS; ++w) a[w] = word_of_a(p, t, k0, w);
#pragma unroll
            for (int w = 0; w < mma::B_WORDS; ++w) b[w] = word_of_b(p, t, k0, w);
            mma::mma(d.words, a, b);
        }
        d.store_d(p, t, 0);
    }
}
