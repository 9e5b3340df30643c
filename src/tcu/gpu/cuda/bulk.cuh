// Copies of whole pieces of memory into shared memory by the copy engine of sm_90 and later, while the threads
// work (PTX ISA, cp.async.bulk and mbarrier).

#pragma once

#include "types.cuh"

#if __CUDA_ARCH__ >= 900
#define BULK 1
#else
#define BULK 0
#endif

#if BULK
__device__ inline u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

__device__ inline void load_pair(u32& low, u32& high, u32 address) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address));
}

// By one thread.
__device__ inline void prepare(u64* arrived) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(arrived)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// By one thread, before the copies: the bytes of all that the barrier waits for.
__device__ inline void expect(u32 bytes, u64* arrived) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(arrived)), "r"(bytes)
                 : "memory");
}

// By one thread; addresses and size are multiples of 16 bytes.
__device__ inline void start_copy(void* to, const void* from, u32 bytes, u64* arrived) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(arrived))
                 : "memory");
}

__device__ inline void copy_bulk(void* to, const void* from, u32 bytes, u64* arrived) {
    expect(bytes, arrived);
    start_copy(to, from, bytes, arrived);
}

// Until the copy has arrived that is the barrier's even or odd one.
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
