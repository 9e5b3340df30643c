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

// `barrier`, the address of one in that block, is told of the 8 bytes that have come.
__device__ inline void tell_pair(u32 there, u32 barrier, float first, float second) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(there), "f"(first),
                 "f"(second), "r"(barrier)
                 : "memory");
}
#endif

}  // namespace tcu::load
