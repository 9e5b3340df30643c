// Pairs of numbers to the shared memory of other blocks of a cluster (sm_90).

#pragma once

#include "device/load/cluster.cuh"

namespace tcu::load {

#if __CUDA_ARCH__ >= 900
// The address of another block's shared memory where `own` lies in this one's, and two numbers to there.
__device__ inline u32 address_in_block(const void* own, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(static_cast<u32>(__cvta_generic_to_shared(own))), "r"(rank));
    return there;
}

__device__ inline void store_pair(u32 there, float first, float second) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(first), "f"(second) : "memory");
}
#endif

}  // namespace tcu::load
