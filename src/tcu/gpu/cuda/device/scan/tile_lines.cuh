// Groups of rows of any length in shared memory: read from any byte on, scanned, and written.
//
// Compiled as scan/group.cuh says, and with NUMBERS and LEVELS (kernels/tile_scan.cu).

#pragma once

#include "device/scan/line_results.cuh"
#if ELEMENT == BINARY16 && RESULT == 0
#include "device/scan/exact_lines.cuh"
#else
#include "device/scan/plan_lines.cuh"
#endif

namespace tcu::scan {

// The lanes of a row, one after another.
struct LanesOfRow {
    int place;  // of this lane among them
    int first;
    int count;

    // The inclusive sums, as scan::inclusive has them for rows of powers of two.
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

#if LEVELS > 1
// The sum of a row before a line.
struct Before {
    const int lines;
    int line = 0;
    double sum = 0;
#if FREE
    __device__ explicit Before(int lines) : lines(lines) {}

    __device__ void push(double inclusive_sum) {
        sum += __shfl_sync(ALL, inclusive_sum, WARP - 1);
        if (++line == lines) sum = line = 0;
    }
#else
    AlignedBlocks<4> in_chunk;
    AlignedBlocks<5> chunks;
    double chunks_before = 0;

    __device__ explicit Before(int lines) : lines(lines) {}

