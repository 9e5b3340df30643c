// Whose turn it is in a ring of buffers that copies fill.

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

// The buffer of what comes next, and the parity of its barriers' phase.
template <int COUNT>
struct Turn {
    int buffer = 0;
    u32 odd = 0;

    __device__ void next(int turns = 1) {
        buffer += turns;
        if (buffer >= COUNT) {
            buffer -= COUNT;
            odd ^= 1;
        }
    }
};

}  // namespace tcu::load
