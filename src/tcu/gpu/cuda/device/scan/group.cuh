// A group is 32 bytes of a row, what a thread of a scan holds: its sum, its scan, and the rounding of results.
//
// Compiled with ELEMENT, LAYOUT (load/array.cuh), RESULT (finish/result_code.cuh), EXCLUSIVE and REVERSE.

#pragma once

#include "device/finish/result_code.cuh"
#include "device/load/row.cuh"
#include "device/scan/numbers.cuh"
#include "device/scan/prefix.cuh"

namespace tcu::scan {

// LINES: of a chunk, each of 32 groups.
#include "generated/scans/LINES.inc"

union Group {
    uint4 words[2];
    u32 word[8];
    Code codes[GROUP];

    // Element i in the order of the scan.
    __device__ Code at(int i) const { return codes[REVERSE ? GROUP - 1 - i : i]; }
};

// The index in its row of a group's first element in memory.
__device__ inline i64 offset_of(i64 length, i64 group) { return REVERSE ? length - (group + 1) * GROUP : group * GROUP; }

// Group number `group` of a row, read from memory.
__device__ inline Group read_group(const Code* row, i64 length, i64 group) {
    const i64 offset = offset_of(length, group);
    const load::Granules first = load::ask(row, length, offset), second = load::ask(row, length, offset + PER_LOAD);
    Group x;
    x.words[0] = load::assemble(first, row, length, offset).words;
    x.words[1] = load::assemble(second, row, length, offset + PER_LOAD).words;
    return x;
}

// Not with wider results, where it was no faster.
constexpr bool MOVES = sizeof(Code) == 2 && sizeof(finish::ResultCode) == 2;

__device__ inline double moved_number(const Group& x, int i) {
    const int at = REVERSE ? GROUP - 1 - i : i;
    const u32 word = x.word[at / 2 % (GROUP / 2)];
    return moved(word, at % 2);
}

// Number i of a group in the order of the scan.  Where MOVES, it is moved: divided by UP.
__device__ inline double number_of(const Group& x, int i) { return MOVES ? moved_number(x, i) : to_binary64(x.at(i)); }

// What a row comes to, where `carry` is the sum before, and `sum` a sum of numbers from number_of.
__device__ inline double behind(double carry, double sum) { return MOVES ? fma(sum, UP, carry) : carry + sum; }

// Whether all numbers are finite: inf and NaN cannot be moved.
__device__ inline bool finite(const Group& x) {
    u32 found = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) look_for_others(found, x.word[i]);
    return !found_others(found);
}

__device__ inline double total(const Group& x) {
    if (MOVES && finite(x)) {
        double sum = moved_number(x, 0);
#pragma unroll
        for (int i = 1; i < GROUP; ++i) sum += moved_number(x, i);
        return sum * UP;
    }
    double sum = to_binary64(x.at(0));
#pragma unroll
    for (int i = 1; i < GROUP; ++i) sum += to_binary64(x.at(i));
    return sum;
}

// The results of a group, in the order of memory, where `carry` is the sum of the row before the group.
__device__ inline void scanned(const Group& x, double carry, finish::ResultCode (&codes)[GROUP]) {
    carry += 0.0;  // so that no result is -0
    if (!MOVES || finite(x)) {
        double sum = 0, value = carry;
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            const double number = number_of(x, i), earlier = value;
            sum = i ? sum + number : number;
            value = behind(carry, sum);
            codes[REVERSE ? GROUP - 1 - i : i] = finish::rounded(EXCLUSIVE ? earlier : value);
        }
        if (value == value) return;  // a NaN anywhere would have made the last value NaN
    }
    double sum = 0, value = carry;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        const double number = to_binary64(x.at(i)), earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        codes[REVERSE ? GROUP - 1 - i : i] = result != result ? finish::not_a_number() : finish::rounded(result);
    }
}

// Shared memory in which the lanes of a warp exchange results, so that neighbouring lanes write whole sectors of
// memory.
union Exchange {
    static constexpr int PIECE = 32 / sizeof(finish::ResultCode);  // elements of a lane at a time
    uint4 granules[2 * WARP];
    finish::ResultCode codes[PIECE * WARP];
};

}  // namespace tcu::scan
