// Neighbouring columns of a thread that makes running sums down them: their numbers in a row, and their results.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh).

#pragma once

#include "device/scan/numbers.cuh"

namespace tcu::scan {

constexpr bool MOVES = sizeof(Code) == 2;  // numbers become binary64 by moving their bits

// The numbers of a row, side by side.
template <int COLUMNS>
struct alignas(COLUMNS * sizeof(Code)) RowNumbers {
    u32 words[COLUMNS * sizeof(Code) / 4];

    // Divided by UP where MOVES, but not if it is inf or NaN, which cannot be moved.
    __device__ double number(int c) const {
        if constexpr (sizeof(Code) == 2) return moved(words[c / 2], c % 2);
        if constexpr (sizeof(Code) == 4) return to_binary64(static_cast<Code>(words[c]));
        return to_binary64(static_cast<Code>(words[2 * c] | static_cast<u64>(words[2 * c + sizeof(Code) / 8]) << 32));
    }

    __device__ void look_for_others(u32& found) const {
        if constexpr (MOVES)
#pragma unroll
            for (int w = 0; w < static_cast<int>(sizeof(words) / 4); ++w) scan::look_for_others(found, words[w]);
    }
};

// A 16-bit number alone.
template <>
struct RowNumbers<MOVES ? 1 : 0> {
    Code code;

    __device__ double number(int) const { return moved(code, false); }
    __device__ void look_for_others(u32& found) const { scan::look_for_others(found, code); }
};

// The results of a row have one store, or two.
template <int COLUMNS>
__device__ inline void store(finish::ResultCode* to, const double (&values)[COLUMNS]) {
    constexpr int SIZE = COLUMNS * sizeof(finish::ResultCode);
    struct alignas(SIZE < 16 ? SIZE : 16) {
        finish::ResultCode codes[COLUMNS];
    } results;
    if constexpr (MOVES && sizeof(finish::ResultCode) == 2 && COLUMNS > 1) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c += 2) {
            const u32 pair = rounded_pair(values[c], values[c + 1]);
            results.codes[c] = static_cast<finish::ResultCode>(pair);
            results.codes[c + 1] = static_cast<finish::ResultCode>(pair >> 16);
        }
    } else {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) results.codes[c] = finish::rounded(values[c]);
    }
    *reinterpret_cast<decltype(results)*>(to) = results;
}

}  // namespace tcu::scan
