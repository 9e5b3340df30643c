// C = A·B of binary64 by mma.sync of m16n8k16, on sm_90: the copy engine brings tiles, as for wgmma.  The macros of
// device/product/stages.cuh and fragments.cuh, and
//   GROUP       rows of tiles that are finished together
//
// A stage holds 16 numbers of k, four at a time: lines of 32 bytes, of which four lie in all banks.

#include "device/mma/fragments.cuh"
#include "device/product/stages.cuh"

using namespace tcu;
using namespace tcu::product;

namespace {

constexpr int FOUR = 32;  // bytes

#if __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline u64 load_word(u32 address) {
    u64 word;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(address));
    return word;
}

__device__ inline void load_columns(u64 (&b)[4], u32 address, int j) {
#pragma unroll
    for (int w = 0; w < 4; ++w) b[w] = load_word(address + w * (COLUMNS * FOUR) + j * 8 * FOUR);
}

__device__ inline void store(const Product& p, const Tile& at, int warp, const u64 (&d)[COLUMNS / 8][4]) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = at.row + warp * 16 + half * 8 + lane / 4;
        if (row >= p.rows) continue;
        const double of_row = FACTORS ? finish::number<double>(p.factors.scale_a, row) : 1;
        char* const out = static_cast<char*>(p.c) + at.batch * p.c_batch_stride + row * p.c_row_stride;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j) {
            const int column = at.column + j * 8 + lane % 4 * 2;
            double pair[2] = {__longlong_as_double(d[j][2 * half]), __longlong_as_double(d[j][2 * half + 1])};
            if (!FACTORS && RESULT == BINARY64 && p.aligned) {
                if (column < p.columns) *reinterpret_cast<double2*>(out + column * 8) = make_double2(pair[0], pair[1]);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
                if (column + i < p.columns) {
                    if constexpr (FACTORS) pair[i] = finish::scaled(p.factors, pair[i], of_row, column + i);
                    finish::store_result(out, column + i, pair[i]);
                }
        }
    }
}

__device__ inline void consume(const Product& p, Stages& stages) {
    const int warp = __shfl_sync(ALL, threadIdx.x / WARP - 4, 0), lane = threadIdx.x % WARP;
    const u32 a = load::shared_address(stages.a[0]) + (warp * 16 + lane / 4) * FOUR + lane % 4 * 8;
    const u32 b = load::shared_address(stages.b[0]) + lane / 4 * FOUR + lane % 4 * 8;
    Place place;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        u64 d[COLUMNS / 8][4] = {};
        for (int k = 0; k < p.k_stages; ++k, place.advance()) {
            load::wait_for_copy(&stages.full[place.stage], place.odd);
            const u32 a_now = a + place.stage * A_BYTES, b_now = b + place.stage * B_BYTES;
            u64 of_a[8];
#pragma unroll
            for (int w = 0; w < 8; ++w) of_a[w] = load_word(a_now + w / 2 * (ROWS * FOUR) + w % 2 * 8 * FOUR);
            u64 of_b[2][4];  // of the present and of the next columns
            load_columns(of_b[0], b_now, 0);
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; ++j) {
                if (j + 1 < COLUMNS / 8) load_columns(of_b[(j + 1) % 2], b_now, j + 1);
                mma::mma(d[j], of_a, of_b[j % 2]);
            }
            __syncwarp();
            release(stages, place.stage);
        }
        store(p, locate<GROUP>(p, tile, 0), warp, d);
    }
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) matmul_double(const __grid_constant__ Product p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ u8 raw[];
    Stages& stages = aligned<Stages>(raw);
    if (threadIdx.x == 0) prepare(p, stages);
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x < WARP && load::is_elected()) {
            Place place;
            for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x)
                ask(p, stages, place, locate<GROUP>(p, tile, 0), 0, p.k_stages, 0);
        }
    } else {
        take_registers<232>();
        consume(p, stages);
    }
#endif
}
