// Neighbouring columns of a thread that makes running sums down them: their numbers in a row, and their results.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh).

#pragma once

#include "device/scan/numbers.cuh"

namespace tcu::scan {

constexpr bool MOVES = sizeof(Code) == 2;  // numbers become binary64 by moving their bits

// The numbers of a row, side by side.
template <int WIDTH>
struct alignas(WIDTH * sizeof(Code)) RowNumbers {
    u32 words[WIDTH * sizeof(Code) / 4];

    __device__ Code code(int c) const {
        if constexpr (sizeof(Code) == 2) return static_cast<Code>(words[c / 2] >> 16 * (c % 2));
        if constexpr (sizeof(Code) == 4) return static_cast<Code>(words[c]);
        return static_cast<Code>(words[2 * c] | static_cast<u64>(words[2 * c + sizeof(Code) / 8]) << 32);
    }

    // Where MOVES, divided by UP; then it must be neither inf nor NaN.
    __device__ double number(int c) const {
        if constexpr (MOVES) return moved(words[c / 2], c % 2);
        return to_binary64(code(c));
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
    Code only;

    __device__ Code code(int) const { return only; }
    __device__ double number(int) const { return moved(only, false); }
    __device__ void look_for_others(u32& found) const { scan::look_for_others(found, only); }
};

// The codes of one value, or of two in a word.
template <bool PAIR>
__device__ inline auto rounded_codes(const double* values) {
    if constexpr (PAIR)
        return rounded_pair(values[0], values[1]);
    else
        return finish::rounded(values[0]);
}

// The results of a row have one store, or two.
template <int WIDTH>
__device__ inline void store(finish::ResultCode* to, const double (&values)[WIDTH]) {
    constexpr bool PAIRS = MOVES && sizeof(finish::ResultCode) == 2 && WIDTH > 1;
    constexpr int COUNT = PAIRS ? WIDTH / 2 : WIDTH, SIZE = WIDTH * sizeof(finish::ResultCode);
    struct alignas(SIZE < 16 ? SIZE : 16) {
        decltype(rounded_codes<PAIRS>(values)) codes[COUNT];
    } results;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) results.codes[i] = rounded_codes<PAIRS>(values + (PAIRS ? 2 : 1) * i);
    *reinterpret_cast<decltype(results)*>(to) = results;
}

}  // namespace tcu::scan
