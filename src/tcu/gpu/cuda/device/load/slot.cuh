// The slot that an index sends a place to.
//
// Compiled with WIDE (1: indices have 64 bits; 0: 32).

#pragma once

#include "device/types/types.cuh"

namespace tcu::load {

#if WIDE
typedef i64 IndexNumber;
#else
typedef int IndexNumber;
#endif

constexpr u32 NOWHERE = ~0u;

// From 0, or NOWHERE.  Negative indices count from the last slot.
__device__ inline u32 slot_of(i64 slot, i64 slots) {
    if (slot < 0) slot += slots;
    return slot >= 0 && slot < slots ? static_cast<u32>(slot) : NOWHERE;
}

__device__ inline u32 slot_at(const void* index, i64 place, i64 slots) {
    return slot_of(static_cast<const IndexNumber*>(index)[place], slots);
}

}  // namespace tcu::load
