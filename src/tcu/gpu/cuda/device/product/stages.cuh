// The ring in shared memory between the warp that asks for tiles of A and B and the warpgroups that multiply them, on
// sm_90.
//
//   CONSUMERS   warpgroups that multiply, each 64 rows of a tile
//   COLUMNS     of a tile
//   STAGES      of the ring, each 128 bytes of k
//   CLUSTER     blocks that share tiles: of A, if SHARES_A, and lie side by side; else of B, one below the other
//   A_K, B_K    whether k is contiguous
//   INPUT_BYTES of a number of A and B
//   KEPT_B      stages of a B that all tiles share, which stays in shared memory: all of k; 0: it comes with each tile
//   SEGMENTS    whether segments of rows have a matrix each (device/product/tiles.cuh)

#pragma once

#include "device/finish/factors.cuh"
#include "device/load/tensor_copy.cuh"

namespace tcu::product {

#include "generated/matmul/Product.inc"

constexpr int LINE = 128, ATOM = 8 * LINE;  // bytes of k in a stage, and of a block of the copy engine's swizzle
constexpr int ROWS = 64 * CONSUMERS, STAGE_K = LINE / INPUT_BYTES;
constexpr int BOXES = INPUT_BYTES == 8 ? 4 : 1;  // along k, of a stage
constexpr int BLOCK = STAGE_K * LINE;            // bytes of 64 numbers of m or n where these are contiguous
constexpr int B_BLOCKS = (COLUMNS + 63) / 64;
constexpr int A_BYTES = ROWS * LINE, B_BYTES = (B_K ? COLUMNS : 64 * B_BLOCKS) * LINE;

struct Stages {
    u8 a[STAGES][A_BYTES];
    u8 b[KEPT_B ? KEPT_B : STAGES][B_BYTES];
    u64 full[STAGES], empty[STAGES];
};

struct Tile {
    int row, column, batch;
    int end;  // of the rows of its segment
};

// Where rows end that belong to a tile.
__device__ inline int rows_end(const Product& p, const Tile& at) { return SEGMENTS ? at.end : p.rows; }

#if __CUDA_ARCH_FEAT_SM90_ALL

// Registers go from the warpgroup that asks to those that multiply.
template <int COUNT>
__device__ inline void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Memory for T at the multiple of 1024 bytes that the swizzle needs.
template <typename T>
__device__ inline T& aligned(u8* raw) {
    return *reinterpret_cast<T*>((reinterpret_cast<u64>(raw) + ATOM - 1) & ~(ATOM - 1ull));
}

// Called by one thread.
__device__ inline void prepare(const Product& p, Stages& stages) {
    load::prefetch_map(p.a);
    load::prefetch_map(p.b);
    for (int i = 0; i < STAGES; ++i) {
        load::prepare(&stages.full[i]);
        load::prepare(&stages.empty[i], CLUSTER * CONSUMERS * 4);
    }
}

// Where one side is in the ring.  Not a load::Turn, with which the machine code of all products is another.
struct Place {
    u32 stage = 0, odd = 0;

    __device__ void advance() {
        if (++stage == STAGES) stage = 0, odd ^= 1;
    }
};

// Asks for this block's part of a stage of one operand: PARTS blocks ask for one each.
template <bool K_MAJOR, int PARTS, int LINES, int BYTES, bool LATE = false>
__device__ inline void ask_for(const load::TensorMap& map, u8* stage, int line, int k, int batch, u32 part, u64* full) {
    constexpr u32 ALL_BLOCKS = (1 << CLUSTER) - 1;
    if constexpr (K_MAJOR) {
        constexpr int OWN = LINES / PARTS;
        for (int i = 0; i < BOXES; ++i)
            load::start_box<PARTS, LATE>(stage + i * (BYTES / BOXES) + part * OWN * (LINE / BOXES), map,
                                   k * STAGE_K + i * (STAGE_K / BOXES), line + part * OWN, batch, full, ALL_BLOCKS);
    } else {
        constexpr int OWN = STAGE_K / PARTS;
        for (int i = 0; i < (LINES + 63) / 64; ++i)
            load::start_box<PARTS, LATE>(stage + i * BLOCK + part * OWN * LINE, map, line + 64 * i, k * STAGE_K + part * OWN, batch,
                                   full, ALL_BLOCKS);
    }
}

// Called by one thread: asks for the stages [k, end) of a tile, perhaps without those of B.
__device__ inline void ask(const Product& p, Stages& stages, Place& place, const Tile& at, int k, int end, u32 rank,
                           bool with_b = true) {
    constexpr int OF_A = SHARES_A ? CLUSTER : 1, OF_B = SHARES_A ? 1 : CLUSTER;  // blocks that ask for a part each
    const u32 a_part = SHARES_A ? rank : 0, b_part = SHARES_A ? 0 : rank;
    const int a_batch = at.batch * p.a_batched, b_batch = at.batch * p.b_batched;
    for (; k < end; ++k, place.advance()) {
        const u32 s = place.stage;
        load::wait_for_copy(&stages.empty[s], place.odd ^ 1);
        u64* const full = &stages.full[s];
        load::expect(with_b ? A_BYTES + B_BYTES : A_BYTES, full);
        ask_for<A_K, OF_A, ROWS, A_BYTES, (KEPT_B > 0)>(p.a, stages.a[s], at.row, k, a_batch, a_part, full);
        if (with_b) ask_for<B_K, OF_B, COLUMNS, B_BYTES>(p.b, stages.b[KEPT_B ? k : s], at.column, k, b_batch, b_part, full);
    }
}

__device__ inline void release(Stages& stages, u32 stage) {
    const u32 lane = threadIdx.x % WARP;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) load::arrive_at(&stages.empty[stage], lane);
    } else {
        if (lane == 0) load::arrive(&stages.empty[stage]);
    }
}

struct TileIndex {
    u32 row, column;
};

// Tiles in groups of TOGETHER rows (of clusters), down the columns: what a wave of blocks reads stays in the second cache.
template <int TOGETHER>
__device__ inline TileIndex turn(u32 rows, u32 columns, u32 tile) {
    const u32 group = TOGETHER * columns, first = tile / group * TOGETHER;
    const u32 height = min(rows - first, static_cast<u32>(TOGETHER));
    tile %= group;
    return {first + tile % height, tile / height};
}

template <int TOGETHER>
__device__ inline Tile locate(const Product& p, u32 tile, u32 rank) {
    const u32 each = p.tile_rows * p.tile_columns, batch = tile / each;
    const auto [row, column] = turn<TOGETHER>(p.tile_rows, p.tile_columns, tile - batch * each);
    return {static_cast<int>(SHARES_A ? row : row * CLUSTER + rank) * ROWS,
            static_cast<int>(SHARES_A ? column * CLUSTER + rank : column) * COLUMNS, static_cast<int>(batch), p.rows};
}

#endif

}  // namespace tcu::product