    // Called by a whole warp with the sum of the line in the last lane.
    __device__ void push(double inclusive_sum) {
        const double total = __shfl_sync(ALL, inclusive_sum, WARP - 1);
        const double chunk = in_chunk.push(line % LINES, total);
        ++line;
        if (line == lines) {
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
#endif
};
#endif

#if FREE
// Sums of up to 2^13 numbers of binary16 are exact (exact_lines.cuh), so that a lane may have as many as suit the row.
// Their count is odd: lanes then read and write one by one, from different banks.
constexpr int PART = FREE;
static_assert(ELEMENT == BINARY16 && PART % 2 == 1, "exact sums, and different banks");

struct Part {
    Code codes[PART];
};

struct PartResults {
    finish::ResultCode codes[PART];
};

template <int>
__device__ inline Part read_shared(const char* at) {
    Part x;
#pragma unroll
    for (int i = 0; i < PART; ++i) x.codes[i] = reinterpret_cast<const Code*>(at)[i];
    return x;
}

template <int>
__device__ inline void write_shared(char* at, const PartResults& r, int low, int high) {
#pragma unroll
    for (int i = 0; i < PART; ++i)
        if (REVERSE ? i >= low && high : i < high) reinterpret_cast<finish::ResultCode*>(at)[i] = r.codes[i];
}

__device__ inline double scan_group(const Part& x, const LanesOfRow& lanes, double start, PartResults& r) {
    double sums[PART], sum = 0;
#pragma unroll
    for (int i = 0; i < PART; ++i) sums[i] = sum += to_binary64(x.codes[REVERSE ? PART - 1 - i : i]);
    const double all = lanes.inclusive(sum), carry = start + lanes.exclusive(all);
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const double value = EXCLUSIVE ? i ? carry + sums[i - (i > 0)] : carry : carry + sums[i];
        r.codes[REVERSE ? PART - 1 - i : i] = finish::rounded(value);
    }
    if (carry + sum == carry + sum) return all;
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const double value = EXCLUSIVE ? i ? carry + sums[i - (i > 0)] : carry : carry + sums[i];
        if (value != value) r.codes[REVERSE ? PART - 1 - i : i] = finish::not_a_number();
    }
    return all;
}
#else
constexpr int PART = GROUP;
typedef Group Part;
typedef Results PartResults;

struct Scanned {
    Results results;
    double sum;  // of the row up to this group's end, from the line's beginning on
};

// It is rarely called, and not inline, so that it takes no registers from the callers.
__device__ __noinline__ Scanned scan_any_group(const Group x, const LanesOfRow lanes, double start) {
    Scanned found;
    found.sum = lanes.inclusive(total(x));
    scanned(x, start + lanes.exclusive(found.sum), found.results.codes);
    return found;
}

// The results of a lane's group, where `start` is the sum of the row before the line.  Returns the sum of the row up
// to this group's end, from the line's beginning on.
__device__ inline double scan_group(const Group& x, const LanesOfRow& lanes, double start, Results& r) {
    if constexpr (!MOVES) {
        const double sum = lanes.inclusive(total(x));
        scanned(x, start + lanes.exclusive(sum), r.codes);
        return sum;
    } else {
        if (!__all_sync(ALL, finite(x)) || start - start != 0) {
            const Scanned found = scan_any_group(x, lanes, start);
            r = found.results;
            return found.sum;
        }
#if ELEMENT == BINARY16 && RESULT == 0
        const ExactSums running(x);
        const double sum = lanes.inclusive(running.total());
        r = rounded_results(running, start + (sum - running.total()));
#else
        const PlanSums running(x);
        const double sum = lanes.inclusive(running.total());
        r = rounded_results(running, start + lanes.exclusive(sum) + 0.0);
#endif
        return sum;
    }
}

// Where a row is shorter than a group, the first and the last of its numbers in it.
constexpr int FIRST = REVERSE ? GROUP - NUMBERS : 0, LAST = FIRST + NUMBERS;

__device__ inline u32 chosen(bool is_set, u32 yes, u32 no) { return is_set ? yes : no; }

// The group that begins there.
template <int BYTES>
__device__ inline Group read_shared(const char* at) {
    Group x = {};
    if constexpr (NUMBERS < GROUP) {  // in units
        constexpr int PER = BYTES / sizeof(Code);
#pragma unroll
        for (int i = FIRST; i < LAST; i += PER) {
            const char* const unit = at + i * sizeof(Code);
            const int w = i * sizeof(Code) / 4;
            if constexpr (BYTES == 16) x.words[w / 4] = *reinterpret_cast<const uint4*>(unit);
            if constexpr (BYTES == 8) {
                const uint2 two = *reinterpret_cast<const uint2*>(unit);
                x.word[w] = two.x;
                x.word[w + 1] = two.y;
            }
            if constexpr (BYTES == 4) x.word[w] = *reinterpret_cast<const u32*>(unit);
            if constexpr (BYTES == 2) x.codes[i] = *reinterpret_cast<const Code*>(unit);
        }
        return x;
    }
    const int past = static_cast<int>(reinterpret_cast<u64>(at) % 16);
    const uint4* const from = reinterpret_cast<const uint4*>(at - past);
    if constexpr (BYTES == 16) {
        x.words[0] = from[0];
        x.words[1] = from[1];
        return x;
    }
    const uint4 a = from[0], b = from[1], c = from[2];
    u32 w[12] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
#pragma unroll
    for (int i = 0; i < 10; ++i) w[i] = chosen(past & 8, w[i + 2], w[i]);
    if constexpr (BYTES < 8)
#pragma unroll
        for (int i = 0; i < 9; ++i) w[i] = chosen(past & 4, w[i + 1], w[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i) x.word[i] = BYTES == 2 ? __funnelshift_r(w[i], w[i + 1], past % 4 * 8) : w[i];
    return x;
}

// Calls `write` for each word, in another order in each lane, so that fewer lanes wait for a bank.
template <int WORDS, typename Write>
__device__ inline void rotated(const u32 (&words)[WORDS], const Write& write) {
    constexpr int LOWEST = WORDS >> ROTATE ? WORDS >> ROTATE : 1;
    const int by = static_cast<int>(threadIdx.x) % WARP * WORDS / WARP & (WORDS - LOWEST);
    u32 w[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) w[i] = words[i];
#pragma unroll
    for (int bit = WORDS / 2; bit >= LOWEST; bit /= 2) {
        u32 before[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) before[i] = w[i];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) w[i] = chosen(by & bit, before[(i + bit) % WORDS], before[i]);
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) write((i + by) % WORDS, w[i]);
}

// Writes results `low` to `high` - 1 of a group that begins there.
template <int BYTES>
__device__ inline void write_shared(char* at, const Results& r, int low, int high) {
    constexpr int SIZE = sizeof(finish::ResultCode), WORDS = GROUP * SIZE / 4;
    if (high == 0) return;
    if constexpr (NUMBERS < GROUP) {
        low = FIRST;
        high = LAST;
    }
    if constexpr (BYTES == 2 && (NUMBERS < GROUP || WORDS < 8)) {
#pragma unroll
        for (int i = 0; i < GROUP; ++i)
            if (i >= low && i < high) reinterpret_cast<u16*>(at)[i] = static_cast<u16>(r.codes[i]);
    } else if constexpr (BYTES == 2) {
        const int odd = static_cast<int>(reinterpret_cast<u64>(at) / 2 % 2);
        u32* const words = reinterpret_cast<u32*>(at - 2 * odd);
        u32 w[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) w[i] = odd ? r.word[i] << 16 | (i ? r.word[i - (i > 0)] >> 16 : 0) : r.word[i];
        // Words both of whose halves are results; then the others.
        const int from = (low + odd + 1) / 2, to = (high + odd) / 2;
        rotated<WORDS>(w, [&](int i, u32 word) {
            if (i >= from && i < to) words[i] = word;
        });
        if (odd && high == GROUP) reinterpret_cast<u16*>(at)[GROUP - 1] = static_cast<u16>(r.word[WORDS - 1] >> 16);
        if ((low + odd) % 2 || ((high + odd) % 2 && high < GROUP)) {
#pragma unroll
            for (int i = 0; i < WORDS; ++i) {
                if (2 * i + 1 == low + odd) reinterpret_cast<u16*>(words)[2 * i + 1] = static_cast<u16>(w[i] >> 16);
                if (2 * i + 1 == high + odd) reinterpret_cast<u16*>(words)[2 * i] = static_cast<u16>(w[i]);
            }
        }
    } else {
        u32 w[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) w[i] = r.word[i];
        const int from = low * SIZE / BYTES, to = high * SIZE / BYTES;
        if constexpr (BYTES == 16)
#pragma unroll
            for (int i = 0; i < WORDS / 4; ++i) {
                if (i >= from && i < to)
                    reinterpret_cast<uint4*>(at)[i] = make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
            }
        else if constexpr (BYTES == 8)
#pragma unroll
            for (int i = 0; i < WORDS / 2; ++i) {
                if (i >= from && i < to) reinterpret_cast<uint2*>(at)[i] = {w[2 * i], w[2 * i + 1]};
            }
        else
            rotated<WORDS>(w, [&](int i, u32 word) {
                if (i >= from && i < to) reinterpret_cast<u32*>(at)[i] = word;
            });
    }
}

#endif

}  // namespace tcu::scan
