// Products with triangular matrices of ones, and the scan of totals that they make (tcu/plan/mma_scan.py).
//
// Compiled with the macros of mma/chains.cuh, of which PARTIAL and TOTAL are the accumulator's format, for 16-bit
// elements.  A 16 × 16 matrix of results is two fragments of D: columns 0 to 7 and 8 to 15.

#pragma once

#include "device/mma/chains.cuh"

namespace tcu::mma {

typedef Partial Half;  // eight columns of D

__device__ inline float value(const Binary32Sums& d, int i) { return d.d[i]; }
__device__ inline float value(const Binary16Sums& d, int i) {
    return to_binary32(static_cast<Code>(d.d[i / 2] >> 16 * (i % 2)));
}
__device__ inline void put(Binary32Sums& d, float x, float y) { d.d[0] = d.d[1] = x, d.d[2] = d.d[3] = y; }
__device__ inline void put(Binary16Sums& d, float x, float y) {
    d.d[0] = operand_code(x) * 0x10001u, d.d[1] = operand_code(y) * 0x10001u;
}

__device__ inline void put_all(Binary32Sums& d, float x, float y, float z, float w) {
    d.d[0] = x, d.d[1] = y, d.d[2] = z, d.d[3] = w;
}
__device__ inline void put_all(Binary16Sums& d, float x, float y, float z, float w) {
    d.d[0] = operand_code(x) | static_cast<u32>(operand_code(y)) << 16;
    d.d[1] = operand_code(z) | static_cast<u32>(operand_code(w)) << 16;
}

// An addition outside of the unit, in the accumulator's format.  The sum of two numbers of binary16 in binary32 is
// rounded to binary16 as if it were exact: 24 bits are 2 · 11 + 2.
__device__ inline float plus(float x, float y) {
    const float sum = __fadd_rn(x, y);
    return PARTIAL == BINARY16 ? to_binary32(operand_code(sum)) : sum;
}

__device__ inline Word pair(bool first, bool second) {
    return ones() & ((first ? 0xffff : 0) | (second ? 0xffff0000 : 0));
}

// Ones on and above the diagonal, as operand B of columns 8 · half to 8 · half + 7.
__device__ inline void upper(Word (&b)[B_WORDS], int half) {
    const int lane = threadIdx.x % WARP, column = lane / 4 + 8 * half;
#pragma unroll
    for (int i = 0; i < B_WORDS; ++i) {
        const int k = 2 * (lane % 4) + 8 * i;
        b[i] = pair(k <= column, k + 1 <= column);
    }
}

// Ones below the diagonal, as operand A.
__device__ inline void lower(Word (&a)[A_WORDS]) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i) {
        const int row = lane / 4 + 8 * (i % 2), k = 2 * (lane % 4) + 8 * (i / 2);
        a[i] = pair(k < row, k + 1 < row);
    }
}

__device__ inline Word operand_pair(float x, float y) {
    return operand_code(x) | static_cast<u32>(operand_code(y)) << 16;
}

// Results as operand A of the next product: the fragments agree, so no lane needs another's numbers.
__device__ inline void as_operand(const Half (&d)[2], Word (&a)[A_WORDS]) {
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i)
        a[i] = operand_pair(value(d[i / 2], i % 2 * 2), value(d[i / 2], i % 2 * 2 + 1));
}

// The last column of results as operand B whose columns are all that one.
__device__ inline void last_column(const Half& right, Word (&b)[B_WORDS]) {
    const Word mine = operand_pair(value(right, 1), value(right, 3));  // of lanes 4g + 3: rows g and g + 8
    const int t = threadIdx.x % 4;
    const Word even = __shfl_sync(ALL, mine, 8 * t + 3), odd = __shfl_sync(ALL, mine, 8 * t + 7);
    b[0] = __byte_perm(even, odd, 0x5410);
    b[1] = __byte_perm(even, odd, 0x7632);
}

// A tile in shared memory as operand B of columns 0 to 7, and of 8 to 15: its rows are k.
__device__ inline void load_columns(Word (&b)[2][B_WORDS], const uint4* tile) {
    const int lane = threadIdx.x % WARP, matrix = lane / 8, row = lane % 8;
    const uint4* mine = tile + place_of(2 * (row + 8 * (matrix % 2)) + matrix / 2);
    const u32 from = static_cast<u32>(__cvta_generic_to_shared(mine));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0][0]), "=r"(b[0][1]), "=r"(b[1][0]), "=r"(b[1][1])
                 : "r"(from)
                 : "memory");
}

// The exclusive prefixes of up to 16 runs of up to 16 totals, rounded to the elements' format, by one product with a
// triangle of ones.  `total(run, i)` gives a total, 0 beyond the end; `prefix(run, i, e)` takes what comes before it,
// and `sum(run, s)` the sum of all 16.  All lanes of a warp come here.
template <typename Total, typename Prefix, typename Sum>
__device__ inline void scan_totals(const Total& total, const Prefix& prefix, const Sum& sum) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    Word a[A_WORDS];
#pragma unroll
    for (int i = 0; i < A_WORDS; ++i) {
        const int run = g + 8 * (i % 2), at = 2 * t + 8 * (i / 2);
        a[i] = operand_pair(total(run, at), total(run, at + 1));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Word b[B_WORDS];
        upper(b, half);
        Half d;
        d.multiply(a, b);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int run = g + 8 * (i / 2), at = 8 * half + 2 * t + i % 2;
            if (at < 15)
                prefix(run, at + 1, value(d, i));
            else
                sum(run, value(d, i));
        }
    }
    if (t == 0) {
        prefix(g, 0, 0.0f);
        prefix(g + 8, 0, 0.0f);
    }
}

}  // namespace tcu::mma
