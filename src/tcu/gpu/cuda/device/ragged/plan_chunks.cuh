// How the plan of a long sum cuts it into chunks, as loads_of in tcu/plan/variants.py does, with its constants.

#pragma once

#include "device/types/types.cuh"

namespace tcu::ragged {

#include "generated/sums/plan_chunks.inc"

// A thread has LEAST_LOADS · 2^d loads in a chunk.  Returns d, for a segment of `length` numbers, of which a block
// loads `together` numbers at a time.
__device__ inline int doublings_of(i64 length, i64 together) {
    int doublings = 0;
    while (length > (MOST_CHUNKS * LEAST_LOADS << doublings) * together) ++doublings;
    return doublings;
}

__device__ inline i64 loads_of(i64 length, i64 together) { return LEAST_LOADS << doublings_of(length, together); }

// The chunks of a segment that is not empty.
__device__ inline i64 chunks_of(i64 length, i64 together) {
    const u64 last = static_cast<u64>(length - 1) >> doublings_of(length, together);
    return static_cast<i64>(last / static_cast<u64>(LEAST_LOADS * together)) + 1;
}

}  // namespace tcu::ragged
