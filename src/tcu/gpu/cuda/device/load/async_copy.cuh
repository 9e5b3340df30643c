// Asynchronous copies of a few bytes into shared memory (PTX ISA, cp.async). A thread puts its copies into groups and
// waits for its own groups only, in the order in which it has ended them.

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of this thread but the last LATER ones.
template <u32 LATER>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

}  // namespace tcu::load
