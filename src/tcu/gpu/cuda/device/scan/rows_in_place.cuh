// A warp's group of rows in shared memory whose results take the places of the numbers.
//
// Rows that begin anywhere have strips that share sectors of memory.  A part of a sector that is written alone has the second
// cache read the rest first, and this was what took the time: so a strip's sectors are written whole by one warp, which adds up
// some columns of the next strip for that, and sectors are read whole.  1000 x 1 MB of binary16, bfloat16, binary32 and binary64
// had 0.55, 0.60, 0.75, 0.79 of a copy's speed; they have 0.76, 0.74, 0.81, 0.82 (H200).  Results that are stored 16 bytes
// at a time, in strips that end where they begin, had 0.55 (binary16).
//
// Compiled as scan/columns.cuh says, with results of the numbers' format.

#pragma once

#include "device/scan/columns.cuh"

namespace tcu::scan {

// Puts results in the places of a group's numbers, where `carry` is the sum before it, which is never -0.  Makes of `carry`
// the group's total.  Numbers are converted, 16-bit ones too: to move their bits (types/moved.cuh) took 3 more instructions
// for each, of 10, and inf and NaN, which cannot be moved, would have to be looked for before any number is overwritten.
// Numbers of the next rows are read before results of these are written, which may lie anywhere for all that the compiler
// knows.
template <typename ColumnsOfGroup, int WIDTH>
__device__ inline void scan_in_place(const ColumnsOfGroup& group, double (&carry)[WIDTH]) {
    constexpr int TOGETHER = 4;
    typename ColumnsOfGroup::Row next[TOGETHER];
    double sums[WIDTH], values[WIDTH];
    group.read_rows(next, 0);
#pragma unroll
    for (int first = 0; first < GROUP; first += TOGETHER) {
        typename ColumnsOfGroup::Row x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) x[i] = next[i];
        if (first + TOGETHER < GROUP) group.read_rows(next, first + TOGETHER);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const bool is_first = first + i == 0;
            double earlier[WIDTH];
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) {
                const double number = x[i].value(c);
                earlier[c] = is_first ? carry[c] : values[c];
                sums[c] = is_first ? number : sums[c] + number;
                values[c] = carry[c] + sums[c];
            }
            group.put(first + i, EXCLUSIVE ? earlier : values);
        }
    }
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) {
        if (values[c] != values[c]) group.name_nans(c);  // a NaN anywhere has made the last value NaN
        carry[c] = sums[c];
    }
}

// Copies a few bytes, in pieces as wide as their places allow: 8 at most, SIZE at least.
template <int SIZE>
__device__ inline void copy_pieces(char* to, const char* from, int bytes) {
    const auto piece = [&](int size, bool any) {
        if (!any) return;
        if (size == 8) *reinterpret_cast<u64*>(to) = *reinterpret_cast<const u64*>(from);
        if (size == 4) *reinterpret_cast<u32*>(to) = *reinterpret_cast<const u32*>(from);
        if (size == 2) *reinterpret_cast<u16*>(to) = *reinterpret_cast<const u16*>(from);
        to += size;
        from += size;
        bytes -= size;
    };
#pragma unroll
    for (int size = SIZE; size <= 8; size *= 2) piece(size, bytes >= size && reinterpret_cast<u64>(to) & size);
#pragma unroll
    for (int size = 8; size >= SIZE; size /= 2) piece(size, bytes >= size);
}

// A warp's strip of a row: bytes that exist, and those to where the next strip begins; and whether a sector that lies in two
// strips is cut, where this one begins and where it ends.
struct StripBytes {
    int all, own;
    bool cut_first, cut_last;
};

// Called by a whole warp: stores `rows` rows of results, of each what begins in the strip's own sectors.  `to`: where the
// strip begins in the first row; the others lie `step` bytes apart.  In shared memory rows lie PITCH bytes apart, and each
// begins where `begin` says.
template <int ROW, int PITCH, typename Begin>
__device__ inline void store_rows(char* to, i64 step, const StripBytes& strip, int rows, const char* results, const Begin& begin) {
    constexpr int GRANULES = ROW / GRANULE, TOGETHER = WARP / GRANULES, SIZE = sizeof(Code);
    const int lane = threadIdx.x % WARP;
    const auto first_of = [&](const char* row) { return strip.cut_first ? 0 : -static_cast<int>(reinterpret_cast<u64>(row)) & SECTOR - 1; };
    const auto end_of = [&](const char* row) {
        const int behind = -static_cast<int>(reinterpret_cast<u64>(row) + strip.own) & SECTOR - 1;
        return min(strip.cut_last ? strip.own : strip.own + behind, strip.all);
    };
    char* row = to + lane / GRANULES * step;
#pragma unroll
    for (int i = 0; i < GROUP; i += TOGETHER) {
        const int number = i + lane / GRANULES, at = lane % GRANULES * GRANULE - static_cast<int>(reinterpret_cast<u64>(row) % GRANULE);
        const uint4 x = *reinterpret_cast<const uint4*>(results + number * PITCH + begin(number) + at);
        if (number < rows && at >= first_of(row) && at + GRANULE <= end_of(row)) *reinterpret_cast<uint4*>(row + at) = x;
        row += step * TOGETHER;
    }
    // What shares a granule with other rows' numbers, at both ends of an array's row.
    const int number = lane % GROUP;
    if (!(strip.cut_first || strip.cut_last || strip.all < ROW) || lane >= 2 * GROUP || number >= rows) return;
    row = to + number * step;
    const int first = first_of(row), end = end_of(row);
    const int head = min(-static_cast<int>(reinterpret_cast<u64>(row + first)) & GRANULE - 1, end - first), tail = (end - first - head) % GRANULE;
    const int at = lane < GROUP ? first : end - tail;
    copy_pieces<SIZE>(row + at, results + number * PITCH + begin(number) + at, lane < GROUP ? head : tail);
}

}  // namespace tcu::scan
