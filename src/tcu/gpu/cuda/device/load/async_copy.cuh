// Asynchronous copies of a few bytes into shared memory (PTX ISA, cp.async). A thread puts its copies into groups and
// waits for its own groups only, in the order in which it has ended them.

#pragma once

#include "device/load/evict_first.cuh"

namespace tcu::load {

// Copies 16 bytes to an address in shared memory; or zeros, without a read.  Below sm_80 they are there at once.
template <bool READ_ONCE = false>
__device__ inline void copy_if(bool any, u32 to, const void* from) {
#if __CUDA_ARCH__ >= 800
    if constexpr (READ_ONCE)
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
                     "r"(any ? 16 : 0), "l"(evict_first_policy())
                     : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(any ? 16 : 0)
                     : "memory");
#else
    const uint4 v = any ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}

// Copies 8 or 16 bytes to an address in shared memory.
template <int COUNT>
__device__ inline void copy_bytes(u32 to, const void* from) {
    static_assert(COUNT == 8 || COUNT == 16, "what a copy may have");
#if __CUDA_ARCH__ >= 800
    if constexpr (COUNT == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
    if constexpr (COUNT == 8) {
        const uint2 v = *static_cast<const uint2*>(from);
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(v.x), "r"(v.y) : "memory");
    } else {
        copy_if(true, to, from);
    }
#endif
}

__device__ inline void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups of this thread but the last LATER ones.
template <u32 LATER>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}

}  // namespace tcu::load
