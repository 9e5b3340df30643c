// Numbers whose lines leave the second cache before others, of memory that the launch may write elsewhere.

#pragma once

#include "device/load/evict_first.cuh"

namespace tcu::load {

// 8 or 16 bytes that are read, or written, once.
__device__ inline uint2 read_first_out(const uint2* from) {
    uint2 v;
    asm volatile("ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;" : "=r"(v.x), "=r"(v.y) : "l"(from), "l"(evict_first_policy()));
    return v;
}

__device__ inline uint4 read_first_out(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from), "l"(evict_first_policy()));
    return v;
}

__device__ inline void write_first_out(uint2* to, uint2 v) {
    asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(to), "r"(v.x), "r"(v.y), "l"(evict_first_policy()) : "memory");
}

__device__ inline void write_first_out(uint4* to, uint4 v) {
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w),
                 "l"(evict_first_policy())
                 : "memory");
}

}  // namespace tcu::load
