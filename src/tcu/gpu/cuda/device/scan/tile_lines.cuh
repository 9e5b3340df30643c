// What a lane has of a row of any length in shared memory: its part is read from any byte on, scanned, and written.
//
// Compiled as scan/group.cuh says, and with LEVELS and PART (kernels/tile_scan.cu).

#pragma once

#include "device/scan/plan_lines.cuh"

namespace tcu::scan {

// Sums of up to 2^13 numbers of binary16 are exact (scan/exact_lines.cuh), so that a lane may have as many as suit the
// row.  Otherwise it has a group.
constexpr bool EXACT = ELEMENT == BINARY16 && LEVELS < 3;

// The lanes of a row, one after another.
struct LanesOfRow {
    int place;  // of this lane among them
    int first;
    int count;

    // The inclusive sums, as scan::inclusive has them where `count` is a power of two.
    __device__ double inclusive(double v) const {
#pragma unroll
        for (int bit = 1; bit < (LEVELS ? WARP : 1); bit *= 2) {
            if (LEVELS == 1 && bit >= count) break;
            const double before = __shfl_sync(ALL, v, first + (place & ~(bit - 1)) - 1);
            if (place & bit) v = before + v;
        }
        return v;
    }

    __device__ double exclusive(double inclusive_sum) const {
        if (LEVELS == 0) return 0;
        const double before = __shfl_up_sync(ALL, inclusive_sum, 1);
        return place ? before : 0;
    }
};

// The sum of a row before a line.
struct SumOfLines {
    double sum = 0;
    int lines;  // of a row
    int line = 0;
    AlignedBlocks<4> in_chunk;
    AlignedBlocks<5> chunks;
    double chunks_before = 0;

    __device__ explicit SumOfLines(int lines) : lines(lines) {}

