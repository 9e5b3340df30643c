// C = A·B by mma.sync, any strides, one tile of 64 × 64 of C per block at a time.  The macros of mma.cu, FACTORS and
//   RESULT      as in device/finish/factors.cuh
//   INTEGERS    whether OUTPUT is s32
//   CHUNK       numbers of k in a chain of MMAs; 0: all of k
//   OUTSIDE     float or double: the format of additions outside the unit
//   TO_TF32     whether numbers of binary32 are rounded to TF32
//   ALONG_A, ALONG_B   whether k is the contiguous dimension

#include "device/finish/factors.cuh"
#include "device/mma/fragments.cuh"

using namespace tcu;

namespace {

#include "generated/matmul_mma/GeneralProduct.inc"

constexpr int TILE = 64, SIDE = 32;  // of a block, of each of its four warps
constexpr int STEP = 128 / sizeof(INPUT) > TILE_K ? 128 / sizeof(INPUT) : TILE_K;  // of k in shared memory
constexpr int LINE = STEP * sizeof(INPUT) + 16;                                     // so that a fragment's words lie in all banks
constexpr int ACROSS = SIDE / TILE_N, DOWN = SIDE / TILE_M;
constexpr int ELEMENTS = mma::D_WORDS * mma::OUTPUTS_PER_WORD;
typedef OUTSIDE Real;

// INPUT's bits rounded to TF32, to nearest, ties to even.
__device__ inline u32 tf32(u32 x) {
    if ((x & 0x7f800000) == 0x7f800000) return x & 0x7fffff ? 0x7fffffff : x;
    return x + 0xfff + (x >> 13 & 1) & 0xffffe000;
}

// Lines of a tile, from `first` on, into shared memory.
template <bool ALONG>
__device__ inline void load_lines(const load::Matrix& x, i64 base, i64 first, i64 lines, i64 line_stride, i64 k0, i64 k, i64 k_stride,
                                  u8* to) {
    const INPUT* const from = static_cast<const INPUT*>(x.data) + base;
    for (int i = threadIdx.x; i < TILE * STEP; i += THREADS) {
        const int line = ALONG ? i / STEP : i % TILE, at = ALONG ? i % STEP : i / TILE;
        INPUT v = 0;
        if (first + line < lines && k0 + at < k) v = __ldg(from + (first + line) * line_stride + (k0 + at) * k_stride);
        if constexpr (TO_TF32) v = static_cast<INPUT>(tf32(static_cast<u32>(v)));
        *reinterpret_cast<INPUT*>(to + line * LINE + at * sizeof(INPUT)) = v;
    }
}

__device__ inline Real value(const WORD (&words)[mma::D_WORDS], int i) {
    if constexpr (sizeof(WORD) == 8) return static_cast<Real>(__longlong_as_double(words[i]));
    if constexpr (mma::OUTPUTS_PER_WORD == 2) {
        float v;
        const u16 code = static_cast<u16>(words[i / 2] >> i % 2 * 16);
        asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(v) : "h"(code));
        return v;
    }
    return __uint_as_float(static_cast<u32>(words[i]));
}

__device__ inline void store(const GeneralProduct& p, i64 row, i64 column, i64 batch, Real sum) {
    if (row >= p.p.m || column >= p.p.n) return;
    if constexpr (FACTORS) sum = finish::scaled<Real>(p.factors, sum, finish::number<Real>(p.factors.scale_a, row), column);
    finish::store_result(p.p.d, batch * p.c_batch + row * p.c_row + column, sum);
}

