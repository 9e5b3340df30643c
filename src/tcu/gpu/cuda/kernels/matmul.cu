// C = A·B by wgmma, tiles of C handed to blocks in turn, on sm_90.
//
//   CONSUMERS   warpgroups that multiply, each 64 rows of a tile
//   COLUMNS     of a tile
//   STAGES      of the ring in shared memory, each 128 bytes of k
//   CHUNK       stages of k in a chain of MMAs; 0: all of k
//   CLUSTER     blocks, one below the other, that share the tiles of B
//   A_K, B_K    whether k is contiguous
//   INPUT_BYTES, OUTPUT: BINARY16, BFLOAT16 or BINARY32
//   GROUP       rows of tiles that are finished together

#include "device/load/tensor_copy.cuh"
#include "device/mma/wgmma.cuh"
#include "device/types/options.cuh"

using namespace tcu;

namespace {

#include "generated/matmul/Product.inc"

constexpr int ROWS = 64 * CONSUMERS, LINE = mma::SWIZZLED, STAGE_K = LINE / INPUT_BYTES;
constexpr int WORDS = COLUMNS / 2;  // a thread's share of a tile
constexpr int BLOCK = STAGE_K * LINE;  // bytes of 64 numbers of m or n where these are contiguous
constexpr int B_BLOCKS = (COLUMNS + 63) / 64;
constexpr int A_BYTES = ROWS * LINE, B_BYTES = (B_K ? COLUMNS : 64 * B_BLOCKS) * LINE;
constexpr int OUT_BYTES = OUTPUT == BINARY32 ? 4 : 2;
constexpr int OUT_COLUMNS = LINE / OUT_BYTES;  // of a warp's staged results

struct Memory {
    u8 a[STAGES][A_BYTES];
    u8 b[STAGES][B_BYTES];
    u8 results[CONSUMERS * 4][16 * LINE];
    u64 full[STAGES], empty[STAGES];
};

#if __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void await(u64* barrier, u32 odd) {
#ifdef SPIN
    for (int i = 0; !load::has_arrived(barrier, odd); ++i)
        if (i > SPIN) __trap();
#else
    load::wait_for_copy(barrier, odd);
#endif
}

struct Tile {
    int row, column, batch;
};

// Tiles in groups of GROUP rows (of clusters), down the columns: what a wave of blocks reads stays in the second cache.
__device__ inline Tile locate(const Product& p, u32 tile, u32 rank) {
    const u32 each = p.tile_rows * p.tile_columns, batch = tile / each;
    tile -= batch * each;
    const u32 group = GROUP * p.tile_columns, first = tile / group * GROUP;
    const u32 height = min(p.tile_rows - first, (u32)GROUP);
    tile %= group;
    return {static_cast<int>((first + tile % height) * CLUSTER + rank) * ROWS, static_cast<int>(tile / height) * COLUMNS,
            static_cast<int>(batch)};
}

struct Place {
    u32 stage = 0, odd = 0;
    __device__ void advance() {
        if (++stage == STAGES) stage = 0, odd ^= 1;
    }
};

__device__ inline void produce(const Product& p, Memory& memory) {
    const u32 rank = CLUSTER > 1 ? load::cluster_rank() : 0;
    Place place;
    for (u32 tile = blockIdx.x / CLUSTER; tile < p.tiles; tile += gridDim.x / CLUSTER) {
        const Tile at = locate(p, tile, rank);
        for (int k = 0; k < p.k_stages; ++k, place.advance()) {
            const u32 s = place.stage;
            await(&memory.empty[s], place.odd ^ 1);
            u64* const full = &memory.full[s];
            load::expect(A_BYTES + B_BYTES, full);
            if constexpr (A_K)
                load::start_box(memory.a[s], p.a, k * STAGE_K, at.row, at.batch * p.a_batched, full);
            else
                for (int i = 0; i < CONSUMERS; ++i)
                    load::start_box(memory.a[s] + i * BLOCK, p.a, at.row + 64 * i, k * STAGE_K, at.batch * p.a_batched, full);
            constexpr int PART = COLUMNS / CLUSTER;  // this block's share of B's box
            if constexpr (B_K)
                load::start_box<CLUSTER>(memory.b[s] + rank * PART * LINE, p.b, k * STAGE_K, at.column + rank * PART,
                                         at.batch * p.b_batched, full, (1 << CLUSTER) - 1);
            else
                for (int i = rank; i < B_BLOCKS; i += CLUSTER)
                    load::start_box<CLUSTER>(memory.b[s] + i * BLOCK, p.b, at.column + 64 * i, k * STAGE_K,
                                             at.batch * p.b_batched, full, (1 << CLUSTER) - 1);
        }
    }
}

