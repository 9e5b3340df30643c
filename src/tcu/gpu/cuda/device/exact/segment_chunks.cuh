// How a long segment's exact sum is cut into chunks, and the rounding of all its limbs.

#pragma once

#include "device/exact/chunk.cuh"
#include "device/exact/rounding.cuh"

namespace tcu::exact {

#include "generated/exact_segments/CHUNK.inc"
constexpr i64 MOST_LOADS = 128, MANY = 1024;

// Loads of a thread in a chunk: more of them where there would be more than MANY chunks.
__device__ inline i64 exact_loads_of(i64 length) {
    i64 loads = CHUNK_LOADS;
    while (loads < MOST_LOADS && length > MANY * loads * CHUNK_THREADS * PER_LOAD) loads *= 2;
    return loads;
}

__device__ inline i64 exact_chunks_of(i64 length) {
    const i64 chunk = exact_loads_of(length) * CHUNK_THREADS * PER_LOAD;
    return (length + chunk - 1) / chunk;
}

// Called by one thread: rounds what the limbs hold.
__device__ __noinline__ void store_all_limbs(i64* limbs, u64 divisor, void* out, finish::Target target) {
    int first = 0, last = LIMBS - 1;
    while (first < LIMBS - 1 && limbs[first] == 0) ++first;
    while (last > 0 && limbs[last] == 0) --last;
    store_limbs(limbs, first, last, divisor, out, target);
}

}  // namespace tcu::exact
