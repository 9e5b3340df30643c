// How a long sum is cut into chunks (tcu/plan/variants.py).

#pragma once

#include "types.cuh"

// Loads of a thread in a chunk, where a block loads `together` numbers at a time.
__device__ inline i64 loads_of(i64 length, i64 together) {
    i64 loads = 8;
    while (length > (1 << 13) * loads * together) loads *= 2;
    return loads;
}

__device__ inline i64 chunks_of(i64 length, i64 together) {
    const i64 chunk = loads_of(length, together) * together;
    return (length + chunk - 1) / chunk;
}
