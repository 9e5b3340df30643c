// Words of a lane in shared memory that begin at any element.
//
// Lanes lie 32 bytes or more apart, so the same word of eight lanes has one bank.  Hence they are read and written in as
// few accesses as the place of the first one allows; the lanes of a row agree on it.  Three granules with a selection for
// each word, and results word by word, took 118 cycles of shared memory for a line of 32-bit numbers, shuffles and bulk
// copies included; a copy leaves 111 (kernels/tile_scan.cu).  Of 16-bit ones at odd places: bfloat16 in rows of 999 0.84
// of a copy's speed where first and last halves were written alone and granules read with conflicts, 0.91 with neither
// (H200).

#pragma once

#include "device/types/types.cuh"

namespace tcu::scan {

// How many words are accessed at once, of COUNT ones from place AT on.
__device__ constexpr int step_of(int at, int count) { return at % 4 == 0 && count >= 4 ? 4 : at % 2 == 0 && count >= 2 ? 2 : 1; }

struct WordReads {
    template <int AT, int COUNT>
    __device__ static void go(const u32* from, u32* w) {
        constexpr int STEP = step_of(AT, COUNT);
        if constexpr (STEP == 4) {
            const uint4 v = *reinterpret_cast<const uint4*>(from);
            w[0] = v.x;
            w[1] = v.y;
            w[2] = v.z;
            w[3] = v.w;
        } else if constexpr (STEP == 2) {
            const uint2 v = *reinterpret_cast<const uint2*>(from);
            w[0] = v.x;
            w[1] = v.y;
        } else {
            w[0] = *from;
        }
        if constexpr (COUNT > STEP) go<AT + STEP, COUNT - STEP>(from + STEP, w + STEP);
    }
};

struct WordWrites {
    template <int AT, int COUNT>
    __device__ static void go(u32* to, const u32* w) {
        constexpr int STEP = step_of(AT, COUNT);
        if constexpr (STEP == 4) *reinterpret_cast<uint4*>(to) = make_uint4(w[0], w[1], w[2], w[3]);
        else if constexpr (STEP == 2) *reinterpret_cast<uint2*>(to) = {w[0], w[1]};
        else *to = w[0];
        if constexpr (COUNT > STEP) go<AT + STEP, COUNT - STEP>(to + STEP, w + STEP);
    }
};

// Accesses COUNT words from `at` on.  BYTES: those of which it is a multiple.
template <typename Access, int BYTES, int COUNT, typename Place, typename Word>
__device__ inline void access(Place* at, Word* w) {
    const u32 place = static_cast<u32>(reinterpret_cast<u64>(at)) / 4 % 4;
    if (BYTES <= 4 && place & 1) {
        if (place & 2) Access::template go<3, COUNT>(at, w);
        else Access::template go<1, COUNT>(at, w);
    } else {
        if (BYTES <= 8 && place & 2) Access::template go<2, COUNT>(at, w);
        else Access::template go<0, COUNT>(at, w);
    }
}

// The eight words that begin FIRST words and so many bits behind granules.
template <int FIRST>
__device__ inline void take_words(const u32 (&v)[12], int bits, u32 (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = __funnelshift_r(v[FIRST + i], v[FIRST + i + 1], bits);
}

// With 2 BYTES, all of the granules in which the words lie are read, and up to 16 bytes behind them.
template <int BYTES>
__device__ inline void read_words(const char* at, u32 (&w)[8]) {
    if constexpr (BYTES > 2) {
        access<WordReads, BYTES, 8>(reinterpret_cast<const u32*>(at), w);
    } else {
        const int past = static_cast<int>(reinterpret_cast<u64>(at) % 16), bits = past % 4 * 8;
        const uint4* const from = reinterpret_cast<const uint4*>(at - past);
        // Half of the lanes read the second granule first: the first ones of neighbours lie in only half of the banks.
        const int flip = threadIdx.x / 4 % 2;
        const uint4 a = from[flip], b = from[1 - flip], c = from[2];
        const u32 v[12] = {flip ? b.x : a.x, flip ? b.y : a.y, flip ? b.z : a.z, flip ? b.w : a.w,
                           flip ? a.x : b.x, flip ? a.y : b.y, flip ? a.z : b.z, flip ? a.w : b.w,
                           c.x,              c.y,              c.z,              c.w};
        if (past & 8) {
            if (past & 4) take_words<3>(v, bits, w);
            else take_words<2>(v, bits, w);
        } else {
            if (past & 4) take_words<1>(v, bits, w);
            else take_words<0>(v, bits, w);
        }
    }
}

// What a lane knows of those whose results lie around its own, where results begin at any multiple of 2 bytes.
struct Around {
    u32 before = 0;  // the word before its own
    // Whether it writes the half that shares a word with its first one, and whether another lane writes its last half.
    bool joins = false, is_joined = false;
};

template <int BYTES, int COUNT>
__device__ inline void write_words(char* at, const u32 (&w)[COUNT], const Around& around = {}) {
    if constexpr (BYTES > 2) {
        access<WordWrites, BYTES, COUNT>(reinterpret_cast<u32*>(at), w);
    } else {
        const int odd = static_cast<int>(reinterpret_cast<u64>(at) & 2);
        u32* const to = reinterpret_cast<u32*>(at - odd);
        u32 moved[COUNT];  // to the words there
#pragma unroll
        for (int i = 0; i < COUNT; ++i) moved[i] = __funnelshift_lc(i ? w[i - (i > 0)] : around.before, w[i], 8 * odd);
        if (odd && !around.joins)
            reinterpret_cast<u16*>(to)[1] = static_cast<u16>(w[0]);
        else
            *to = moved[0];
        if (odd && !around.is_joined) reinterpret_cast<u16*>(to)[2 * COUNT] = static_cast<u16>(w[COUNT - 1] >> 16);
        if constexpr (COUNT > 1) access<WordWrites, 4, COUNT - 1>(to + 1, moved + 1);
    }
}

}  // namespace tcu::scan
