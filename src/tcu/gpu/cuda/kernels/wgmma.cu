// D = A·B + C with one wgmma.mma_async per step of K, one tile of D per warpgroup (the block).
//
// The macros of mma.cu, and
//   IMMEDIATES          what follows the scale of D: scales of A and B, transpositions; "" for integers
//
// THREADS is 128, TILE_M 64, TILE_N 8, and a row of a tile of A or a column of B has 32 bytes.

#include "device/mma/output_fragment.cuh"

using namespace tcu;

constexpr int D_WORDS = TILE_M * TILE_N / THREADS / mma::OUTPUTS_PER_WORD;
constexpr int LINE = TILE_K * sizeof(INPUT);  // bytes
constexpr int CORE_LINE = 16, CORE = 8 * CORE_LINE;

static_assert(THREADS == 128 && TILE_M == 64 && TILE_N == 8 && LINE == 2 * CORE_LINE, "the layout assumes it");

// PTX ISA, "Shared Memory Matrix Layout" of wgmma, K-major without swizzling: core matrices of
// 8 rows of 16 bytes, each contiguous; here the two along K are neighbours, then come the next 8 rows.
__device__ inline int position(int line, int k) {
    const int byte = k * static_cast<int>(sizeof(INPUT));
    return (line / 8 * 2 + byte / CORE_LINE) * CORE + line % 8 * CORE_LINE + byte % CORE_LINE;
}

// PTX ISA, "Matrix Descriptor Format" of wgmma: address, byte distance of core matrices along K
// ("leading dimension"), and along M or N ("stride dimension"), each without its low 4 bits; no swizzling.
__device__ inline u64 descriptor(const u8* tile) {
    const u64 address = __cvta_generic_to_shared(tile);
    const u64 along_k = CORE, along_lines = 2 * CORE;
    return (address & 0x3ffff) >> 4 | (along_k >> 4) << 16 | (along_lines >> 4) << 32;
}

// The fence hands the registers of D over and the wait gives them back.  So all of it is one statement: nothing may
// touch the registers in between.
__device__ inline void wgmma(u32 (&d)[2], u64 a, u64 b) {
    asm volatile("wgmma.fence.sync.aligned;\n"
                 MNEMONIC " {%0, %1}, %2, %3, 1" IMMEDIATES ";\n"
                 "wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;"
                 : "+r"(d[0]), "+r"(d[1])
                 : "l"(a), "l"(b)
                 : "memory");
}

__device__ inline void wgmma(u32 (&d)[4], u64 a, u64 b) {
    asm volatile("wgmma.fence.sync.aligned;\n"
                 MNEMONIC " {%0, %1, %2, %3}, %4, %5, 1" IMMEDIATES ";\n"
                 "wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS) multiply_accumulate(const __grid_constant__ load::Problem p) {
    __shared__ alignas(128) u8 tile_a[TILE_M * LINE];
    __shared__ alignas(128) u8 tile_b[TILE_N * LINE];
    const int thread = threadIdx.x, first_row = thread / 32 * 16;  // warp w owns the rows 16 w and up
    for (i64 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const load::MatrixTile t = load::locate(p, tile, TILE_M, TILE_N);
        mma::OutputFragment<D_WORDS> d;
        d.load_c(p, t, first_row);
        for (i64 k0 = 0; k0 < p.k; k0 += TILE_K) {
            __syncthreads();  // every warp has its result, so the tiles may be overwritten
            for (int i = thread; i < TILE_M * TILE_K; i += THREADS) {
                const int line = i / TILE_K, k = i % TILE_K;
                *reinterpret_cast<INPUT*>(tile_a + position(line, k)) =
                    load::load<INPUT>(p.a, t.a, t.row + line, k0 + k, p.m, p.k);
            }
            for (int i = thread; i < TILE_N * TILE_K; i += THREADS) {
                const int line = i % TILE_N, k = i / TILE_N;
                *reinterpret_cast<INPUT*>(tile_b + position(line, k)) =
                    load::load<INPUT>(p.b, t.b, k0 + k, t.column + line, p.k, p.n);
            }
            // wgmma reads shared memory through the async proxy: a fence makes ordinary stores visible to it.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            wgmma(d.words, descriptor(tile_a), descriptor(tile_b));
        }
        d.store_d(p, t, first_row);
    }
}
