// D = A·B for a tall A and a B that stays in registers: the tensor call of the (m, l)-TCU machine.
//
// A warp loads its columns of B once, and multiplies the rows of a strip of A by them, one after another.  Each entry
// of D is one chain of MMAs from zero, with ascending k, as mma.cu computes it: the bits are the same.
//
// Compiled with the macros of mma.cu and these:
//   INNER    k of the whole product
//   WIDTH    tiles of TILE_N columns that a warp holds of B
//   STORED   type of the elements of A and B in memory
//   NARROW   how one of them becomes an INPUT, a function of mma/narrow.cuh: as_stored, to_binary16, to_bfloat16, to_tf32,
//            to_byte
//   ADJACENT 1: neighbouring k of A are neighbours in memory, and those of each word are aligned

#include "device/mma/narrow.cuh"

using namespace tcu;

constexpr int DEPTH = (INNER + TILE_K - 1) / TILE_K;

#include "generated/tall/Tall.inc"

struct alignas(mma::INPUTS_PER_WORD * sizeof(STORED)) NeighbouringK {
    STORED element[mma::INPUTS_PER_WORD];
};

// Whether k lies inside the product.  The compiler knows that it does if TILE_K divides INNER.
__device__ inline bool inside(int k) { return INNER % TILE_K == 0 || k < INNER; }

template <bool FULL>
__device__ inline WORD word_of_tall(const load::Problem& p, i64 base, i64 row0, int k0, int w) {
    const STORED* a = static_cast<const STORED*>(p.a.data) + base;
    const i64 row = row0 + mma::fragment_row(w);
    const int k = k0 + mma::fragment_k(w / mma::ROW_GROUPS);
    WORD bits = 0;
    if (!FULL && row >= p.m) return bits;
    if constexpr (ADJACENT && INNER % mma::INPUTS_PER_WORD == 0) {
        if (inside(k)) {
            const NeighbouringK n = *reinterpret_cast<const NeighbouringK*>(a + row * p.a.row_stride + k);
#pragma unroll
            for (int i = 0; i < mma::INPUTS_PER_WORD; ++i)
                bits |= static_cast<WORD>(mma::NARROW(n.element[i])) << (8 * sizeof(INPUT) * i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < mma::INPUTS_PER_WORD; ++i)
            if (inside(k + i))
                bits |= static_cast<WORD>(mma::NARROW(a[row * p.a.row_stride + (k + i) * p.a.column_stride]))
                        << (8 * sizeof(INPUT) * i);
    }
    return bits;
}

__device__ inline WORD word_of_resident(const load::Problem& p, i64 base, i64 column0, int k0, int w) {
    const STORED* b = static_cast<const STORED*>(p.b.data) + base;
    const i64 column = column0 + threadIdx.x % WARP / 4;
    const int k = k0 + mma::fragment_k(w);
    WORD bits = 0;
#pragma unroll
    for (int i = 0; i < mma::INPUTS_PER_WORD; ++i)
        if (column < p.n && inside(k + i))
            bits |= static_cast<WORD>(mma::NARROW(b[(k + i) * p.b.row_stride + column * p.b.column_stride]))
                    << (8 * sizeof(INPUT) * i);
    return bits;
}

struct alignas(2 * sizeof(OUTPUT)) Pair {
    OUTPUT element[2];
};

__device__ inline OUTPUT element(const WORD (&d)[mma::D_WORDS], int i) {
    return static_cast<OUTPUT>(d[i / mma::OUTPUTS_PER_WORD] >> (8 * sizeof(OUTPUT) * (i % mma::OUTPUTS_PER_WORD)));
}

template <bool FULL>
__device__ inline void multiply_rows(const load::Problem& p, const load::MatrixTile& t, i64 row0,
                                     const WORD (&b)[DEPTH][WIDTH][mma::B_WORDS]) {
    WORD d[WIDTH][mma::D_WORDS] = {};
#pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
        WORD a[mma::A_WORDS];
#pragma unroll
        for (int w = 0; w < mma::A_WORDS; ++w) a[w] = word_of_tall<FULL>(p, t.a, row0, step * TILE_K, w);
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) mma::mma(d[w], a, b[step][w]);
    }
    OUTPUT* out = static_cast<OUTPUT*>(p.d) + t.d;
    const bool pairs = p.n % 2 == 0;  // then every pair of columns is aligned
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) {
        const i64 column = t.column + w * TILE_N + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int i = 0; i < mma::D_WORDS * mma::OUTPUTS_PER_WORD; i += 2) {
            const i64 row = row0 + threadIdx.x % WARP / 4 + 8 * (i / 2);
            if ((!FULL && row >= p.m) || column >= p.n) continue;
            const Pair pair = {{element(d[w], i), element(d[w], i + 1)}};
            OUTPUT* place = out + row * p.n + column;
            if (pairs) {
                *reinterpret_cast<Pair*>(place) = pair;
            } else {
                place[0] = pair.element[0];
                if (column + 1 < p.n) place[1] = pair.element[1];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) tall_product(const __grid_constant__ Tall tall) {
    const load::Problem& p = tall.problem;
    const i64 strips = (p.m + tall.strip - 1) / tall.strip;
    const i64 groups = (p.n + WIDTH * TILE_N - 1) / (WIDTH * TILE_N);
    const i64 warps = static_cast<i64>(gridDim.x) * (THREADS / WARP);
    i64 task = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    for (; task < p.tiles; task += warps) {  // the same for all lanes of a warp, as mma.sync needs
        // Neighbouring warps take the groups of columns of one strip, whose rows they share in the cache.
        load::MatrixTile t = {task / groups % strips * tall.strip, task % groups * (WIDTH * TILE_N), 0, 0, 0, 0};
        i64 member = task / groups / strips;
        t.d = member * p.m * p.n;
        for (int i = static_cast<int>(p.batch_dimensions) - 1; i >= 0; --i) {
            const i64 index = member % p.batch_extents[i];
            member /= p.batch_extents[i];
            t.a += index * p.a.batch_strides[i];
            t.b += index * p.b.batch_strides[i];
        }
        WORD b[DEPTH][WIDTH][mma::B_WORDS];
#pragma unroll
        for (int step = 0; step < DEPTH; ++step)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w)
#pragma unroll
                for (int i = 0; i < mma::B_WORDS; ++i)
                    b[step][w][i] = word_of_resident(p, t.b, t.column + w * TILE_N, step * TILE_K, i);
        const i64 last = t.row + tall.strip < p.m ? t.row + tall.strip : p.m;
        for (i64 row = t.row; row < last; row += TILE_M) {
            if (row + TILE_M <= p.m)
                multiply_rows<true>(p, t, row, b);
            else
                multiply_rows<false>(p, t, row, b);
        }
    }
}
