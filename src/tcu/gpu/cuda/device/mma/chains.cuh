// A warp's group: CHAIN tiles, reduced by chained MMAs with a matrix of ones; a closing MMA then adds up their DOTS
// partial sums (tcu/plan/plan.py, MmaStep).
//
// The numbers are a load::Array, or a load::Written one, which is contiguous whatever LAYOUT says.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh), and
//   THREADS  of a block: the plan's B
//   CHAIN    the plan's R
//   TILE     ROWS or COLUMNS: which numbers of a tile a dot product takes
//   PARTIAL  format of the partial sums: BINARY16, BINARY32 or BINARY64
//   TOTAL    format of the closing sum
//
// The tile is operand A of A·1, whatever its layout: row d of D is dot product d, in all columns.  Fragments: PTX
// ISA, "Matrix fragments for mma.m16n8k16 with floating point type", "... mma.m16n8k8", "... mma.m8n8k4 with .f64
// floating point type". Lane 4g + t holds, of operand A, rows g and g + 8 and, of k, the pairs 2t and 2t + 8 (16
// bits), the numbers t and t + 4 (TF32) or t (binary64); of operand B the same k in column g; and of D the rows g and
// g + 8.

#pragma once

#include "device/load/array.cuh"
#include "device/load/written.cuh"

namespace tcu::mma {

#define ROWS 0
#define COLUMNS 1

#if ELEMENT == BINARY64
typedef double Word;
constexpr int K = 4, DOTS = 8;
constexpr int A_WORDS = 1, B_WORDS = 1;
__device__ inline Word ones() { return 1.0; }
#else
typedef u32 Word;
constexpr int K = ELEMENT == BINARY32 ? 8 : 16, DOTS = 16;
constexpr int A_WORDS = 4, B_WORDS = 2;
__device__ inline Word ones() { return ELEMENT == BINARY16 ? 0x3c003c00 : ELEMENT == BFLOAT16 ? 0x3f803f80 : 0x3f800000; }
#endif

constexpr int LINKS = DOTS / K;  // closing MMAs in a row

#if ELEMENT == BINARY16
#define OPERANDS "f16.f16"
#elif ELEMENT == BFLOAT16
#define OPERANDS "bf16.bf16"
#else
#define OPERANDS "tf32.tf32"
#endif
#if ELEMENT == BINARY32 || __CUDA_ARCH__ < 800
#define SHAPE "m16n8k8"
#else
#define SHAPE "m16n8k16"
#endif

// D of one MMA, which the next one continues; it starts from zero.
struct Binary32Sums {
    float d[4] = {};

    __device__ void multiply(const u32 (&a)[4], const u32 (&b)[2]) {
#if ELEMENT == BINARY32 || __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." OPERANDS ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                     "{%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else  // Turing has half of it: k from 0 to 7, then from 8 to 15
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." OPERANDS ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                         "{%0, %1, %2, %3};"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                         : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
    }

    __device__ float number() const { return d[0]; }
    __device__ float lower() const { return d[2]; }  // of row g + 8
};

struct Binary16Sums {
    u32 d[2] = {};

    __device__ void multiply(const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned." SHAPE ".row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(d[0]), "+r"(d[1])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned." SHAPE ".row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                         : "+r"(d[0]), "+r"(d[1])
                         : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
    }

    __device__ float number() const { return to_binary32(static_cast<u16>(d[0])); }
    __device__ float lower() const { return to_binary32(static_cast<u16>(d[1])); }
};

struct Binary64Sums {
    double d[2] = {};

    __device__ void multiply(const double (&a)[1], const double (&b)[1]) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d[0]), "+d"(d[1])
                     : "d"(a[0]), "d"(b[0]));
    }

    __device__ double number() const { return d[0]; }
};

template <int FORMAT>
struct SumsOf;
template <>
struct SumsOf<BINARY16> { typedef Binary16Sums Type; };
template <>
struct SumsOf<BINARY32> { typedef Binary32Sums Type; };
template <>
struct SumsOf<BINARY64> { typedef Binary64Sums Type; };
typedef SumsOf<PARTIAL>::Type Partial;
typedef SumsOf<TOTAL>::Type Total;

