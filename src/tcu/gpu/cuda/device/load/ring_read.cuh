// Unaligned reads of 16 bytes from a ring (load/ring.cuh).

#pragma once

#include "device/load/ring.cuh"
#include "device/load/unaligned.cuh"

namespace tcu::load {

// CLOSE: the lanes' positions are not far apart, and they read word by word.  Otherwise they read pairs of words:
// lanes that read 16 bytes each, side by side and word by word, would use only every fourth bank.  COUNT words are
// read where the others do not matter.
template <bool CLOSE, int COUNT = 5, typename Data>
__device__ inline Raw read(const Data& data, u32 at) {
    Raw raw;
    if (CLOSE && ELEMENT != BINARY64) {
        raw.at = at & 3;
        const u32* from = reinterpret_cast<const u32*>(data.at(at & ~3u));
#pragma unroll
        for (int i = 0; i < 5; ++i) raw.words[i] = i < COUNT ? from[i] : 0;
    } else {
        raw.at = at;
        const uint2* from = reinterpret_cast<const uint2*>(data.at(at & ~7u));
#pragma unroll
        for (int i = 0; i < (ELEMENT == BINARY64 ? 2 : 3); ++i) {
            const uint2 words = from[i];
            raw.words[2 * i] = words.x;
            raw.words[2 * i + 1] = words.y;
        }
    }
    return raw;
}

}  // namespace tcu::load
