// Hints to the compiler: values that are the same in all lanes of a warp, and values that it must not recompute.

#pragma once

#include "device/warp/warp_reduce.cuh"

namespace tcu::warp {

// The same value, hidden from the compiler: it keeps the register and does not recompute the value at each use.
__device__ inline u32 opaque(u32 v) {
    asm volatile("" : "+r"(v));
    return v;
}

// The same value, for which all lanes must agree.  After a reduction the compiler knows that the value is uniform: it
// computes what depends on it once for the warp, allows for no divergent branch, and does not recompute it in every
// turn.
__device__ inline u32 uniform(u32 v) { return reduce_or(v); }
__device__ inline u64 uniform(u64 v) {
    return static_cast<u64>(uniform(static_cast<u32>(v >> 32))) << 32 | uniform(static_cast<u32>(v));
}
__device__ inline i64 uniform(i64 v) { return static_cast<i64>(uniform(static_cast<u64>(v))); }

}  // namespace tcu::warp
