// Vectors of 16 bytes of a row that begins at any element, with +0 beyond the row's ends.
//
// Memory is read in whole granules of 16 bytes.  Each granule that is read holds at least one element of the row, so
// no address outside the allocation is touched.  Elements that do not belong to the row are masked.

#pragma once

#include "device/load/array.cuh"

namespace tcu::load {

// A mask of the low `bits` bits: all of them from 32 on, none where `bits` is negative.
__device__ inline u32 low_bits(int bits) { return __funnelshift_lc(ALL, 0, max(bits, 0)); }

// Elements `low` to `high` - 1 of the vector stay, the others become +0.
__device__ inline void keep(Vector& v, int low, int high) {
    constexpr int BITS = 8 * sizeof(Code);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v.word[i] &= low_bits(high * BITS - 32 * i) & ~low_bits(low * BITS - 32 * i);
}

// The granules of one vector, as loaded.  Shifting and masking wait for memory, so they are a step of their own: a
// caller asks for all its vectors first and assembles them afterwards.
struct Granules {
    uint4 first, second;  // the second where LAYOUT is SHIFTED, and the vector has elements there
};

// Asks for elements `offset` to `offset` + PER_LOAD - 1 of the row of `length` elements at `row`. The offset may be
// negative.  ALIKE: the lanes of a warp read one row with the same shift, most of them far from its ends; then a
// branch costs less than a selection for each word.  AGAIN: other lanes read the other half of the 32-byte sector, so
// L1 keeps it.
template <bool ALIKE = false, bool AGAIN = false>
__device__ inline Granules ask(const Code* row, i64 length, i64 offset) {
    Granules g;
    g.first = g.second = make_uint4(0, 0, 0, 0);
    const bool any = offset < length && offset + PER_LOAD > 0;
#if LAYOUT == ALIGNED
    if (any) g.first = AGAIN ? __ldg(reinterpret_cast<const uint4*>(row + offset)) : read_once(row + offset);
#else
    const u64 address = reinterpret_cast<u64>(row + offset), granule = address & ~u64(15);
    if (ALIKE && offset >= 0 && offset + 2 * PER_LOAD <= length) {
        g.first = __ldg(reinterpret_cast<const uint4*>(granule));
        g.second = __ldg(reinterpret_cast<const uint4*>(granule) + 1);
        return g;
    }
    const u64 begin = reinterpret_cast<u64>(row), end = reinterpret_cast<u64>(row + length);
    if (any && granule + 16 > begin) g.first = __ldg(reinterpret_cast<const uint4*>(granule));
    if (any && granule + 16 < min(address + 16, end)) g.second = __ldg(reinterpret_cast<const uint4*>(granule) + 1);
#endif
    return g;
}

// The vector from its granules.
template <bool ALIKE = false>
__device__ inline Vector assemble(const Granules& g, const Code* row, i64 length, i64 offset) {
    Vector r;
#if LAYOUT == ALIGNED
    r.words = g.first;
#else
    const u32 shift = reinterpret_cast<u64>(row + offset) % 16;
    u32 w[8] = {g.first.x, g.first.y, g.first.z, g.first.w, g.second.x, g.second.y, g.second.z, g.second.w};
    if (ALIKE) {
#pragma unroll
        for (int skip = 0; skip < 4; ++skip) {
            if (shift / 4 != skip) continue;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                r.word[i] = __funnelshift_r(w[skip + i], w[(skip + i + 1) % 8], (shift & 3) * 8);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) r.word[i] = __funnelshift_r(w[i], w[i + 1], (shift & 3) * 8);
    }
#endif
    if (offset < 0 || offset + PER_LOAD > length) {
        const i64 low = offset < 0 ? -offset : 0, high = length - offset;
        keep(r, static_cast<int>(min(low, i64(PER_LOAD))), static_cast<int>(max(min(high, i64(PER_LOAD)), i64(0))));
    }
    return r;
}

}  // namespace tcu::load
