// Vectors of a row that begins anywhere, with +0 beyond its ends.
//
// Memory is read in whole granules of 16 bytes, of which every one that is read holds an element of the
// row: no address outside the allocation is touched, and neighbours that come along are masked.

#pragma once

#include "array.cuh"

// The low `bits` bits; 32 or more: all of them; below zero: none.
__device__ inline u32 low_bits(int bits) { return __funnelshift_lc(ALL, 0, max(bits, 0)); }

// Elements `low` to `high` - 1 of the vector stay, the others become +0.
__device__ inline void keep(Vector& v, int low, int high) {
    constexpr int BITS = 8 * sizeof(Code);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v.word[i] &= low_bits(high * BITS - 32 * i) & ~low_bits(low * BITS - 32 * i);
}

// Elements `offset` to `offset` + PER_LOAD - 1 of the row of `length` elements at `row`; the offset may be
// negative.
__device__ inline Vector gathered(const Code* row, i64 length, i64 offset) {
    Vector r;
    r.words = make_uint4(0, 0, 0, 0);
    if (length <= 0 || offset >= length || offset + PER_LOAD <= 0) return r;
    const int low = offset < 0 ? static_cast<int>(-offset) : 0;
    const int high = length - offset < PER_LOAD ? static_cast<int>(length - offset) : PER_LOAD;
#if LAYOUT == ALIGNED
    r.words = read_once(row + offset);
#else
    const u64 address = reinterpret_cast<u64>(row + offset), shift = address % 16, granule = address - shift;
    uint4 a = make_uint4(0, 0, 0, 0), b = a;
    if (granule + 16 > address + low * sizeof(Code)) a = __ldg(reinterpret_cast<const uint4*>(granule));
    if (granule + 16 < address + high * sizeof(Code)) b = __ldg(reinterpret_cast<const uint4*>(granule) + 1);
    u32 w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) r.word[i] = __funnelshift_r(w[i], w[i + 1], (shift & 3) * 8);
#endif
    if (high - low < PER_LOAD) keep(r, low, high);
    return r;
}
