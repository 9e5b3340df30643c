// Blocks of a cluster, which run at the same time and reach each other's shared memory (sm_90).

#pragma once

#include "device/load/bulk_copy.cuh"

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

// Stores a word in another block's shared memory, where `own` lies in this one's, and tells the barrier there of 8 bytes that have come.
// Nobody waits for what else the thread has written, as blocks do that meet: of norms of 131,072 numbers warps waited a third of
// their time for that (H200).
__device__ inline void tell_block(u64* own, u64* arrived, u32 rank, u64 word) {
    asm volatile("{ .reg .b32 there, barrier; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 barrier, %1, %2;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], %3, [barrier]; }" ::"r"(shared_address(own)),
                 "r"(shared_address(arrived)), "r"(rank), "l"(word)
                 : "memory");
}
#endif

}  // namespace tcu::load
