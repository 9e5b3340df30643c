// The gradients of a row's results, beside the numbers that a thread keeps in registers.
//
// Compiled with
//   GIVEN_WIDE     1: they are of binary32; 0: of ELEMENT
//   GIVEN_ALIGNED  1: each row of them begins at a multiple of 16 bytes

#pragma once

#include "device/reduce/rows_in_registers.cuh"

namespace tcu::reduce {

#if GIVEN_WIDE
typedef u32 GivenCode;
__device__ inline Working of_given(GivenCode code) { return __uint_as_float(code); }
#else
typedef Code GivenCode;
__device__ inline Working of_given(GivenCode code) { return real(code); }
#endif

// Of the places of a vector in a row.
struct Gradients {
    GivenCode codes[PER_LOAD];

    __device__ void load(const GivenCode* row, RowIndex offset, RowIndex length) {
        if constexpr (GIVEN_ALIGNED && !PARTIAL) {
            constexpr int PER_GRANULE = 16 / sizeof(GivenCode);
#pragma unroll
            for (int j = 0; j < PER_LOAD; j += PER_GRANULE) {
                const uint4 words = __ldg(reinterpret_cast<const uint4*>(row + offset + j));
                memcpy(codes + j, &words, sizeof words);
            }
        } else {
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                codes[j] = offset + j >= 0 && offset + j < length ? __ldg(row + offset + j) : GivenCode(0);
        }
    }

    __device__ Working number(int j) const { return of_given(codes[j]); }
};

}  // namespace tcu::reduce