// A number as the next MMA takes it, rounded to nearest.  From binary32 to TF32 the unit itself cuts off bits.
#if ELEMENT == BINARY64
__device__ inline Code operand_code(double number) { return __double_as_longlong(number); }
#elif ELEMENT == BINARY32
__device__ inline Code operand_code(float number) { return __float_as_uint(number); }
#else
__device__ inline Code operand_code(float number) {
    u16 code;
#if ELEMENT == BINARY16
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(code) : "f"(number));
#else
    asm("{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b16 %0, h; }" : "=h"(code) : "f"(number));
#endif
    return code;
}
#endif

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16

// Lane l's vector of a tile is half a line: line l / 2, numbers from 8 · (l % 2) on.
template <bool WHOLE, typename Numbers>
__device__ inline void load_tile(const Numbers& x, i64 tile, Word (&a)[A_WORDS]) {
    const i64 v = tile * WARP + threadIdx.x % WARP;
    Vector r;
    if (WHOLE || v < load::whole_vectors(x)) {
        r = load::whole_vector(x, v);
    } else {
#pragma unroll
        for (int i = 0; i < PER_LOAD; ++i) {
            const i64 at = v * PER_LOAD + i;
            r.codes[i] = at < x.n ? load::element(x, at) : Code(0);
        }
    }
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i) a[i] = r.word[i];
}

template <typename Numbers>
__device__ inline bool is_whole(const Numbers& x, i64 tiles) { return tiles * WARP <= load::whole_vectors(x); }

// Where a tile's vector lies in shared memory.  The eight vectors of one matrix are two apart.  In every other eight
// vectors, neighbours change places: then the eight vectors of a matrix, and the eight that a quarter of the warp
// stores, lie in different banks.
__device__ inline int place_of(int vector) { return vector ^ (vector >> 3 & 1); }

// From lines to fragments: operand A's words are the 8 × 8 matrices (rows 0 to 7, k 0 to 7), (rows 8 to 15, k 0 to
// 7), (rows 0 to 7, k 8 to 15), (rows 8 to 15, k 8 to 15), with pairs of k in a word.  Where the tile's lines are k,
// the matrices are transposed on the way.  Vector v lies at place_of(v) ^ turned.
__device__ inline void load_matrices(Word (&a)[A_WORDS], const uint4* tile, int turned) {
    const int lane = threadIdx.x % WARP, matrix = lane / 8, row = lane % 8;
    const int lower = TILE == COLUMNS ? matrix / 2 : matrix % 2, right = TILE == COLUMNS ? matrix % 2 : matrix / 2;
    const uint4* mine = tile + (place_of(2 * (row + 8 * lower) + right) ^ turned);
    const u32 from = static_cast<u32>(__cvta_generic_to_shared(mine));
#if TILE == COLUMNS
#define TRANSPOSED ".trans"
#else
#define TRANSPOSED ""
#endif
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANSPOSED ".shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from)
                 : "memory");
}

__device__ inline void arrange(Word (&a)[A_WORDS], int buffer) {
    __shared__ uint4 staged[2][THREADS / WARP][WARP];
    uint4* mine = staged[buffer][threadIdx.x / WARP];
    mine[place_of(threadIdx.x % WARP)] = make_uint4(a[0], a[1], a[2], a[3]);
    // One barrier is enough: before a buffer is written again, all lanes have met at the other's.
    __syncwarp();
    load_matrices(a, mine, 0);
}

__device__ inline u32 dots_of_lane(const Binary32Sums& s) {
    return operand_code(s.d[0]) | static_cast<u32>(operand_code(s.d[2])) << 16;
}
__device__ inline u32 dots_of_lane(const Binary16Sums& s) { return __byte_perm(s.d[0], s.d[1], 0x5410); }

