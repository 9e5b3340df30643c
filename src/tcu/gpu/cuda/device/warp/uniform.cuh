// Hints to the compiler: what is the same in all lanes of a warp, and what is not to be computed anew.

#pragma once

#include "device/warp/warp_reduce.cuh"

namespace tcu::warp {

// What the compiler does not compute anew where it is used.
__device__ inline u32 opaque(u32 v) {
    asm volatile("" : "+r"(v));
    return v;
}

// A number that all lanes have, and the compiler knows it: what depends on it is computed once for the warp, takes no
// branch that lanes might take alone, and is not worked out anew in every turn.
__device__ inline u32 uniform(u32 v) { return reduce_or(v); }
__device__ inline u64 uniform(u64 v) {
    return static_cast<u64>(uniform(static_cast<u32>(v >> 32))) << 32 | uniform(static_cast<u32>(v));
}
__device__ inline i64 uniform(i64 v) { return static_cast<i64>(uniform(static_cast<u64>(v))); }

}  // namespace tcu::warp
