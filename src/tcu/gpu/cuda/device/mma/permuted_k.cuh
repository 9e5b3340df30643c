// Permuted k: for units whose MMA adds all 16 products of a row exactly and rounds once, the order of k in a row does
// not matter.  What matters is only in which row a number is: of a 64-byte chunk, the numbers i with i mod 4 in {0,
// 1}, counted from its first, belong to one row, the others to another.
//
// So a lane reads 16 bytes at an aligned address, by one load in place of three.  Depending on where the chunk begins
// within 8 bytes, each two words become one word of either row.  The bytes of the chunk that lie behind its fourth
// vector take the places of those in its first vector that come before the chunk: they are as many, and belong to the
// same rows.

#pragma once

#include "device/types/element.cuh"

namespace tcu::mma {

// Bytes of two words, chosen by the lower half of `selector`. __byte_perm would clear the selector's upper half
// first.
__device__ inline u32 selected(u32 low, u32 high, u32 selector) {
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(low), "r"(high), "r"(selector));
    return v;
}

// The selector for selected(): which bytes of two words belong to one row, for a 64-byte chunk that begins at `at`.
__device__ inline u32 selector_at(u32 at) { return __funnelshift_r(0x76543210, 0x76543210, at * 4); }

// An aligned vector of a 64-byte chunk as operand A.
__device__ inline Vector in_rows(const Vector& v, u32 selector) {
    Vector x;
#pragma unroll
    for (int word = 0; word < 4; word += 2) {
        x.word[word] = selected(v.word[word], v.word[word + 1], selector);
        x.word[word + 1] = selected(v.word[word + 1], v.word[word], selector);
    }
    return x;
}

// A mask of 64 bits: all from number `bit` on.
__device__ inline u64 bits_from(int bit) {
    u64 v;
    asm("shl.b64 %0, %1, %2;" : "=l"(v) : "l"(~0ull), "r"(bit));
    return v;
}

// Masks the bits of a 64-byte chunk's first aligned vector that belong to the chunk: all from bit `begin` on.
struct OwnBits {
    u32 words[4];

    __device__ explicit OwnBits(int begin) {
        const u64 low = bits_from(begin), high = bits_from(max(begin - 64, 0));
        words[0] = static_cast<u32>(low), words[1] = static_cast<u32>(low >> 32);
        words[2] = static_cast<u32>(high), words[3] = static_cast<u32>(high >> 32);
    }

    // Puts the bytes behind the fourth vector into the rest of the first vector.
    __device__ void complete(Vector& first, const Vector& behind) const {
#pragma unroll
        for (int word = 0; word < 4; ++word)
            first.word[word] = first.word[word] & words[word] | behind.word[word] & ~words[word];
    }
};

}  // namespace tcu::mma
