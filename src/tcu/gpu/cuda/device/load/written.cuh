// An array that blocks have written in this launch: contiguous, from a multiple of 16 bytes on.
//
// The loads of array.cuh promise that nothing writes in this launch what they read (ld.global.nc), and a multiprocessor
// may hold lines in L1 from before.  These loads ask the second cache, which all multiprocessors have in common.  Who
// reads has waited at a barrier behind those that wrote (grid/barrier.cuh).

#pragma once

#include "device/types/element.cuh"

namespace tcu::load {

struct Written {
    const void* data;
    i64 n;
};

__device__ inline Code element(const Written& a, i64 i) {
    const Code* const from = static_cast<const Code*>(a.data) + i;
    Code code;
#if ELEMENT == BINARY64
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(code) : "l"(from) : "memory");
#elif ELEMENT == BINARY32
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(code) : "l"(from) : "memory");
#else
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(code) : "l"(from) : "memory");
#endif
    return code;
}

// Vector v, of which all elements must be in the array.
__device__ inline Vector whole_vector(const Written& a, i64 v) {
    Vector r;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "l"(static_cast<const uint4*>(a.data) + v)
                 : "memory");
    return r;
}

__device__ inline i64 whole_vectors(const Written& a) { return a.n / PER_LOAD; }

}  // namespace tcu::load
