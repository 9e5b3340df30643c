// Data that are read once are marked to leave the second cache first (evict first), so that results stay there for
// whoever needs them next.  Writing results to memory between reads takes longer than their bytes alone: 17 us for 17
// MB, where the bytes take 4. With this, 2^30 numbers of binary16 along the first axis of (256, 4194304) took 474 in
// place of 496 us (H200).
//
// Do not use it where the results are more than the cache has room for: in rows of 16 such numbers it took 572 in
// place of 541 us.  Nor for scans, which write as much as they read (2^29 numbers of binary32: 1,091 in place of
// 1,066 us).

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

// The cache policy for loads and copies from memory (PTX ISA, createpolicy).
__device__ inline u64 evict_first_policy() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}

}  // namespace tcu::load
