// Neighbouring numbers of each lane, of 16 or 32 bits, where rows begin at any number.

#pragma once

#include "device/load/array.cuh"

namespace tcu::load {

template <int WORDS>
__device__ inline void read_granule(const void* from, u32 (&words)[WORDS]) {
    if constexpr (WORDS == 2) {
        const uint2 v = __ldg(static_cast<const uint2*>(from));
        words[0] = v.x, words[1] = v.y;
    } else {
        const uint4 v = __ldg(static_cast<const uint4*>(from));
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    }
}

template <int WORDS>
__device__ inline void write_granule(void* to, const u32 (&words)[WORDS]) {
    if constexpr (WORDS == 2) *static_cast<uint2*>(to) = uint2{words[0], words[1]};
    else *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

// A lane's numbers that these words hold, `beyond` its first ones, an even number, of a row that begins anywhere and has so many `left`
// from there on; `absent` where it has none, but for IS_WHOLE.  Each lane reads its own ones, of 16 bits the words that hold them: that
// reads a line of memory several times, but from the first cache.
template <bool IS_WHOLE, typename Number, int WORDS>
__device__ inline void read_own(const Number* first, int beyond, int left, u32 absent, u32 (&words)[WORDS]) {
    if constexpr (sizeof(Number) == 4) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i] = IS_WHOLE || i < left ? __ldg(first + beyond + i) : absent;
    } else {
        const int odd = static_cast<int>(reinterpret_cast<u64>(first) / sizeof(Number) % 2);
        const u32* const pairs = reinterpret_cast<const u32*>(first - odd) + beyond / 2;
        u32 read[WORDS + 1];
#pragma unroll
        for (int i = 0; i <= WORDS; ++i) read[i] = (i < WORDS || odd) && (IS_WHOLE || 2 * i < left + odd) ? __ldg(pairs + i) : absent;
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            words[i] = __funnelshift_r(read[i], read[i + 1], 16 * odd);
            if (!IS_WHOLE && left < 2 * i + 2) words[i] = left < 2 * i + 1 ? absent : __byte_perm(words[i], absent, 0x7610);
        }
    }
}

// Numbers of a warp in shared memory, from a multiple of 16 bytes on, with room for some in front of them and behind.
template <typename Number>
struct alignas(16) StagedFours {
    Number front[16 / sizeof(Number)], numbers[4 * WARP + 16 / sizeof(Number)];
};

// Writes a lane's four numbers, `beyond` its first ones, as far as the row has such, by way of the warp's own memory: there lanes find
// numbers that are neighbours in memory.  All lanes of a warp call this, which have the numbers of a row one behind the other.
template <bool IS_WHOLE, typename Number>
__device__ inline void write_fours(Number* first, int beyond, int left, const u32 (&words)[sizeof(Number)], StagedFours<Number>& staged) {
    const int lane = threadIdx.x % WARP, end = left + 4 * lane;  // of the row, from the warp's first number on
    write_granule(staged.numbers + 4 * lane, words);
    __syncwarp();
    if constexpr (sizeof(Number) == 4) {
        Number* const to = first - 3 * lane + beyond;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (IS_WHOLE || i * WARP + lane < end) to[i * WARP] = staged.numbers[i * WARP + lane];
    } else {
        // Words of memory begin so many numbers in front of the warp's.
        const int odd = static_cast<int>(reinterpret_cast<u64>(first) / sizeof(Number) % 2);
        const u32* const from = reinterpret_cast<const u32*>(staged.numbers) + lane - odd;
        u32* const to = reinterpret_cast<u32*>(first - 2 * lane - odd) + beyond / 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int number = 2 * (i * WARP + lane) - odd;
            if (i == 0 && number < 0) continue;
            const u32 word = __funnelshift_r(from[i * WARP], from[i * WARP + 1], 16 * odd);
            if (IS_WHOLE || number + 1 < end) to[i * WARP] = word;
            else if (number < end) *reinterpret_cast<Number*>(to + i * WARP) = static_cast<Number>(word);
        }
        // The first one and the last one share words with other warps'.
        const int number = lane ? 4 * WARP - 1 : 0;
        if (odd && lane < 2 && (IS_WHOLE || number < end)) (first + number - 4 * lane)[beyond] = staged.numbers[number];
    }
    __syncwarp();
}

}  // namespace tcu::load
