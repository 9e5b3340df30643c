// C = A·B by wgmma, tiles of C handed to blocks in turn, on sm_90.  The macros of device/product/stages.cuh, and
//   GROUP       rows of tiles that are finished together

#include "device/product/chains.cuh"

using namespace tcu;
using namespace tcu::product;

namespace {

constexpr int OUT_COLUMNS = LINE / STAGED_BYTES;  // of a warp's staged results

// 65536 in all.  With 24 of them, the producer of a cluster spills.
constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : CHUNK && COLUMNS > 208 ? 24 : 40;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : CHUNK && COLUMNS > 208 ? 240 : 232;

struct BlockMemory {
    Stages stages;
    alignas(128) u8 results[CONSUMERS * 4][16 * LINE];
};

#if __CUDA_ARCH_FEAT_SM90_ALL

// A part of the work of a block: stages [k, end) of a tile.
struct Stretch {
    u32 tile;
    int k, end;
};

// The stretches of a block (of a cluster), in order.  Whole tiles are handed out in turn.  If they do not come out even, the
// last p.divided ones are cut into equal stretches along k, one for each block: a block begins with the first part of
// a tile that the next one ends, so that no one waits.
struct Work {
    const Product& p;
    u32 block, blocks, whole, next, stop;  // next: of the tiles cut
    u32 head_end, tail_begin;               // units
    u32 turn;
    int state = 0;

    __device__ explicit Work(const Product& problem) : p(problem), block(blockIdx.x / CLUSTER), blocks(gridDim.x / CLUSTER) {
        whole = p.tiles - p.divided;
        const u32 units = p.divided * p.units, from = static_cast<u64>(units) * block / blocks,
                  to = static_cast<u64>(units) * (block + 1) / blocks;
        next = from / max(p.units, 1u), tail_begin = from - next * p.units;
        stop = to / max(p.units, 1u), head_end = to - stop * p.units;
        turn = block;
    }

    // False: no more.
    __device__ bool take(Stretch& stretch) {
        const int unit = CHUNK ? CHUNK : 1;
        if (state == 0) {
            state = 1;
            if (head_end) {
                stretch = {whole + stop, 0, static_cast<int>(head_end) * unit};
                return true;
            }
        }
        if (state == 1) {
            const u32 first = next + (tail_begin > 0);
            if (first < stop) {
                stretch = {whole + stop - 1, 0, p.k_stages};
                --stop;
                return true;
            }
            state = 2;
        }
        if (state == 2) {
            if (turn < whole) {
                stretch = {turn, 0, p.k_stages};
                turn += blocks;
                return true;
            }
            state = 3;
            if (tail_begin) {
                stretch = {whole + next, static_cast<int>(tail_begin) * unit, p.k_stages};
                return true;
            }
        }
        return false;
    }
};

// A warp's 16 rows, by way of shared memory, so that lines of memory are written whole.
__device__ inline void store(const Product& p, const Tile& at, const DNumber (&sums)[WORDS], u8* staged) {
    const u32 warp = threadIdx.x / WARP - 4, lane = threadIdx.x % WARP;
    const u32 base = load::shared_address(staged);
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
        __syncwarp();
        constexpr int LANES = LINE / 16;
#pragma unroll
        for (int i = 0; i < 16 * LANES / WARP; ++i) {
            const u32 r = i * (WARP / LANES) + lane / LANES, unit = lane % LANES;
            const uint4 v = load::load_vector(base + r * LINE + (unit ^ r % 8) * 16);
            const int first = unit * PER_UNIT;
            if (row + static_cast<int>(r) < p.rows && first < width) write(p, at.batch, row + r, at.column + c + first, v);
        }
    }
}

// What a block hands to the next one: each thread's numbers, and a flag for each warp.
constexpr int CONSUMING = CONSUMERS * 128;

__device__ inline uint4* handed(const Product& p, u32 block) {
    return reinterpret_cast<uint4*>(p.room) + static_cast<u64>(block) * (WORDS / 4 * CONSUMING) + (threadIdx.x - 128);
}

__device__ inline u32* flag(const Product& p, u32 block) {
    return static_cast<u32*>(p.flags) + block * (CONSUMERS * 4) + threadIdx.x / WARP - 4;
}

__device__ inline void hand_over(const Product& p, const DNumber (&d)[WORDS]) {
    uint4* const to = handed(p, blockIdx.x);
#pragma unroll
    for (int i = 0; i < WORDS / 4; ++i) to[i * CONSUMING] = four(d + 4 * i);
    __threadfence();
    __syncwarp();
    if (threadIdx.x % WARP == 0) asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag(p, blockIdx.x)) : "memory");
}

__device__ inline void take_over(const Product& p, DNumber (&d)[WORDS]) {
    const u32 from = blockIdx.x - CLUSTER;
    if (threadIdx.x % WARP == 0) {
        u32 set = 0;
        for (u32 i = 0; !set; ++i) {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(set) : "l"(flag(p, from)) : "memory");
#ifdef SPIN
            if (i > SPIN) __trap();
#endif
        }
        *flag(p, from) = 0;  // for the next launch
    }
    __syncwarp();
    const uint4* const at = handed(p, from);
#pragma unroll
    for (int i = 0; i < WORDS / 4; ++i) unpack(__ldcg(at + i * CONSUMING), d + 4 * i);
}

__device__ inline void consume(const Product& p, BlockMemory& memory, u32 rank) {
    const u32 warp = __shfl_sync(ALL, threadIdx.x / WARP - 4, 0);
    const Operands operands(memory.stages, warp / 4);
    Place place;
    Work work(p);
    for (Stretch stretch; work.take(stretch);) {
        const Tile at = locate<GROUP>(p, stretch.tile, rank);
        DNumber sums[WORDS];
        if constexpr (CHUNK == 0) {
            DWord d[D_WORDS];
            chain(d, operands, memory.stages, place, p.k_stages);
#pragma unroll
            for (int i = 0; i < WORDS; ++i) sums[i] = mma::value(d, i);
            store(p, at, sums, memory.results[warp]);
        } else {
            if (stretch.k) take_over(p, sums);
            else {
#pragma unroll
                for (int i = 0; i < WORDS; ++i) sums[i] = -0.0f;  // -0 + x = x, also for x = -0
            }
            for (int k = stretch.k; k < stretch.end; k += CHUNK) {
                DWord d[D_WORDS];
                chain(d, operands, memory.stages, place, min(CHUNK, stretch.end - k));
#pragma unroll
                for (int i = 0; i < WORDS; ++i) sums[i] = finish::add(sums[i], mma::value(d, i));
            }
            if (stretch.end < p.k_stages) hand_over(p, sums);
            else store(p, at, sums, memory.results[warp]);
        }
    }
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) matmul(const __grid_constant__ Product p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ u8 raw[];
    BlockMemory& memory = aligned<BlockMemory>(raw);
    const u32 rank = CLUSTER > 1 ? load::cluster_rank() : 0;
    if (threadIdx.x == 0) prepare(p, memory.stages);
    __syncthreads();
    if constexpr (CLUSTER > 1) load::sync_cluster();
    if (threadIdx.x < 128) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x < WARP && load::is_elected()) {
            Place place;
            Work work(p);
            for (Stretch stretch; work.take(stretch);)
                ask(p, memory.stages, place, locate<GROUP>(p, stretch.tile, rank), stretch.k, stretch.end, rank);
        }
        __syncwarp();
    } else {
        take_registers<CONSUMER_REGISTERS>();
        consume(p, memory, rank);
    }
    if constexpr (CLUSTER > 1) load::sync_cluster();  // others may still arrive at this block's barriers
#endif
}