__device__ inline u32 pack(float low, float high) {
    u32 both;
    if constexpr (OUTPUT == BFLOAT16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// A warp's 16 rows, by way of shared memory, so that lines of memory are written whole.
__device__ inline void store(const Product& p, const Tile& at, const float (&d)[WORDS], u8* staged) {
    const u32 warp = threadIdx.x / WARP - 4, lane = threadIdx.x % WARP;
    const u32 base = load::shared_address(staged);
    const int row = at.row + warp * 16;
    char* const out = static_cast<char*>(p.c) + (i64)at.batch * p.c_batch_stride + (i64)row * p.c_row_stride;
#pragma unroll
    for (int c = 0; c < COLUMNS; c += OUT_COLUMNS) {
        __syncwarp();
        const int width = COLUMNS - c < OUT_COLUMNS ? COLUMNS - c : OUT_COLUMNS;
        if constexpr (OUTPUT == BINARY32) {
#pragma unroll
            for (int j = 0; j < width; j += 8) {
                const int i = (c + j) / 2;
                const u32 unit = j / 4 + lane % 4 / 2, r = lane / 4, to = base + r * LINE + (unit ^ r) * 16 + lane % 2 * 8;
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(d[i]), "f"(d[i + 1]) : "memory");
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 8 * LINE), "f"(d[i + 2]), "f"(d[i + 3]) : "memory");
            }
        } else {
#pragma unroll
            for (int j = 0; j < width; j += 16) {
                const int i = (c + j) / 2;
                const u32 r = lane % 16, unit = j / 8 + lane / 16, to = base + r * LINE + (unit ^ r % 8) * 16;
                if (j + 8 < width)
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                                 "r"(pack(d[i], d[i + 1])), "r"(pack(d[i + 2], d[i + 3])), "r"(pack(d[i + 4], d[i + 5])),
                                 "r"(pack(d[i + 6], d[i + 7]))
                                 : "memory");
                else
                    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to),
                                 "r"(pack(d[i], d[i + 1])), "r"(pack(d[i + 2], d[i + 3]))
                                 : "memory");
            }
        }
        __syncwarp();
        constexpr int LANES = LINE / 16;
#pragma unroll
        for (int i = 0; i < 16 * LANES / WARP; ++i) {
            const u32 r = i * (WARP / LANES) + lane / LANES, unit = lane % LANES;
            const uint4 v = load::load_vector(base + r * LINE + (unit ^ r % 8) * 16);
            const int first = at.column + c + unit * (16 / OUT_BYTES);
            if (row + (int)r < p.m && first < p.n && unit * (16 / OUT_BYTES) < width)
                *reinterpret_cast<uint4*>(out + r * p.c_row_stride + (i64)first * OUT_BYTES) = v;
        }
    }
}

__device__ inline void release(Memory& memory, u32 stage) {
    const u32 lane = threadIdx.x % WARP;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) load::arrive_at(&memory.empty[stage], lane);
    } else {
        if (lane == 0) load::arrive(&memory.empty[stage]);
    }
}

__device__ inline void consume(const Product& p, Memory& memory) {
    const u32 group = __shfl_sync(ALL, threadIdx.x / 128 - 1, 0);
    const u32 rank = CLUSTER > 1 ? load::cluster_rank() : 0;
    const u32 warp = __shfl_sync(ALL, threadIdx.x / WARP - 4, 0);
    const u64 a = mma::descriptor(load::shared_address(memory.a[0] + (A_K ? group * 64 * LINE : group * BLOCK)), A_K, BLOCK);
    const u64 b = mma::descriptor(load::shared_address(memory.b[0]), B_K, BLOCK);
    Place place;
    for (u32 tile = blockIdx.x / CLUSTER; tile < p.tiles; tile += gridDim.x / CLUSTER) {
        const Tile at = locate(p, tile, rank);
        float d[WORDS];
        const auto chain = [&](int length) {
            u32 last = 0;
            for (int k = 0; k < length; ++k, place.advance()) {
                await(&memory.full[place.stage], place.odd);
                mma::hold(d);
                mma::fence();
                const u64 a_now = a + place.stage * (A_BYTES >> 4), b_now = b + place.stage * (B_BYTES >> 4);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    mma::multiply(d, a_now + i * mma::next_k(A_K), b_now + i * mma::next_k(B_K), k > 0 || i > 0);
                mma::commit();
                mma::hold(d);
                if (k > 0) {
                    mma::wait<1>();
                    release(memory, last);
                }
                last = place.stage;
            }
            mma::wait<0>();
            mma::hold(d);
            release(memory, last);
        };
        if constexpr (CHUNK == 0) {
            chain(p.k_stages);
            store(p, at, d, memory.results[warp]);
        } else {
            float sums[WORDS];
#pragma unroll
            for (int i = 0; i < WORDS; ++i) sums[i] = -0.0f;  // -0 + x = x, also for x = -0
            for (int k = 0; k < p.k_stages; k += CHUNK) {
                chain(min(CHUNK, p.k_stages - k));
#pragma unroll
                for (int i = 0; i < WORDS; ++i) sums[i] = __fadd_rn(sums[i], d[i]);
            }
            store(p, at, sums, memory.results[warp]);
        }
    }
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) matmul(const __grid_constant__ Product p) {
#if __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ u8 raw[];
    Memory& memory = *reinterpret_cast<Memory*>((reinterpret_cast<u64>(raw) + mma::ATOM - 1) & ~(mma::ATOM - 1ull));
    if (threadIdx.x == 0) {
        load::prefetch_map(p.a);
        load::prefetch_map(p.b);
        for (int i = 0; i < STAGES; ++i) {
            load::prepare(&memory.full[i]);
            load::prepare(&memory.empty[i], CLUSTER * CONSUMERS * 4);
        }
    }
    __syncthreads();
    if constexpr (CLUSTER > 1) load::sync_cluster();
    if (threadIdx.x < 128) {
        mma::give_registers<CONSUMERS == 2 ? 40 : 32>();
        if (threadIdx.x < WARP && load::is_elected()) produce(p, memory);
        __syncwarp();
    } else {
        mma::take_registers<CONSUMERS == 2 ? 232 : 160>();
        consume(p, memory);
    }
    if constexpr (CLUSTER > 1) load::sync_cluster();  // others may still arrive at this block's barriers
#endif
}
