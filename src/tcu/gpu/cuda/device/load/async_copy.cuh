// Copies of a few bytes into shared memory while the threads work (PTX ISA, cp.async): each thread waits for its own, in
// groups, in the order in which it has ended them.

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// For all but the last LATER groups.
template <u32 LATER>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

}  // namespace tcu::load
