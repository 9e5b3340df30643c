// C = A·B by mma.sync for an A of many short rows and a B that stays in registers: a warp reads some tiles of rows of A and
// writes those of C at a time.  Of formats of 16 bits, by units that add up the products of an MMA in no order: lanes read
// neighbouring numbers of a row, in whatever k the MMA takes them, and hold neighbouring columns of C.
//
// The macros of mma.cu, FACTORS and
//   RESULT      as in device/finish/factors.cuh
//   STEPS       MMAs along k
//   GROUPS      of 16 columns of B
//   TILES       of 16 rows, at a time

#include "device/finish/factors.cuh"
#include "device/mma/fragments.cuh"

using namespace tcu;

namespace {

#include "generated/matmul_mma/GeneralProduct.inc"

constexpr int ROWS = TILES * TILE_M;

// The word of a lane's column of B: k and k + 1.
__device__ inline u32 word_of_b(const GeneralProduct& p, int k, int column) {
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (k + i < p.p.k && column < p.p.n)
            word |= static_cast<u32>(__ldg(static_cast<const u16*>(p.p.b.data) + (k + i) * p.p.b.row_stride + column * p.p.b.column_stride))
                    << 16 * i;
    return word;
}

// Four neighbours of a row of C.
__device__ inline void store(const GeneralProduct& p, i64 row, int column, float (&x)[4]) {
    if (row >= p.p.m || column >= p.p.n) return;
    if constexpr (FACTORS) {
        const float of_row = finish::number<float>(p.factors.scale_a, row);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = finish::scaled(p.factors, x[i], of_row, column + i);
    }
    const i64 at = row * p.c_row + column;
    if constexpr (RESULT == BINARY32)
        __stcs(reinterpret_cast<float4*>(static_cast<float*>(p.p.d) + at), make_float4(x[0], x[1], x[2], x[3]));
    else
        __stcs(reinterpret_cast<uint2*>(static_cast<u16*>(p.p.d) + at),
               make_uint2(finish::rounded_pair(x[0], x[1]), finish::rounded_pair(x[2], x[3])));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS) matmul_tall(const __grid_constant__ GeneralProduct p) {
    const int lane = threadIdx.x % WARP, line = lane / 4, part = lane % 4;
    u32 b[STEPS][GROUPS][2][2];
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int w = 0; w < 2; ++w)
                    b[s][g][i][w] = word_of_b(p, s * 16 + part * 4 + w * 2, g * 16 + line / 2 * 4 + i * 2 + line % 2);
    const u16* const a = static_cast<const u16*>(p.p.a.data);
    const i64 step = static_cast<i64>(gridDim.x) * (THREADS / WARP) * ROWS;
    i64 first = (static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP) * ROWS;
    for (; first < p.p.m; first += step) {
        uint2 x[TILES][2][STEPS];
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int s = 0; s < STEPS; ++s) {
                    const i64 row = first + t * TILE_M + half * 8 + line;
                    const int k = s * 16 + part * 4;
                    x[t][half][s] = row < p.p.m && k < p.p.k
                                        ? __ldcs(reinterpret_cast<const uint2*>(a + row * p.p.a.row_stride + k))
                                        : make_uint2(0, 0);
                }
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                u32 d[2][4] = {};
#pragma unroll
                for (int s = 0; s < STEPS; ++s) {
                    const u32 words[4] = {x[t][0][s].x, x[t][1][s].x, x[t][0][s].y, x[t][1][s].y};
#pragma unroll
                    for (int i = 0; i < 2; ++i) mma::mma(d[i], words, b[s][g][i]);
                }
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float four[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) four[i] = __uint_as_float(d[i / 2][half * 2 + i % 2]);
                    store(p, first + t * TILE_M + half * 8 + line, g * 16 + part * 4, four);
                }
            }
    }
}
