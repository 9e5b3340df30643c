// C = A·B by wgmma, tiles of C handed to blocks in turn, on sm_90.  The macros of device/product/chains.cuh, and
//   GROUP       rows of tiles that are finished together
//   IN_A_ROW    tiles one after the other that a block takes at a time
//   RESIDENT    blocks on a multiprocessor
//   REGISTERS   of a thread that multiplies
//   OUT_BUFFERS of a warp, from which the copy engine writes its results; 0: threads write them
//   OUT_ROWS    whether it writes rows of C whole: C has no gaps then and is no wider than a tile

#include "device/product/chains.cuh"
#include "device/product/tiles.cuh"

using namespace tcu;
using namespace tcu::product;

namespace {

constexpr int OUT_COLUMNS = LINE / STAGED_BYTES;  // of a warp's staged results

constexpr int CONSUMING = CONSUMERS * 128, ASKING = RESIDENT > 1 ? WARP : 128;  // threads

constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 40;  // with REGISTERS, 65536 in all

constexpr int BUFFERS = OUT_BUFFERS ? OUT_BUFFERS : 1;                   // in which a warp stages results
constexpr int BUFFER = 16 * (OUT_ROWS ? COLUMNS * STAGED_BYTES : LINE);  // bytes

struct BlockMemory {
    Stages stages;
    alignas(OUT_BUFFERS ? ATOM : 128) u8 results[CONSUMERS * 4][BUFFERS * BUFFER];
};

// The tiles of a cluster.
struct Turns {
    u32 tile = blockIdx.x / CLUSTER * IN_A_ROW, left = IN_A_ROW;

    __device__ void advance() {
        ++tile;
        if (--left == 0) tile += (gridDim.x / CLUSTER - 1) * IN_A_ROW, left = IN_A_ROW;
    }
};

#if __CUDA_ARCH_FEAT_SM90_ALL

// A warp's 16 rows, by way of shared memory, so that lines of memory are written whole; `used`: buffers until now.
__device__ inline void store(const Product& p, const Tile& at, const DNumber (&sums)[WORDS], u8* staged, u32& used) {
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int row = at.row + warp * 16;
    const i64 first_row = row + lane / 4;
    const float low = FACTORS && first_row < p.rows ? finish::number<float>(p.factors.scale_a, first_row) : 0,
                high = FACTORS && first_row + 8 < p.rows ? finish::number<float>(p.factors.scale_a, first_row + 8) : 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c += OUT_COLUMNS) {
        const int width = COLUMNS - c < OUT_COLUMNS ? COLUMNS - c : OUT_COLUMNS;
        float d[OUT_COLUMNS / 2];
#pragma unroll
        for (int i = 0; i < OUT_COLUMNS / 2; ++i) {
            if (c / 2 + i >= WORDS) continue;
            d[i] = finish::carried(sums[c / 2 + i]);
            const int column = at.column + c + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (FACTORS && column < p.columns) d[i] = finish::scaled(p.factors, d[i], i / 2 % 2 ? high : low, column);
        }
        const u32 base = load::shared_address(staged) + used++ % BUFFERS * BUFFER;
        if (OUT_BUFFERS && lane == 0) load::wait_for_stores<BUFFERS - 1>();
        __syncwarp();
        if constexpr (STAGED_BYTES == 4) {
#pragma unroll
            for (int j = 0; j < OUT_COLUMNS; j += 8) {
                if (j >= width) continue;
                const u32 unit = j / 4 + lane % 4 / 2, r = lane / 4, to = base + r * LINE + (unit ^ r) * 16 + lane % 2 * 8;
                store_pair(to, d[j / 2], d[j / 2 + 1]);
                store_pair(to + 8 * LINE, d[j / 2 + 2], d[j / 2 + 3]);
            }
        } else {
#pragma unroll
            for (int j = 0; j < OUT_COLUMNS; j += 16) {
                if (j >= width) continue;
                const u32 r = lane % 16, unit = j / 8 + lane / 16, to = base + r * LINE + (unit ^ r % 8) * 16;
                if (j + 8 < width) store_matrices(to, d + j / 2);
                else store_half(to, d + j / 2);
            }
        }
        if constexpr (OUT_BUFFERS > 0) {
            load::release_to_copies();
            __syncwarp();
            if (lane == 0) {
                load::store_box<(KEPT_B > 0)>(p.of_results, at.column + c, row, at.batch, base);
                load::commit_stores();
            }
        } else {
            __syncwarp();
            constexpr int LANES = LINE / 16;
#pragma unroll
            for (int i = 0; i < 16 * LANES / WARP; ++i) {
                const u32 r = i * (WARP / LANES) + lane / LANES, unit = lane % LANES;
                const uint4 v = load::load_vector(base + r * LINE + (unit ^ r % 8) * 16);
                const int first = unit * PER_UNIT;
                if (row + static_cast<int>(r) < rows_end(p, at) && first < width) write(p, at.batch, row + r, at.column + c + first, v);
            }
        }
    }
}

// Two neighbours of a row in shared memory, or the first of them; `together`: rows have an even number of columns.
__device__ inline void stage_pair(u8* to, float low, float high, bool both, bool together) {
    if constexpr (STAGED_BYTES == 4) {
        float* const at = reinterpret_cast<float*>(to);
        if (together) *reinterpret_cast<float2*>(at) = make_float2(low, high);
        else {
            at[0] = low;
            if (both) at[1] = high;
        }
    } else {
        u16* const at = reinterpret_cast<u16*>(to);
        const u32 pair = finish::rounded_pair(low, high);
        if (together) *reinterpret_cast<u32*>(at) = pair;
        else {
            at[0] = static_cast<u16>(pair);
            if (both) at[1] = static_cast<u16>(pair >> 16);
        }
    }
}

