// Blocks of a cluster, which run at the same time and reach each other's shared memory (sm_90).

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

#if __CUDA_ARCH__ >= 900
__device__ inline u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The two halves of that, for what other blocks have not to see: that all are there.
__device__ inline void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void wait_for_cluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// Stores a word in another block's shared memory, where `own` lies in this one's.
__device__ inline void store_in_block(u64* own, u32 rank, u64 word) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.b64 [there], %2; }" ::"r"(static_cast<u32>(__cvta_generic_to_shared(own))),
                 "r"(rank), "l"(word)
                 : "memory");
}
#endif

}  // namespace tcu::load
