// Bulk copies between memory and shared memory by the copy engine of sm_90 and later, while the threads work (PTX
// ISA, cp.async.bulk and mbarrier).

#pragma once

#include "device/load/evict_first.cuh"

namespace tcu::load {

#if __CUDA_ARCH__ >= 900
#define BULK 1
#else
#define BULK 0
#endif

constexpr u32 LINE = 128;  // bytes of memory

#if BULK
__device__ inline u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

__device__ inline u32 load_word(u32 address) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
    return v;
}

__device__ inline void load_pair(u32& low, u32& high, u32 address) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address));
}

__device__ inline uint4 load_vector(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
    return v;
}

// True in one lane of the warp, which must be converged; the compiler knows that it is one lane.
__device__ inline bool is_elected() {
    u32 elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected;
}

// Called by one thread: prepares a barrier for `count` arrivals, of threads or of copies.
__device__ inline void prepare(u64* arrived, u32 count = 1) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(arrived)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(u64* arrived) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(arrived)) : "memory");
}

// Called by one thread before the copies: how many bytes the barrier waits for in all.
__device__ inline void expect(u32 bytes, u64* arrived) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes)
                 : "memory");
}

// Called by one thread.  Addresses and size are multiples of 16 bytes.  EVICT_FIRST: the data are read once
// (load/evict_first.cuh).
template <bool EVICT_FIRST = false>
__device__ inline void start_copy(void* to, const void* from, u32 bytes, u64* arrived) {
    if constexpr (EVICT_FIRST)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                shared_address(to)),
            "l"(from), "r"(bytes), "r"(shared_address(arrived)), "l"(evict_first_policy())
            : "memory");
    else
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(to)),
                     "l"(from), "r"(bytes), "r"(shared_address(arrived))
                     : "memory");
}

template <bool EVICT_FIRST = false>
__device__ inline void copy_bulk(void* to, const void* from, u32 bytes, u64* arrived) {
    expect(bytes, arrived);
    start_copy<EVICT_FIRST>(to, from, bytes, arrived);
}

// Has the second cache fetch these bytes, but for parts of 16 at either end.
__device__ inline void fetch_ahead(const void* from, u32 bytes) {
    const u64 first = reinterpret_cast<u64>(from), begin = first + 15 & ~u64(15), end = first + bytes & ~u64(15);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(begin), "r"(static_cast<u32>(end - begin)) : "memory");
}

// Makes what this thread has written to shared memory, and what it has waited for, visible to bulk copies that it
// starts afterwards.
__device__ inline void release_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Called by one thread: starts a copy from shared memory to memory.  Addresses and size are multiples of 16 bytes.
// EARLY: marked to leave the second cache first (load/tensor_copy.cuh).
template <bool EARLY = false>
__device__ inline void start_store(void* to, const void* from, u32 bytes) {
    if constexpr (EARLY)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
                     "r"(shared_address(from)), "r"(bytes), "l"(evict_first_policy())
                     : "memory");
    else asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes)
                 : "memory");
}

// Makes a group of the stores that the thread has started since the last call.
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all groups of stores but the last PENDING have been read from shared memory, which may then be
// overwritten.
template <int PENDING = 0>
__device__ inline void wait_for_stores() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Whether wait_for_copy would return at once.
__device__ inline bool has_arrived(u64* arrived, u32 odd) {
    u32 done;
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(arrived)), "r"(odd)
        : "memory");
    return done;
}

// Waits until the barrier's phase has ended: all arrivals and bytes of it have come.  `odd` is the phase's parity.
__device__ inline void wait_for_copy(u64* arrived, u32 odd) {
    u32 done = 0;
    while (!done)
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(arrived)), "r"(odd)
            : "memory");
}
#endif

}  // namespace tcu::load
