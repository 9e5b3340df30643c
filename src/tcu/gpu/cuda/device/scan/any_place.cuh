// Words of a lane in shared memory that begin at any element.
//
// Lanes lie 32 bytes or more apart, so the same word of eight lanes or more has one bank.  Hence they are read and written
// in as few accesses as the place of the first one allows; the lanes of a row agree on it.

#pragma once

#include "device/types/types.cuh"

namespace tcu::scan {

template <int N>
struct Number {
    static constexpr int value = N;
};

// Calls f with how many words `at` lies behind a granule of 16 bytes.  BYTES: those of which it is a multiple.
template <int BYTES, typename F>
__device__ inline void by_place(const void* at, F f) {
    const u32 place = static_cast<u32>(reinterpret_cast<u64>(at)) / 4 % 4;
    if (BYTES == 16) f(Number<0>());
    else if (BYTES == 8) place ? f(Number<2>()) : f(Number<0>());
    else if (place & 2) place & 1 ? f(Number<3>()) : f(Number<2>());
    else place & 1 ? f(Number<1>()) : f(Number<0>());
}

// How many words are read or written at once, of COUNT ones from place AT on.
__device__ constexpr int step_of(int at, int count) { return at % 4 == 0 && count >= 4 ? 4 : at % 2 == 0 && count >= 2 ? 2 : 1; }

template <int AT, int COUNT>
__device__ inline void read_in_steps(const u32* from, u32* w) {
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
    if constexpr (COUNT > STEP) read_in_steps<AT + STEP, COUNT - STEP>(from + STEP, w + STEP);
}

template <int AT, int COUNT>
__device__ inline void write_in_steps(u32* to, const u32* w) {
    constexpr int STEP = step_of(AT, COUNT);
    if constexpr (STEP == 4) *reinterpret_cast<uint4*>(to) = make_uint4(w[0], w[1], w[2], w[3]);
    else if constexpr (STEP == 2) *reinterpret_cast<uint2*>(to) = {w[0], w[1]};
    else *to = w[0];
    if constexpr (COUNT > STEP) write_in_steps<AT + STEP, COUNT - STEP>(to + STEP, w + STEP);
}

// BYTES: those of which `at` is a multiple.  With 2, the word behind the last one is read, too.
template <int BYTES, int COUNT>
__device__ inline void read_words(const char* at, u32 (&w)[COUNT]) {
    if constexpr (BYTES > 2) {
        const u32* const from = reinterpret_cast<const u32*>(at);
        by_place<BYTES>(from, [&](auto place) { read_in_steps<decltype(place)::value, COUNT>(from, w); });
    } else {
        const int odd = static_cast<int>(reinterpret_cast<u64>(at) & 2);
        const u32* const from = reinterpret_cast<const u32*>(at - odd);
        u32 whole[COUNT + 1];
        by_place<4>(from, [&](auto place) { read_in_steps<decltype(place)::value, COUNT + 1>(from, whole); });
#pragma unroll
        for (int i = 0; i < COUNT; ++i) w[i] = __funnelshift_r(whole[i], whole[i + 1], 8 * odd);
    }
}

template <int BYTES, int COUNT>
__device__ inline void write_words(char* at, const u32 (&w)[COUNT]) {
    if constexpr (BYTES > 2) {
        u32* const to = reinterpret_cast<u32*>(at);
        by_place<BYTES>(to, [&](auto place) { write_in_steps<decltype(place)::value, COUNT>(to, w); });
    } else {
        const int odd = static_cast<int>(reinterpret_cast<u64>(at) & 2);
        u32* const to = reinterpret_cast<u32*>(at - odd);
        u32 moved[COUNT];  // to the words there, of which the first and the last have one half
#pragma unroll
        for (int i = 1; i < COUNT; ++i) moved[i] = __funnelshift_lc(w[i - 1], w[i], 8 * odd);
        if (odd) {
            reinterpret_cast<u16*>(to)[1] = static_cast<u16>(w[0]);
            reinterpret_cast<u16*>(to)[2 * COUNT] = static_cast<u16>(w[COUNT - 1] >> 16);
        } else {
            *to = w[0];
        }
        if constexpr (COUNT > 1)
            by_place<4>(to + 1, [&](auto place) { write_in_steps<decltype(place)::value, COUNT - 1>(to + 1, moved + 1); });
    }
}

}  // namespace tcu::scan
