// What nobody reads again (PTX ISA, discard).

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

constexpr u32 FORGOTTEN = 128;  // bytes at a time, from a multiple of as many on

// They need not be written to memory.
__device__ inline void forget(const void* line) {
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
}

}  // namespace tcu::load
