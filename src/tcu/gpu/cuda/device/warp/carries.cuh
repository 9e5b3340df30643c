// Carries between the limbs of a number, a limb for each lane.

#pragma once

#include "device/types/types.cuh"

namespace tcu::warp {

struct Carries {
    u32 into;  // bit k: whether 1 is carried into limb k
    u32 out;   // what is carried out of the last limb
};

// Of limbs that carry 1 on of themselves (`generate`), or that carry 1 on if 1 comes in (`propagate`, all ones), and
// never both.  A run of limbs that propagate carries on as a sum of bits does: one addition of 64 bits goes through all.
__device__ inline Carries carries(u32 generate, u32 propagate, u32 in) {
    const u64 sum = static_cast<u64>(propagate) + (static_cast<u64>(generate) << 1 | in);
    return {static_cast<u32>(sum) ^ propagate, static_cast<u32>(sum >> 32)};
}

}  // namespace tcu::warp
