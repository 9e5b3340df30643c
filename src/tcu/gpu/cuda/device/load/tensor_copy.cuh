// Copies of boxes of a tensor between memory and shared memory by the copy engine of sm_90 (PTX ISA,
// cp.async.bulk.tensor): what lies outside the tensor is read as zeros.

#pragma once

#include "device/load/bulk_copy.cuh"
#include "device/load/cluster.cuh"

namespace tcu::load {

#include "generated/tensor_copy/TensorMap.inc"

#if BULK
__device__ inline void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The cache policy by which data leave the second cache last.  A kernel that reads and writes more than it holds marks so what
// it reads, though that is read once, and its results to leave first (EARLY): these then go to memory soon and in order.
// 1,048,576 x 256 times 256 x 256 of binary16 took 418 in place of 433 us, 64 columns 108.5 in place of 111; with only the
// results marked nothing changed (H200).
__device__ inline u64 evict_last_policy() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
    return policy;
}

// Called by one thread: starts the copy of the box that begins at these coordinates, the contiguous one first.
// BLOCKS > 1: to the same place of every block in `mask`, whose barriers at the same place it completes.
template <int BLOCKS = 1, bool LATE = false>
__device__ inline void start_box(void* to, const TensorMap& map, int x, int y, int z, u64* arrived, u32 mask = 0) {
    if constexpr (BLOCKS > 1)
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
            "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(arrived)), "h"(static_cast<u16>(mask))
            : "memory");
    else if constexpr (LATE)
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
            "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
            "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(arrived)), "l"(evict_last_policy())
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
            "[%5];" ::"r"(shared_address(to)),
            "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(arrived))
            : "memory");
}

// Called by one thread: starts the copy of a box from shared memory; what lies outside the tensor is left out.
template <bool EARLY = false>
__device__ inline void store_box(const TensorMap& map, int x, int y, int z, u32 from) {
    if constexpr (EARLY)
        asm volatile(
            "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], %5;" ::"l"(&map),
            "r"(x), "r"(y), "r"(z), "r"(from), "l"(evict_first_policy())
            : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
                     "r"(y), "r"(z), "r"(from)
                     : "memory");
}

// Arrives at the barrier of another block of the cluster.  Not with release at the cluster's scope, which waits for
// memory: products of 4096 x 4096 x 4096 had 0.71 of cuBLAS's speed, without it 1.03 (H200).
__device__ inline void arrive_at(u64* arrived, u32 rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(arrived)),
        "r"(rank)
        : "memory");
}
#endif

}  // namespace tcu::load
