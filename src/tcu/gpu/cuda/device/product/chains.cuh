// Chains of wgmma over the stages of a ring, and the way of their results to memory.  The macros of
// device/product/stages.cuh and
//   CHUNK       stages of k in a chain of MMAs; 0: all of k
//   LINKED      chains that run into each other; 0: each ends before the next begins
//   FACTORS, RESULT as in device/finish/factors.cuh

#pragma once

#include "device/mma/wgmma.cuh"
#include "device/product/stages.cuh"

namespace tcu::product {

using mma::DNumber;
using mma::DWord;

constexpr int WORDS = COLUMNS / 2;  // a thread's share of a tile
constexpr int D_WORDS = WORDS / mma::PER_WORD;
constexpr int STAGED_BYTES = RESULT == BINARY16 || RESULT == BFLOAT16 ? 2 : 4;  // of a result on its way to memory
constexpr int PER_UNIT = 16 / STAGED_BYTES;

static_assert(LINE == mma::SWIZZLED && ATOM == mma::ATOM, "one layout");

#if __CUDA_ARCH_FEAT_SM90_ALL

struct Operands {
    u64 a, b;  // descriptors in the first stage

    __device__ Operands(const Stages& stages, u32 group)
        : a(mma::descriptor(load::shared_address(stages.a[0] + group * (A_K ? 64 * LINE : BLOCK)), A_K, BLOCK)),
          b(mma::descriptor(load::shared_address(stages.b[0]), B_K, BLOCK)) {}
};

// Starts the MMAs of the next stage, of a kept B those of stage k; they go on with the chain in d, or begin one.
__device__ inline void start(DWord (&d)[D_WORDS], const Operands& x, Stages& stages, const Place& place, bool goes_on,
                             u32 k = 0) {
    load::wait_for_copy(&stages.full[place.stage], place.odd);
    mma::hold(d);
    mma::fence();
    const u64 a = x.a + place.stage * (A_BYTES >> 4), b = x.b + (KEPT_B ? k : place.stage) * (B_BYTES >> 4);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        mma::multiply(d, a + i * mma::next_k(A_K), b + i * mma::next_k(B_K), goes_on || i > 0);
    mma::commit();
    mma::hold(d);
}

// d = the chain over the next `length` stages.
__device__ inline void chain(DWord (&d)[D_WORDS], const Operands& x, Stages& stages, Place& place, int length) {
    u32 last = 0;
    for (int k = 0; k < length; ++k, place.advance()) {
        start(d, x, stages, place, k > 0, k);
        mma::wait<1>();
        if (k > 0) release(stages, last);
        last = place.stage;
    }
    mma::wait<0>();
    mma::hold(d);
    release(stages, last);
}

constexpr int CHAINS = LINKED ? 2 : 1;  // at a time

// sums += a chain's.
__device__ inline void add(DNumber (&sums)[WORDS], const DWord (&d)[D_WORDS]) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) sums[i] = finish::add(sums[i], mma::value(d, i));
}

// sums += those of N chains of CHUNK stages each: one is added while the MMAs of the next one run.  All in one line of code, as
// the compiler waits for MMAs where a branch might come between them and their registers.
template <int N>
__device__ inline void add_linked(DNumber (&sums)[WORDS], DWord (&d)[CHAINS][D_WORDS], const Operands& x, Stages& stages, Place& place) {
    u32 last = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int s = 0; s < CHUNK; ++s) {
            start(d[i % 2], x, stages, place, s > 0);
            mma::wait<1>();
            if (s == 0 && i > 0) mma::hold(d[(i + 1) % 2]);
            if (s > 0 || i > 0) release(stages, last);
            last = place.stage;
            place.advance();
            if (s == 0 && i > 0) add(sums, d[(i + 1) % 2]);
        }
    }
    mma::wait<0>();
    mma::hold(d[(N + 1) % 2]);
    release(stages, last);
    add(sums, d[(N + 1) % 2]);
}

// sums = those of the chains over stages [k, end), added in order; `chunk` stages each, which is CHUNK unless that is 0.
__device__ inline void add_chains(DNumber (&sums)[WORDS], const Operands& x, Stages& stages, Place& place, int k, int end, int chunk) {
    // One array for all: the compiler keeps registers that begin without a value free from the kernel's start on.  With an
    // array for each way, 64 x 128 sums of a warpgroup went to memory, and a product took half as long again.
    DWord d[CHAINS][D_WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) sums[i] = -0.0f;  // -0 + x = x, also for x = -0
    if constexpr (LINKED > 2)
        for (; k + LINKED * CHUNK <= end; k += LINKED * CHUNK) add_linked<LINKED>(sums, d, x, stages, place);
    if constexpr (LINKED > 0)
        for (; k + 2 * CHUNK <= end; k += 2 * CHUNK) add_linked<2>(sums, d, x, stages, place);
    for (; k < end; k += chunk) {
        chain(d[0], x, stages, place, min(chunk, end - k));
        add(sums, d[0]);
    }
}

// Sums as they wait in memory for others of the launch.
__device__ inline u32 bits(float x) { return __float_as_uint(x); }
__device__ inline u32 bits(int x) { return x; }
__device__ inline void set(float& x, u32 bits) { x = __uint_as_float(bits); }
__device__ inline void set(int& x, u32 bits) { x = bits; }

__device__ inline uint4 four(const DNumber* d) { return make_uint4(bits(d[0]), bits(d[1]), bits(d[2]), bits(d[3])); }

__device__ inline void unpack(uint4 v, DNumber* d) { set(d[0], v.x), set(d[1], v.y), set(d[2], v.z), set(d[3], v.w); }

__device__ inline void store_vector(u32 to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

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
