// How a long segment's exact sum is cut into parts, one for a warp, and the rounding of all its limbs.

#pragma once

#include "device/exact/chunk.cuh"
#include "device/exact/rounding.cuh"

namespace tcu::exact {

#include "generated/exact_segments/PARTS.inc"

// Elements of a part: more of them where there would be more than MOST_PARTS.
__device__ inline i64 part_of(i64 length) {
    i64 part = LEAST_PART / static_cast<i64>(sizeof(Code));
    while (2 * part <= MOST_PART && length > MOST_PARTS * part) part *= 2;
    return part;
}

__device__ inline i64 parts_of(i64 length) {
    const i64 part = part_of(length);
    return (length + part - 1) / part;
}

// Called by one thread: rounds what the limbs hold.
__device__ __noinline__ void store_all_limbs(i64* limbs, u64 divisor, void* out, finish::Target target) {
    int first = 0, last = LIMBS - 1;
    while (first < LIMBS - 1 && limbs[first] == 0) ++first;
    while (last > 0 && limbs[last] == 0) --last;
    store_limbs(limbs, first, last, divisor, out, target);
}

}  // namespace tcu::exact
