// Launches that begin before those ahead of them in the stream have ended (CUDA C++ Programming Guide, "Programmatic Dependent
// Launch"); of launches that the host starts in another way, none does.

#pragma once

#include "device/types/types.cuh"

namespace tcu::grid {

// The next launch may begin when all blocks of this one have come here, or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the launch ahead has ended, and what it has written can be seen.  Where no block comes here, this launch may end
// before that one does.
__device__ inline void wait_for_prior_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tcu::grid
