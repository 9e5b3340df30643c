// A barrier of the blocks of a launch: what some have written, others read behind it.
//
// All blocks run at the same time, which a cooperative launch makes certain (CUDA C++ Programming Guide, "Grid
// Synchronization"): else those that wait would keep the others from starting.  NVRTC has no header of cooperative
// groups at hand, and their barrier has all blocks wait; here a block that has nothing to do behind it arrives and ends.
//
// A word in memory counts arrivals at all barriers of a launch, one after another: a block arrives at the next one only
// after it has waited at this one, so that the count reaches the sum of all arrivals up to a barrier when the last of
// its blocks has come, and not before.  The last block that waits puts the word back to zero, which the next launch
// needs; no other block looks at it any more.

#pragma once

#include "device/grid/slots.cuh"

namespace tcu::grid {

// Called by all threads of a block: what they have written is seen by those that have waited for it.
__device__ inline void arrive(u64* arrived) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    atomicAdd(arrived, u64(1));
}

// Called by all threads of a block: waits until so many have arrived since the launch began.
__device__ inline void wait_for_arrivals(const u64* arrived, u64 count) {
    if (threadIdx.x == 0) {
        while (look(arrived) < count) {}
        __threadfence();
    }
    __syncthreads();
}

}  // namespace tcu::grid
