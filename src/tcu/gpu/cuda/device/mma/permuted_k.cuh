// Vectors read where memory's are, and not where numbers begin, for units whose MMA adds the 16 numbers of a row at once.
//
// There the order in a row does not matter, only which row has a number: those at i mod 4 in {0, 1} from a 64-byte chunk's first
// on are in one, the others in another.  So a lane reads 16 bytes where they are aligned, by one load in place of three,
// and by where the 64-byte chunk begins among 8 bytes, each two words become one of either row.  A 64-byte chunk's bytes behind its fourth
// vector take the place of those in its first that come before it: they are as many, and of the same rows.

#pragma once

#include "device/types/element.cuh"

namespace tcu::mma {

// Bytes of two words by a selector in the lower half of a word: __byte_perm would clear its upper half first.
__device__ inline u32 selected(u32 low, u32 high, u32 selector) {
    u32 v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(low), "r"(high), "r"(selector));
    return v;
}

// Which bytes of two words are of one row, of a 64-byte chunk that begins there: for selected().
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

// The bits of two words from that one on.
__device__ inline u64 bits_from(int bit) {
    u64 v;
    asm("shl.b64 %0, %1, %2;" : "=l"(v) : "l"(~0ull), "r"(bit));
    return v;
}

// What of a 64-byte chunk's first vector is its own: all from that bit on.
struct OwnBits {
    u32 words[4];

    __device__ explicit OwnBits(int begin) {
        const u64 low = bits_from(begin), high = bits_from(max(begin - 64, 0));
        words[0] = static_cast<u32>(low), words[1] = static_cast<u32>(low >> 32);
        words[2] = static_cast<u32>(high), words[3] = static_cast<u32>(high >> 32);
    }

    // With what lies behind its fourth vector in place of the rest.
    __device__ void complete(Vector& first, const Vector& behind) const {
#pragma unroll
        for (int word = 0; word < 4; ++word)
            first.word[word] = first.word[word] & words[word] | behind.word[word] & ~words[word];
    }
};

}  // namespace tcu::mma
