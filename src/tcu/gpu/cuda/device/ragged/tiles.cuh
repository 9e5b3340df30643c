// Sums of tiles: pieces of memory of 512 bytes, which the lanes of a warp read side by side, as a warp of the plan
// does.

#pragma once

#include "device/ragged/chunks64.cuh"

namespace tcu::ragged {

#if ELEMENT == BINARY32 || ELEMENT == BINARY64

// COUNT tiles, which lanes `step` and up give: each tile's place in the source, and how many numbers it has from
// there on.  Each lane gets its part of the sum of every tile.
template <bool WHOLE, typename Source, int COUNT>
__device__ inline void sum_tiles(const Source& source, u32 at, int left, int step, double (&sums)[COUNT]) {
    const auto left_of = [&](int i) {
        return WHOLE ? PER_LOAD : __shfl_sync(ALL, left, step + i) - static_cast<int>(threadIdx.x) % WARP * PER_LOAD;
    };
    decltype(source.fetch_of_tile(0, 0)) loaded[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) loaded[i] = source.fetch_of_tile(__shfl_sync(ALL, at, step + i), left_of(i));
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        Vector v = Source::vector(loaded[i]);
        if constexpr (!WHOLE && !Source::CAREFUL) v = load::lowest(v, left_of(i) * 8 * static_cast<int>(sizeof(Code)));
        sums[i] = sum_of(v);
    }
}

#else

// 16-bit numbers are added up by MMAs of 64-byte chunks.
template <bool WHOLE, typename Source, int COUNT>
void sum_tiles(const Source&, u32, int, int, double (&)[COUNT]) = delete;

#endif

}  // namespace tcu::ragged