// The partial sums as operand B: dot product d takes the place of k = d.  A lane takes 2t and 2t + 1 from the lanes
// that have them, with 2t + 8 and 2t + 9 in the upper halves.
__device__ inline void close(const Partial& partial, int, Word (&b)[B_WORDS]) {
    const u32 dots = dots_of_lane(partial);
    const int t = threadIdx.x % 4;
    const u32 even = __shfl_sync(ALL, dots, 8 * t), odd = __shfl_sync(ALL, dots, 8 * t + 4);
    b[0] = __byte_perm(even, odd, 0x5410);
    b[1] = __byte_perm(even, odd, 0x7632);
}

#else

// Numbers as wide as a register need no exchange: each lane loads those of its own fragment.
template <bool WHOLE, typename Numbers>
__device__ inline void load_tile(const Numbers& x, i64 tile, Word (&a)[A_WORDS]) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i) {
        const int dot = lane / 4 + 8 * (i % 2), k = lane % 4 + 4 * (i / 2);
        const i64 at = tile * DOTS * K + (TILE == COLUMNS ? k * DOTS + dot : dot * K + k);
        const Code code = WHOLE || at < x.n ? load::element(x, at) : Code(0);
#if ELEMENT == BINARY64
        a[i] = __longlong_as_double(code);
#else
        a[i] = code;
#endif
    }
}

template <typename Numbers>
__device__ inline bool is_whole(const Numbers& x, i64 tiles) { return tiles * DOTS * K <= x.n; }

__device__ inline void arrange(Word (&)[A_WORDS], int) {}

// The partial sums as operand B of the closing MMA number `link`: dot product link · K + k in the place of k.
__device__ inline void close(const Partial& partial, int link, Word (&b)[B_WORDS]) {
    const int t = threadIdx.x % 4;
#if ELEMENT == BINARY64
    b[0] = __shfl_sync(ALL, partial.d[0], 16 * link + 4 * t);
#else
    const u32 dot = operand_code(partial.d[2 * link]);
    b[0] = __shfl_sync(ALL, dot, 4 * t);
    b[1] = __shfl_sync(ALL, dot, 4 * t + 16);
#endif
}

#endif

template <bool WHOLE, int COUNT, typename Numbers>
__device__ inline void add_tiles(const Numbers& x, i64 tile, Partial& partial) {
    Word a[COUNT][A_WORDS], b[B_WORDS];
#pragma unroll
    for (int i = 0; i < B_WORDS; ++i) b[i] = ones();
#pragma unroll
    for (int i = 0; i < COUNT; ++i) load_tile<WHOLE>(x, tile + i, a[i]);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) arrange(a[i], static_cast<int>((tile + i) & 1));
#pragma unroll
    for (int i = 0; i < COUNT; ++i) partial.multiply(a[i], b);
}

template <bool WHOLE, typename Numbers>
__device__ inline void add_chain(const Numbers& x, i64 tile, Partial& partial) {
    // Loads in flight: more would leave room for fewer blocks per multiprocessor.  At the end of the array, one after
    // another.
    constexpr int MOST = !WHOLE || LAYOUT == STRIDED ? 1 : LAYOUT == SHIFTED ? 2 : ELEMENT == BINARY64 ? 8 : 4;
    constexpr int TOGETHER = CHAIN < MOST ? CHAIN : MOST, REST = CHAIN % TOGETHER;
#pragma unroll 1
    for (int link = 0; link < CHAIN - REST; link += TOGETHER) add_tiles<WHOLE, TOGETHER>(x, tile + link, partial);
    if constexpr (REST > 0) add_tiles<WHOLE, REST>(x, tile + CHAIN - REST, partial);
}

// The group's sum, in every lane.  All lanes of a warp come here.
template <typename Numbers>
__device__ inline auto sum_of_group(const Numbers& x, i64 group) {
    Partial partial;
    if (is_whole(x, (group + 1) * CHAIN))
        add_chain<true>(x, group * CHAIN, partial);
    else
        add_chain<false>(x, group * CHAIN, partial);
    Total total;
    Word a[A_WORDS], b[B_WORDS];
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i) a[i] = ones();
#pragma unroll
    for (int link = 0; link < LINKS; ++link) {
        close(partial, link, b);
        total.multiply(a, b);
    }
    return total.number();
}

}  // namespace tcu::mma