__device__ inline void store(const GeneralProduct& p, i64 row, i64 column, i64 batch, int sum) {
    if constexpr (FACTORS) store(p, row, column, batch, static_cast<Real>(__int2float_rn(sum)));
    else if (row < p.p.m && column < p.p.n) finish::store_result(p.p.d, batch * p.c_batch + row * p.c_row + column, sum);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) matmul_mma(const __grid_constant__ GeneralProduct p) {
    __shared__ alignas(16) u8 a[TILE * LINE];
    __shared__ alignas(16) u8 b[TILE * LINE];
    const int warp = threadIdx.x / WARP, first_row = warp / 2 * SIDE, first_column = warp % 2 * SIDE;
    const i64 each = (p.p.m + TILE - 1) / TILE * ((p.p.n + TILE - 1) / TILE);
    for (i64 tile = blockIdx.x; tile < p.p.tiles; tile += gridDim.x) {
        const load::MatrixTile t = load::locate(p.p, tile, TILE, TILE);
        WORD d[DOWN][ACROSS][mma::D_WORDS] = {};
        Real sums[DOWN][ACROSS][CHUNK ? ELEMENTS : 1];
#pragma unroll
        for (int i = 0; i < DOWN * ACROSS * (CHUNK ? ELEMENTS : 1); ++i) (&sums[0][0][0])[i] = -0.0f;
        for (i64 k0 = 0; k0 < p.p.k; k0 += STEP) {
            __syncthreads();
            load_lines<ALONG_A>(p.p.a, t.a, t.row, p.p.m, p.p.a.row_stride, k0, p.p.k, p.p.a.column_stride, a);
            load_lines<ALONG_B>(p.p.b, t.b, t.column, p.p.n, p.p.b.column_stride, k0, p.p.k, p.p.b.row_stride, b);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < STEP; k += TILE_K) {
                WORD of_b[ACROSS][mma::B_WORDS];
                const int lane = threadIdx.x % WARP;
#pragma unroll
                for (int j = 0; j < ACROSS; ++j)
#pragma unroll
                    for (int w = 0; w < mma::B_WORDS; ++w)
                        of_b[j][w] = *reinterpret_cast<const WORD*>(b + (first_column + j * TILE_N + lane / 4) * LINE +
                                                                    (k + mma::fragment_k(w)) * sizeof(INPUT));
#pragma unroll
                for (int i = 0; i < DOWN; ++i) {
                    WORD of_a[mma::A_WORDS];
#pragma unroll
                    for (int w = 0; w < mma::A_WORDS; ++w)
                        of_a[w] = *reinterpret_cast<const WORD*>(a + (first_row + i * TILE_M + mma::fragment_row(w)) * LINE +
                                                                 (k + mma::fragment_k(w / mma::ROW_GROUPS)) * sizeof(INPUT));
#pragma unroll
                    for (int j = 0; j < ACROSS; ++j) mma::mma(d[i][j], of_a, of_b[j]);
                }
            }
            if constexpr (CHUNK > 0)
                if ((k0 + STEP) % (CHUNK ? CHUNK : 1) == 0 || k0 + STEP >= p.p.k) {
#pragma unroll
                    for (int i = 0; i < DOWN; ++i)
#pragma unroll
                        for (int j = 0; j < ACROSS; ++j) {
#pragma unroll
                            for (int e = 0; e < ELEMENTS; ++e)
                                sums[i][j][e] = finish::add(sums[i][j][e], value(d[i][j], e));
#pragma unroll
                            for (int w = 0; w < mma::D_WORDS; ++w) d[i][j][w] = 0;
                        }
                }
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int j = 0; j < ACROSS; ++j)
#pragma unroll
                for (int e = 0; e < ELEMENTS; ++e) {
                    const i64 row = mma::OutputFragment<1>::row(t, first_row + i * TILE_M, e),
                              column = mma::OutputFragment<1>::column(t, e) + first_column + j * TILE_N;
                    if constexpr (INTEGERS) store(p, row, column, tile / each, static_cast<int>(d[i][j][e]));
                    else if constexpr (CHUNK > 0) store(p, row, column, tile / each, sums[i][j][e]);
                    else store(p, row, column, tile / each, value(d[i][j], e));
                }
    }
}
