// 16-bit numbers become binary64 by moving their bits: 2.5 instructions in place of a conversion, of which a multiprocessor does
// 16 a clock, a quarter of its additions.
//
// The result is the number divided by UP, also for subnormal numbers; inf and NaN become finite.  Sums of such results are the
// sums of the numbers divided by UP, with the same roundings.
//
// Compiled with ELEMENT (types/element.cuh).

#pragma once

#include "device/types/element.cuh"

namespace tcu {

constexpr double UP = ELEMENT == BINARY16 ? 0x1p1008 : 0x1p896;

// The lower or the higher number of a word, divided by UP.
__device__ inline double moved(u32 word, bool higher) {
    constexpr int DOWN = ELEMENT == BINARY16 ? 6 : 3;
    constexpr u32 BITS = ELEMENT == BINARY16 ? 0x81fffc00 : 0x8fffe000;
    return __hiloint2double(static_cast<int>(higher ? word : word << 16) >> DOWN & BITS, 0);
}

}  // namespace tcu
