// Unaligned loads: 16 bytes of elements from any element on, by loads of 8 bytes and a shift.
//
// Loads of 4 bytes need fewer selections for the shift, but lanes that read 16 bytes each then use only every fourth
// bank.  Loads of 16 bytes need twice the selections.

#pragma once

#include "device/types/element.cuh"

namespace tcu::load {

struct Raw {
    u32 words[6];
    u32 at;    // the byte offset from the base; only the bits that the shift depends on matter
    int left;  // elements that count, from there on
};

// The elements from `at` bytes after `base` on; `base` is a multiple of 16 bytes.  Reads 24 bytes from the multiple
// of 8 below.  All of them must be in the array's memory, also where nothing is `left`.
__device__ inline Raw fetch(const char* base, u32 at, int left) {
    Raw r;
    r.left = left;
    r.at = at;
    const char* const from = base + (at & ~7u);
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(r.words[0]), "=r"(r.words[1]) : "l"(from));
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2+8];" : "=r"(r.words[2]), "=r"(r.words[3]) : "l"(from));
    if constexpr (ELEMENT != BINARY64)
        asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2+16];" : "=r"(r.words[4]), "=r"(r.words[5]) : "l"(from));
    return r;
}

// The lowest `bits` of a word: none where `bits` is negative, all from 32 on.
__device__ inline u32 lowest(u32 word, int bits) {
    asm("szext.clamp.u32 %0, %0, %1;" : "+r"(word) : "r"(max(bits, 0)));
    return word;
}

// The same of a vector: all from 128 on.
__device__ inline Vector lowest(Vector v, int bits) {
#pragma unroll
    for (int word = 0; word < 4; ++word) v.word[word] = lowest(v.word[word], bits - 32 * word);
    return v;
}

// The 16 bytes that begin `bits` after the first of six words.  Only the bits of the shift within 8 bytes are looked
// at.
__device__ inline Vector shifted(const u32 (&words)[6], [[maybe_unused]] u32 bits) {
    Vector v;
    if constexpr (ELEMENT == BINARY64) {
#pragma unroll
        for (int i = 0; i < 4; ++i) v.word[i] = words[i];
    } else {
        u32 w[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = bits & 32 ? words[i + 1] : words[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) v.word[i] = ELEMENT == BINARY32 ? w[i] : __funnelshift_r(w[i], w[i + 1], bits);
    }
    return v;
}

// The 16 bytes, not masked.
__device__ inline Vector shifted(const Raw& r) { return shifted(r.words, r.at * 8); }

// The elements that are left, with +0 beyond the last.
__device__ inline Vector aligned(const Raw& r) {
    Vector v = shifted(r);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(Code) == 2)
            v.word[i] = lowest(v.word[i], 16 * r.left - 32 * i);
        else if (i * 4 / static_cast<int>(sizeof(Code)) >= r.left)
            v.word[i] = 0;
    }
    return v;
}

// The same, loaded element by element: no byte is read but those of the elements that are left.
__device__ inline Vector one_by_one(const char* base, u32 at, int left) {
    Vector v;
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) {
        v.codes[i] = 0;
        if (i < left) v.codes[i] = reinterpret_cast<const Code*>(base + at)[i];
    }
    return v;
}

}  // namespace tcu::load
