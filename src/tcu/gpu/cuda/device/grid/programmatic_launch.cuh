// Programmatic dependent launch: a launch may begin before the one ahead of it in the stream has ended (CUDA C++
// Programming Guide, "Programmatic Dependent Launch"). Where the host does not ask for that, these functions change
// nothing.

#pragma once

#include "device/types/types.cuh"

namespace tcu::grid {

// Lets the next launch begin as soon as all blocks of this one have called this or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the launch ahead has ended and its writes are visible.  If no block calls this, this launch may end
// before that one does.
__device__ inline void wait_for_prior_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tcu::grid
