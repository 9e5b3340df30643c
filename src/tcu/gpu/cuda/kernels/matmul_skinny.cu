// C = B'·A' for a C of few rows (B' the rows, A' the columns of the matrix that is read): tiles of 64 columns of C by all
// of its rows, each cut into parts along k, a block each, on sm_90.  The macros of device/product/chains.cuh, and
//   RESIDENT    blocks on a multiprocessor
//
// The results of the chunks of all parts but the first wait in memory.  The last block of a tile adds them up in order.

#include "device/product/chains.cuh"
#include "device/product/tiles.cuh"

using namespace tcu;
using namespace tcu::product;

namespace {

constexpr int CONSUMING = CONSUMERS * 128;  // threads
constexpr int RESULT_LINE = ROWS * STAGED_BYTES;

#if __CUDA_ARCH_FEAT_SM90_ALL

// A chunk's results in memory: each thread's numbers.
__device__ inline uint4* stored(const Product& p, u32 tile, u32 slot) {
    return reinterpret_cast<uint4*>(p.room) + (static_cast<u64>(tile) * p.slots + slot) * (WORDS / 4 * CONSUMING) + threadIdx.x;
}

__device__ inline void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMING) : "memory"); }

__device__ inline void store(const Product& p, const Tile& at, const DNumber (&sums)[WORDS], u8* staged) {
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, base = load::shared_address(staged);
    float d[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        d[i] = finish::carried(sums[i]);
        if constexpr (FACTORS) {
            const int row = at.column + i / 4 * 8 + lane % 4 * 2 + i % 2, column = at.row + warp * 16 + i / 2 % 2 * 8 + lane / 4;
            if (row < p.rows && column < p.columns)
                d[i] = finish::scaled(p.factors, d[i], finish::number<float>(p.factors.scale_a, row), column);
        }
    }
    sync_consumers();  // all have read the ring
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 16) {
        const float* const x = d + j / 2;
        if constexpr (STAGED_BYTES == 4) {
#pragma unroll
            for (int i = 0; i < 8 && i < WORDS; ++i) {
                const u32 column = j + i / 4 * 8 + lane % 4 * 2 + i % 2, row = warp * 16 + i % 4 / 2 * 8 + lane / 4;
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(base + column * RESULT_LINE + (row / 4 ^ column % 8) * 16 +
                                                             row % 4 * 4),
                             "f"(x[i])
                             : "memory");
            }
        } else {
            const u32 column = j + lane / 16 * 8 + lane % 8, unit = warp * 2 + lane / 8 % 2;
            const u32 to = base + column * RESULT_LINE + (unit ^ column % 8) * 16;
            if (COLUMNS % 16 == 0) store_transposed(to, x);
            else store_half_transposed(to, x);
        }
    }
    sync_consumers();
    constexpr int UNITS = RESULT_LINE / 16;
    for (u32 i = threadIdx.x; i < COLUMNS * UNITS; i += CONSUMING) {
        const u32 column = i / UNITS, unit = i % UNITS;
        const uint4 v = load::load_vector(base + column * RESULT_LINE + (unit ^ column % 8) * 16);
        const int row = at.column + column;
        if (row < rows_end(p, at)) write(p, at.batch, row, at.row + unit * PER_UNIT, v);
    }
}

__device__ inline void consume(const Product& p, Stages& stages, const Tile& at, u32 tile, u32 part, int k, int end, int chunk) {
    __shared__ u32 arrived;
    const Operands operands(stages, __shfl_sync(ALL, threadIdx.x / 128, 0));
    Place place;
    DNumber sums[WORDS];
    if (part == 0) add_chains(sums, operands, stages, place, k, end, chunk);
    if (p.parts > 1) {
        const u32 before = p.slots - (p.k_stages + chunk - 1) / chunk;  // slot s + before: the chunk s
        for (; part && k < end; k += chunk) {
            DWord d[D_WORDS];
            chain(d, operands, stages, place, min(chunk, end - k));
            uint4* const to = stored(p, tile, before + k / chunk);
#pragma unroll
            for (int i = 0; i < WORDS / 4; ++i) {
                const DNumber x[4] = {mma::value(d, 4 * i), mma::value(d, 4 * i + 1), mma::value(d, 4 * i + 2), mma::value(d, 4 * i + 3)};
                to[i * CONSUMING] = four(x);
            }
        }
        if (part == 0) {
            uint4* const to = stored(p, tile, 0);
#pragma unroll
            for (int i = 0; i < WORDS / 4; ++i)
                to[i * CONSUMING] = four(sums + 4 * i);
        }
        __threadfence();
        sync_consumers();
        u32* const count = static_cast<u32*>(p.flags) + tile;
        if (threadIdx.x == 0) {
            arrived = atomicAdd(count, 1);
            if (arrived == p.parts - 1) *count = 0;  // for the next launch
        }
        sync_consumers();
        if (arrived != p.parts - 1) return;
        __threadfence();
#pragma unroll
        for (int i = 0; i < WORDS; ++i) sums[i] = -0.0f;
#pragma unroll 4
        for (u32 slot = 0; slot < p.slots; ++slot) {
            const uint4* const from = stored(p, tile, slot);
#pragma unroll
            for (int i = 0; i < WORDS / 4; ++i) {
                DNumber more[4];
                unpack(__ldcg(from + i * CONSUMING), more);
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[4 * i + j] = finish::add(sums[4 * i + j], more[j]);
            }
        }
    }
    store(p, at, sums, stages.a[0]);
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__(CONSUMING + WARP, RESIDENT) matmul_skinny(const __grid_constant__ Product p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ u8 raw[];
    Stages& stages = aligned<Stages>(raw);
    const u32 rank = CLUSTER > 1 ? load::cluster_rank() : 0;
    if (threadIdx.x == 0) prepare(p, stages);
    __syncthreads();
    if constexpr (CLUSTER > 1) load::sync_cluster();
    const u32 unit = blockIdx.x / CLUSTER, part = unit % p.parts;
    ProductTiles<1> tiles;
    if (SEGMENTS && !tiles.has(p, unit)) return;
    const Tile at = tiles.place(p, unit / p.parts, rank);
    const u32 tile = unit / p.parts * CLUSTER + rank;
    const int chunk = CHUNK ? CHUNK : p.k_stages;
    const int chunks = (p.k_stages + chunk - 1) / chunk;
    const int k = static_cast<int>(chunks * part / p.parts) * chunk,
              end = min(static_cast<int>(chunks * (part + 1) / p.parts) * chunk, p.k_stages);
    if (threadIdx.x < CONSUMING) {
        consume(p, stages, at, tile, part, k, end, chunk);
    } else if (load::is_elected()) {
        Place place;
        ask(p, stages, place, at, k, end, rank);
    }
    if constexpr (CLUSTER > 1) {  // others may still arrive at this block's barriers
        __syncwarp();
        load::sync_cluster();
    }
#endif
}
