// Data that are read once leave the second cache first, so that results stay there for who needs them next.  To write some
// to memory between reads takes longer than their bytes: 17 us for 17 MB, of which the bytes are 4, so that 2^30 numbers of
// binary16 along the first axis of (256, 4194304) took 474 in place of 496 us (H200).
//
// Not where results are more than have room: in rows of 16 such numbers took 572 in place of 541 us.  Nor for scans, which
// write as much as they read (2^29 numbers of binary32: 1,091 in place of 1,066 us).

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

// Of loads and copies from memory (PTX ISA, createpolicy).
__device__ inline u64 evict_first_policy() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}

}  // namespace tcu::load