    // Called by a whole warp; the last lane has the sum of the line.
    __device__ void add(double inclusive_sum) {
        const double total = __shfl_sync(ALL, inclusive_sum, WARP - 1);
        if (EXACT) {
            sum = ++line == lines ? 0 : sum + total;
            if (line == lines) line = 0;
            return;
        }
        const double chunk = in_chunk.push(line % LINES, total);
        if (++line == lines) {
            line = 0;
            sum = chunks_before = 0;
            return;
        }
        if (LEVELS > 2 && line % LINES == 0) {
            chunks.push(line / LINES - 1, chunk);
            chunks_before = chunks.before<0, 5>(line / LINES);
        }
        sum = in_chunk.before<0, 4>(line % LINES);
        if (LEVELS > 2) sum = chunks_before + sum;
    }
};

struct ExactPart {
    Code codes[PART];
};

struct ExactResults {
    finish::ResultCode codes[PART];
};

template <int BYTES>
__device__ inline void read_part(const char* at, ExactPart& x) {
#pragma unroll
    for (int i = 0; i < PART; ++i) x.codes[i] = reinterpret_cast<const Code*>(at)[i];
}

__device__ inline u32 chosen(bool is_set, u32 yes, u32 no) { return is_set ? yes : no; }

// BYTES: those of which what is read, and where it begins, are multiples.  Where rows are shorter than a group, no more
// than PART numbers are read; these are the first ones in the order of the scan.
template <int BYTES>
__device__ inline void read_part(const char* at, Group& x) {
    if constexpr (PART < GROUP) {
        constexpr int FIRST = (REVERSE ? GROUP - PART : 0) * sizeof(Code), ALL_BYTES = PART * sizeof(Code);
        x = {};
#pragma unroll
        for (int i = 0; i < ALL_BYTES; i += BYTES) {
            const int word = (FIRST + i) / 4;
            if constexpr (BYTES == 16) x.words[word / 4] = *reinterpret_cast<const uint4*>(at + i);
            if constexpr (BYTES == 8) {
                const uint2 two = *reinterpret_cast<const uint2*>(at + i);
                x.word[word] = two.x;
                x.word[word + 1] = two.y;
            }
            if constexpr (BYTES == 4) x.word[word] = *reinterpret_cast<const u32*>(at + i);
            if constexpr (BYTES == 2) x.codes[(FIRST + i) / 2] = *reinterpret_cast<const Code*>(at + i);
        }
        return;
    }
    const int past = static_cast<int>(reinterpret_cast<u64>(at) % 16);
    const uint4* const from = reinterpret_cast<const uint4*>(at - past);
    if constexpr (BYTES == 16) {
        x.words[0] = from[0];
        x.words[1] = from[1];
        return;
    }
    const uint4 a = from[0], b = from[1], c = from[2];
    u32 w[12] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
#pragma unroll
    for (int i = 0; i < 10; ++i) w[i] = chosen(past & 8, w[i + 2], w[i]);
#pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = BYTES < 8 ? chosen(past & 4, w[i + 1], w[i]) : w[i];
#pragma unroll
    for (int i = 0; i < 8; ++i) x.word[i] = BYTES == 2 ? __funnelshift_r(w[i], w[i + 1], past % 4 * 8) : w[i];
}

// Writes results `low` to `high` - 1 of what begins there.
template <int BYTES>
__device__ inline void write_part(char* at, const ExactResults& r, int low, int high) {
#pragma unroll
    for (int i = 0; i < PART; ++i)
        if (i >= low && i < high) reinterpret_cast<finish::ResultCode*>(at)[i] = r.codes[i];
}

template <int BYTES>
__device__ inline void write_part(char* at, const Results& r, int low, int high) {
    constexpr int SIZE = sizeof(finish::ResultCode), WORDS = GROUP * SIZE / 4;
    if constexpr (PART < GROUP) {
#pragma unroll
        for (int i = 0; i < PART; ++i)
            if (i < high) reinterpret_cast<finish::ResultCode*>(at)[i] = r.codes[(REVERSE ? GROUP - PART : 0) + i];
    } else if constexpr (BYTES == 2) {
        if (high == 0) return;
        const int odd = static_cast<int>(reinterpret_cast<u64>(at) / 2 % 2);
        u32* const words = reinterpret_cast<u32*>(at - 2 * odd);
        u16* const halves = reinterpret_cast<u16*>(words);
        // Words both of whose halves are results, and then a half at each end.
        const int from = (low + odd + 1) / 2, to = (high + odd) / 2;
#pragma unroll
        for (int i = 0; i <= WORDS; ++i) {
            const u32 before = i ? r.word[i - (i > 0)] : 0, word = i < WORDS ? r.word[i % WORDS] : 0;
            const u32 w = odd ? word << 16 | before >> 16 : word;
            if (i >= from && i < to) words[i] = w;
            if (i < from && 2 * i + 1 == low + odd) halves[2 * i + 1] = static_cast<u16>(w >> 16);
            if (i == to && (high + odd) % 2) halves[2 * i] = static_cast<u16>(w);
        }
    } else {
        const int from = low * SIZE / BYTES, to = high * SIZE / BYTES;
#pragma unroll
        for (int i = 0; i < GROUP * SIZE / BYTES; ++i) {
            if (i < from || i >= to) continue;
            const u32* const w = r.word + i * (BYTES / 4);
            if constexpr (BYTES == 16) reinterpret_cast<uint4*>(at)[i] = make_uint4(w[0], w[1], w[2], w[3]);
            if constexpr (BYTES == 8) reinterpret_cast<uint2*>(at)[i] = {w[0], w[1]};
            if constexpr (BYTES == 4) reinterpret_cast<u32*>(at)[i] = w[0];
        }
    }
}

// The results of a lane's part, where `start` is the sum of the row before the line.  Returns the sum of the row up to
// the part's end, from the line's beginning on.
__device__ inline double scan_part(const ExactPart& x, const LanesOfRow& lanes, double start, ExactResults& r) {
    double sums[PART], sum = 0;
#pragma unroll
    for (int i = 0; i < PART; ++i) sums[i] = sum += to_binary64(x.codes[REVERSE ? PART - 1 - i : i]);
    const double all = lanes.inclusive(sum), carry = start + lanes.exclusive(all);
    const auto value = [&](int i) { return EXCLUSIVE ? i ? carry + sums[i - (i > 0)] : carry : carry + sums[i]; };
#pragma unroll
    for (int i = 0; i < PART; ++i) r.codes[REVERSE ? PART - 1 - i : i] = finish::rounded(value(i));
    if (carry + sum == carry + sum) return all;  // a NaN anywhere would have made this NaN
#pragma unroll
    for (int i = 0; i < PART; ++i)
        if (value(i) != value(i)) r.codes[REVERSE ? PART - 1 - i : i] = finish::not_a_number();
    return all;
}

struct Scanned {
    Results results;
    double sum;  // that scan_part returns
};

// For any numbers, inf and NaN too.  It is rarely called, and not inline, so that it takes no registers from the
// callers.
__device__ __noinline__ Scanned scan_any_part(const Group x, const LanesOfRow lanes, double start) {
    Scanned found;
    found.sum = lanes.inclusive(total(x));
    scanned(x, start + lanes.exclusive(found.sum), found.results.codes);
    return found;
}

__device__ inline double scan_part(const Group& x, const LanesOfRow& lanes, double start, Results& r) {
    if constexpr (!MOVES) {
        const double sum = lanes.inclusive(total(x));
        scanned(x, start + lanes.exclusive(sum), r.codes);
        return sum;
    } else {
        if (!__all_sync(ALL, finite(x) && start - start == 0)) {
            const Scanned found = scan_any_part(x, lanes, start);
            r = found.results;
            return found.sum;
        }
        const PlanSums running(x);
        const double sum = lanes.inclusive(running.total());
        r = rounded_results(running, start + lanes.exclusive(sum) + 0.0);
        return sum;
    }
}

// What a lane has.
#if ELEMENT == BINARY16 && LEVELS < 3
typedef ExactPart LanePart;
typedef ExactResults LaneResults;
#else
typedef Group LanePart;
typedef Results LaneResults;
#endif

}  // namespace tcu::scan
