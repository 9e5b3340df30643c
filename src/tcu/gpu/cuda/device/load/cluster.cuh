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

// What lies in another block's shared memory where `own` lies in this one's, in 8 bytes.
__device__ inline u64 of_block(const u64* own, u32 rank) {
    u64 word;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.b64 %0, [there]; }"
                 : "=l"(word)
                 : "r"(static_cast<u32>(__cvta_generic_to_shared(own))), "r"(rank)
                 : "memory");
    return word;
}
#endif

}  // namespace tcu::load