// The same where C has no gaps and its rows are no wider than a tile: a warp's 16 are one piece of memory.
__device__ inline void store_rows(const Product& p, const Tile& at, const DNumber (&sums)[WORDS], u8* staged, u32& used) {
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, pitch = p.columns * STAGED_BYTES;
    const int row = at.row + warp * 16, count = min(p.rows - row, 16);
    if (count <= 0) return;
    u8* const buffer = staged + used++ % BUFFERS * BUFFER;
    if (lane == 0) load::wait_for_stores<BUFFERS - 1>();
    __syncwarp();
    // Lanes of different rows meet the same banks.  Rows that begin with other columns each, so that they do not, took longer:
    // 106.1 in place of 105.2 us (1,048,576 x 64 times 64 x 64, H200), 33 columns, which meet few, 79 in place of 71.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int r = lane / 4 + half * 8;
        const float of_row = FACTORS && r < count ? finish::number<float>(p.factors.scale_a, row + r) : 0;
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 8) {
            const int column = j + lane % 4 * 2, there = p.columns - column;
            if (there <= 0) continue;
            float low = finish::carried(sums[j / 2 + half * 2]), high = finish::carried(sums[j / 2 + half * 2 + 1]);
            if (FACTORS) {
                low = finish::scaled(p.factors, low, of_row, column);
                if (there > 1) high = finish::scaled(p.factors, high, of_row, column + 1);
            }
            stage_pair(buffer + r * pitch + column * STAGED_BYTES, low, high, there > 1, p.columns % 2 == 0);
        }
    }
    load::release_to_copies();
    __syncwarp();
    char* const out = static_cast<char*>(p.c) + at.batch * p.c_batch_stride + static_cast<i64>(row) * pitch;
    const u32 bytes = count * pitch;
    if (bytes % 16 == 0) {
        if (lane == 0) load::start_store<true>(out, buffer, bytes);
    } else {
        for (u32 i = lane * STAGED_BYTES; i < bytes; i += WARP * STAGED_BYTES)
            if constexpr (STAGED_BYTES == 4) *reinterpret_cast<u32*>(out + i) = *reinterpret_cast<const u32*>(buffer + i);
            else *reinterpret_cast<u16*>(out + i) = *reinterpret_cast<const u16*>(buffer + i);
        __syncwarp();
    }
    // Each use of a buffer commits a group, even an empty one: waiting for a buffer counts groups.
    if (lane == 0) load::commit_stores();
}

__device__ inline void consume(const Product& p, BlockMemory& memory, u32 rank) {
    const u32 warp = __shfl_sync(ALL, threadIdx.x / WARP, 0);
    const Operands operands(memory.stages, warp / 4);
    Place place;
    u32 used = 0;
    ProductTiles<GROUP> tiles;
    for (Turns turns; tiles.has(p, turns.tile); turns.advance()) {
        DNumber sums[WORDS];
        if constexpr (CHUNK == 0) {
            DWord d[D_WORDS];
            chain(d, operands, memory.stages, place, p.k_stages);
#pragma unroll
            for (int i = 0; i < WORDS; ++i) sums[i] = mma::value(d, i);
        } else {
            add_chains(sums, operands, memory.stages, place, 0, p.k_stages, CHUNK);
        }
        const Tile at = tiles.place(p, turns.tile, rank);
        if constexpr (OUT_ROWS) store_rows(p, at, sums, memory.results[warp], used);
        else store(p, at, sums, memory.results[warp], used);
    }
    if (OUT_BUFFERS && threadIdx.x % WARP == 0) load::wait_for_stores();  // they still read this block's memory
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__(CONSUMING + ASKING, RESIDENT) matmul(const __grid_constant__ Product p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ u8 raw[];
    BlockMemory& memory = aligned<BlockMemory>(raw);
    const u32 rank = CLUSTER > 1 ? load::cluster_rank() : 0;
    if (threadIdx.x == 0) prepare(p, memory.stages);
    __syncthreads();
    if constexpr (CLUSTER > 1) load::sync_cluster();
    if (threadIdx.x >= CONSUMING) {
        if constexpr (RESIDENT == 1) give_registers<PRODUCER_REGISTERS>();
        // Segments are found by a whole warp.
        if (threadIdx.x < CONSUMING + WARP && (SEGMENTS || load::is_elected())) {
            Place place;
            ProductTiles<GROUP> tiles;
            bool with_b = true;
            for (Turns turns; tiles.has(p, turns.tile); turns.advance()) {
                const Tile at = tiles.place(p, turns.tile, rank);
                if (!SEGMENTS || threadIdx.x == CONSUMING) ask(p, memory.stages, place, at, 0, p.k_stages, rank, with_b);
                with_b = KEPT_B == 0;
                if (SEGMENTS) __syncwarp();
            }
        }
        __syncwarp();
    } else {
        if constexpr (RESIDENT == 1) take_registers<REGISTERS>();
        consume(p, memory, rank);
    }
    if constexpr (CLUSTER > 1) load::sync_cluster();  // others may still arrive at this block's barriers
#endif
}
