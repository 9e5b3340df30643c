// The ring in shared memory between the warp that asks for tiles of A and B and the warpgroups that multiply them, on
// sm_90.
//
//   CONSUMERS   warpgroups that multiply, each 64 rows of a tile
//   COLUMNS     of a tile
//   STAGES      of the ring, each 128 bytes of k
//   CHUNK       stages of k in a chain of MMAs; 0: all of k
//   CLUSTER     blocks, one below the other, that share the tiles of B
//   A_K, B_K    whether k is contiguous
//   INPUT_BYTES of a number of A and B
//   FACTORS, RESULT as in device/finish/factors.cuh

#pragma once

#include "device/finish/factors.cuh"
#include "device/load/tensor_copy.cuh"
#include "device/mma/wgmma.cuh"

namespace tcu::product {

#include "generated/matmul/Product.inc"

constexpr int ROWS = 64 * CONSUMERS, LINE = mma::SWIZZLED, STAGE_K = LINE / INPUT_BYTES;
constexpr int WORDS = COLUMNS / 2;     // a thread's share of a tile
constexpr int BLOCK = STAGE_K * LINE;  // bytes of 64 numbers of m or n where these are contiguous
constexpr int B_BLOCKS = (COLUMNS + 63) / 64;
constexpr int A_BYTES = ROWS * LINE, B_BYTES = (B_K ? COLUMNS : 64 * B_BLOCKS) * LINE;
constexpr int STAGED_BYTES = RESULT == BINARY16 || RESULT == BFLOAT16 ? 2 : 4;  // of a result on its way to memory
constexpr int PER_UNIT = 16 / STAGED_BYTES;

struct Stages {
    u8 a[STAGES][A_BYTES];
    u8 b[STAGES][B_BYTES];
    u64 full[STAGES], empty[STAGES];
};

using mma::DWord;
using mma::DNumber;
constexpr int D_WORDS = WORDS / mma::PER_WORD;

struct Tile {
    int row, column, batch;
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

// Memory for T at the multiple of 1024 bytes that the swizzle needs.
template <typename T>
__device__ inline T& aligned(u8* raw) {
    return *reinterpret_cast<T*>((reinterpret_cast<u64>(raw) + mma::ATOM - 1) & ~(mma::ATOM - 1ull));
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

// Where one side is in the ring.
struct Place {
    u32 stage = 0, odd = 0;

    __device__ void advance() {
        if (++stage == STAGES) stage = 0, odd ^= 1;
    }
};

// Called by one thread: asks for the stages [k, end) of a tile.
__device__ inline void ask(const Product& p, Stages& stages, Place& place, const Tile& at, int k, int end, u32 rank) {
    constexpr int PART = COLUMNS / CLUSTER;  // of a box of B, what this block asks for
    constexpr u32 ALL_BLOCKS = (1 << CLUSTER) - 1;
    const int a_batch = at.batch * p.a_batched, b_batch = at.batch * p.b_batched;
    for (; k < end; ++k, place.advance()) {
        const u32 s = place.stage;
        await(&stages.empty[s], place.odd ^ 1);
        u64* const full = &stages.full[s];
        load::expect(A_BYTES + B_BYTES, full);
        if constexpr (A_K)
            load::start_box(stages.a[s], p.a, k * STAGE_K, at.row, a_batch, full);
        else
            for (int i = 0; i < CONSUMERS; ++i)
                load::start_box(stages.a[s] + i * BLOCK, p.a, at.row + 64 * i, k * STAGE_K, a_batch, full);
        if constexpr (B_K)
            load::start_box<CLUSTER>(stages.b[s] + rank * PART * LINE, p.b, k * STAGE_K, at.column + rank * PART, b_batch,
                                     full, ALL_BLOCKS);
        else
            for (int i = rank; i < B_BLOCKS; i += CLUSTER)
                load::start_box<CLUSTER>(stages.b[s] + i * BLOCK, p.b, at.column + 64 * i, k * STAGE_K, b_batch, full,
                                         ALL_BLOCKS);
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

struct Operands {
    u64 a, b;  // descriptors in the first stage

    __device__ Operands(const Stages& stages, u32 group)
        : a(mma::descriptor(load::shared_address(stages.a[0] + group * (A_K ? 64 * LINE : BLOCK)), A_K, BLOCK)),
          b(mma::descriptor(load::shared_address(stages.b[0]), B_K, BLOCK)) {}
};

// d = the chain over the next `length` stages.
__device__ inline void chain(DWord (&d)[D_WORDS], const Operands& x, Stages& stages, Place& place, int length) {
    u32 last = 0;
    for (int k = 0; k < length; ++k, place.advance()) {
        await(&stages.full[place.stage], place.odd);
        mma::hold(d);
        mma::fence();
        const u64 a = x.a + place.stage * (A_BYTES >> 4), b = x.b + place.stage * (B_BYTES >> 4);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            mma::multiply(d, a + i * mma::next_k(A_K), b + i * mma::next_k(B_K), k > 0 || i > 0);
        mma::commit();
        mma::hold(d);
        mma::wait<1>();
        if (k > 0) release(stages, last);
        last = place.stage;
    }
    mma::wait<0>();
    mma::hold(d);
    release(stages, last);
}

// Sums as they wait in memory for others of the launch.
__device__ inline u32 bits(float x) { return __float_as_uint(x); }
__device__ inline u32 bits(int x) { return x; }
__device__ inline void set(float& x, u32 bits) { x = __uint_as_float(bits); }
__device__ inline void set(int& x, u32 bits) { x = bits; }

__device__ inline uint4 four(const DNumber* d) { return make_uint4(bits(d[0]), bits(d[1]), bits(d[2]), bits(d[3])); }

__device__ inline void unpack(uint4 v, DNumber* d) { set(d[0], v.x), set(d[1], v.y), set(d[2], v.z), set(d[3], v.w); }

__device__ inline void store_pair(u32 to, float low, float high) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(low), "f"(high) : "memory");
}

#define STORE_MATRICES(TRANSPOSED)                                                                                      \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" TRANSPOSED ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),             \
                 "r"(finish::rounded_pair(d[0], d[1])), "r"(finish::rounded_pair(d[2], d[3])), "r"(finish::rounded_pair(d[4], d[5])), "r"(finish::rounded_pair(d[6], d[7]))             \
                 : "memory")

// 16 rows × 16 columns of a warp, rounded, as four 8 × 8 matrices; lane l gives the place of line l % 8 of matrix l / 8.
__device__ inline void store_matrices(u32 to, const float* d) { STORE_MATRICES(""); }
__device__ inline void store_transposed(u32 to, const float* d) { STORE_MATRICES(".trans"); }
#undef STORE_MATRICES

__device__ inline void store_half(u32 to, const float* d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(finish::rounded_pair(d[0], d[1])),
                 "r"(finish::rounded_pair(d[2], d[3]))
                 : "memory");
}

__device__ inline void store_half_transposed(u32 to, const float* d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(finish::rounded_pair(d[0], d[1])),
                 "r"(finish::rounded_pair(d[2], d[3]))
                 : "memory");
}

// 16 bytes of results; the first lies at (row, column) of C.
__device__ inline void write(const Product& p, int batch, i64 row, int column, uint4 v) {
    constexpr int BYTES = RESULT == BINARY64 ? 8 : STAGED_BYTES;
    char* const out = static_cast<char*>(p.c) + batch * p.c_batch_stride + row * p.c_row_stride + static_cast<i64>(column) * BYTES;
    const int there = p.columns - column;
    if (there <= 0) return;
    if constexpr (RESULT == BINARY64) {
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (i < there)
                reinterpret_cast<double*>(out)[i] =
                    INTEGERS && !FACTORS ? static_cast<int>(words[i]) : __uint_as_float(words[i]);
    } else if (p.aligned) {
        *reinterpret_cast<uint4*>(out) = v;
    } else {
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < PER_UNIT; ++i)
            if (i < there) {
                if constexpr (STAGED_BYTES == 4) reinterpret_cast<u32*>(out)[i] = words[i];
                else reinterpret_cast<u16*>(out)[i] = static_cast<u16>(words[i / 2] >> i % 2 * 16);
            }
    }
}
#endif

}  // namespace tcu::product
