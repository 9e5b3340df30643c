// The fragment of C and D that one thread holds.
//
// PTX ISA, "Matrix fragments for mma.m16n8k16" and its siblings, and the D fragment of wgmma.m64nNk*: it is the same
// for every shape here.  The rows of a warp come in groups of 8. In each group, lane l holds row l / 4 and the
// neighbouring columns 2 (l % 4) and 2 (l % 4) + 1. Elements of binary16 lie in pairs in one register, the lower
// column in the lower half.
//
// OUTPUT is an unsigned type as wide as an element of D, WORD the register that holds it.

#pragma once

#include "device/load/matrix.cuh"

namespace tcu::mma {

constexpr int OUTPUTS_PER_WORD = sizeof(WORD) / sizeof(OUTPUT);

template <int WORDS>
struct OutputFragment {
    static constexpr int ELEMENTS = WORDS * OUTPUTS_PER_WORD;
    WORD words[WORDS];

    static __device__ i64 row(const load::MatrixTile& t, int first_row, int i) {
        return t.row + first_row + threadIdx.x % 32 / 4 + 8 * (i / 2);
    }
    static __device__ i64 column(const load::MatrixTile& t, int i) { return t.column + 2 * (threadIdx.x % 4) + i % 2; }

    __device__ void load_c(const load::Problem& p, const load::MatrixTile& t, int first_row) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = 0;
#pragma unroll
        for (int i = 0; i < ELEMENTS; ++i) {
            const WORD bits = load::load<OUTPUT>(p.c, t.c, row(t, first_row, i), column(t, i), p.m, p.n);
            words[i / OUTPUTS_PER_WORD] |= bits << (8 * sizeof(OUTPUT) * (i % OUTPUTS_PER_WORD));
        }
    }

    __device__ void store_d(const load::Problem& p, const load::MatrixTile& t, int first_row) const {
#pragma unroll
        for (int i = 0; i < ELEMENTS; ++i) {
            const i64 r = row(t, first_row, i), c = column(t, i);
            const WORD bits = words[i / OUTPUTS_PER_WORD] >> (8 * sizeof(OUTPUT) * (i % OUTPUTS_PER_WORD));
            if (r < p.m && c < p.n) static_cast<OUTPUT*>(p.d)[t.d + r * p.n + c] = static_cast<OUTPUT>(bits);
        }
    }
};

}  // namespace tcu::mma
