// Blocks that wait until others of the same launch have done something.

#pragma once

#include "device/types/types.cuh"

namespace tcu::grid {

// Called by one thread, behind a barrier behind what others wait for.
__device__ inline void arrive(u32* arrived) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(arrived), "r"(1u) : "memory");
}

// Called by one thread: whether COUNT have arrived.  If so, the block sees behind its next barrier what they did.  Whoever asks again and
// again leaves what others have in the first cache, which an acquire empties.
template <u32 COUNT>
__device__ inline bool have_arrived(const u32* arrived) {
    u32 found;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(arrived) : "memory");
    if (found < COUNT) return false;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(arrived) : "memory");
    return true;
}

// Called by all threads of a block.
template <u32 COUNT>
__device__ inline void wait_for_arrivals(const u32* arrived) {
    if (threadIdx.x == 0)
        while (!have_arrived<COUNT>(arrived)) {}
    __syncthreads();
}

// Called by one thread of each of as many blocks, that have waited: the last one puts 0 back, which the next launch needs.
template <u32 COUNT>
__device__ inline void leave(u32* arrived) {
    u32 found;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(found) : "l"(arrived), "r"(1u) : "memory");
    if (found == 2 * COUNT - 1) *arrived = 0;
}

}  // namespace tcu::grid
