// What a lane has of a row of any length in shared memory: its part is read from any byte on, scanned, and written.
//
// Compiled as scan/group.cuh says, and with LEVELS, EXACT, PART and TAIL (kernels/tile_scan.cu).

#pragma once

#include "device/scan/any_place.cuh"
#include "device/scan/plan_lines.cuh"

namespace tcu::scan {

// Where in a group the numbers of a row that is shorter are: the first ones in the order of the scan.
constexpr int FIRST_CODE = REVERSE && !EXACT ? GROUP - PART : 0;

struct ExactPart {
    Code codes[PART];
};

struct ExactResults {
    finish::ResultCode codes[PART];
};

// The lanes of a row, one after another.
struct LanesOfRow {
    int place;  // of this lane among them
    int first;
    int count;

    // What lies around a lane's results, all or some of which are there.  Called by a whole warp.
    __device__ Around around(const ExactResults&, bool) const { return {}; }
    __device__ Around around(const Results& r, bool is_whole) const {
        return scan::around(r, is_whole && (REVERSE ? place < count - 1 : place > 0));
    }

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

// The sum of a row before a line, from what its lines come to.  Called by a whole warp.
__device__ inline double sum_before(const double* totals, int line) {
    if (line == 0) return 0;
    const int lane = threadIdx.x % WARP;
    if (EXACT) {
        double sum = lane < line ? totals[lane] : 0;
#pragma unroll
        for (int bit = 1; bit < WARP; bit *= 2) sum += __shfl_xor_sync(ALL, sum, bit);
        return sum;
    }
    const int in_chunk = line % LINES, chunks = line / LINES;
    double sum = 0;
    if (in_chunk) {
        sum = totals[chunks * LINES + min(lane, in_chunk - 1)];
#pragma unroll
        for (int bit = 1; bit < LINES; bit *= 2) {
            if (bit >= in_chunk) break;
            const double before = __shfl_sync(ALL, sum, (lane & ~(bit - 1)) - 1);
            if (lane & bit) sum = before + sum;
        }
        sum = __shfl_sync(ALL, sum, in_chunk - 1);
    }
    if (LEVELS < 3 || chunks == 0) return sum;
    double chunk = 0;  // the total of the chunk with the lane's number
    for (int i = 0; i < chunks; i += 2) {
        const int at = i * LINES + lane;
        const double both = inclusive<LINES>(at < chunks * LINES ? totals[at] : 0, lane);
        const double one = __shfl_sync(ALL, both, LINES - 1), other = __shfl_sync(ALL, both, WARP - 1);
        if (lane == i) chunk = one;
        if (lane == i + 1) chunk = other;
    }
    return __shfl_sync(ALL, inclusive<WARP>(chunk, lane), chunks - 1) + sum;
}

// The results of the TAIL numbers of a row, in order of memory from `first` on, where `before` is the sum of all others.
__device__ inline void scan_tail(const char* numbers, char* results, int first, double before) {
    const Code* const x = reinterpret_cast<const Code*>(numbers) + first;
    finish::ResultCode* const r = reinterpret_cast<finish::ResultCode*>(results) + first;
    const double carry = before + 0.0;
    double sum = 0, value = carry;
    Code codes[TAIL + 1];
#pragma unroll
    for (int i = 0; i < TAIL; ++i) codes[i] = x[REVERSE ? TAIL - 1 - i : i];
#pragma unroll
    for (int i = 0; i < TAIL; ++i) {
        const double number = to_binary64(codes[i]), earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        r[REVERSE ? TAIL - 1 - i : i] = result != result ? finish::not_a_number() : rounded_one(result);
    }
}

template <int BYTES>
__device__ inline void read_part(const char* at, ExactPart& x) {
#pragma unroll
    for (int i = 0; i < PART; ++i) x.codes[i] = reinterpret_cast<const Code*>(at)[i];
}

// BYTES: those of which what is read, and where it begins, are multiples.  Where rows are shorter than a group, no more
// than PART numbers are read; these are the first ones in the order of the scan.
template <int BYTES>
__device__ inline void read_part(const char* at, Group& x) {
    if constexpr (PART == GROUP) {
        read_words<BYTES>(at, x.word);
    } else {
        constexpr int FIRST = FIRST_CODE * sizeof(Code), ALL_BYTES = PART * sizeof(Code);
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
    }
}

// Writes results `low` to `high` - 1 of what begins there.
template <int BYTES>
__device__ inline void write_part(char* at, const ExactResults& r, int low, int high, const Around&) {
#pragma unroll
    for (int i = 0; i < PART; ++i)
        if (i >= low && i < high) reinterpret_cast<finish::ResultCode*>(at)[i] = r.codes[i];
}

template <int BYTES>
__device__ inline void write_part(char* at, const Results& r, int low, int high, const Around& around) {
    constexpr int SIZE = sizeof(finish::ResultCode);
    if (PART == GROUP && BYTES <= 4 && low == 0 && high == GROUP) {
        write_words<BYTES>(at, r.word, around);
        return;
    }
    if constexpr (PART < GROUP || BYTES == 2) {
#pragma unroll
        for (int i = 0; i < PART; ++i)
            if (REVERSE ? i >= low : i < high) reinterpret_cast<finish::ResultCode*>(at)[i] = r.codes[FIRST_CODE + i];
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

// Puts NaN where no number is the result.
template <typename Sums, int COUNT>
__device__ inline void mark_not_numbers(const Sums& sums, double carry, finish::ResultCode (&codes)[COUNT]) {
    const double last = sums.after(PART - 1, carry);
    if (last == last) return;  // a NaN anywhere would have made this NaN
    asm volatile("");          // so that it is a branch: this is rare
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const double value = result_of(sums, i, carry);
        if (value != value) codes[REVERSE ? COUNT - 1 - i : i] = finish::not_a_number();
    }
}

// The running sums of a lane's part.  The results' `carry` is the sum of the row before it.
struct ExactSums {
    double sums[PART];

    __device__ explicit ExactSums(const ExactPart& x) {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < PART; ++i) sums[i] = sum += to_binary64(x.codes[REVERSE ? PART - 1 - i : i]);
    }

    __device__ double total() const { return sums[PART - 1]; }

    __device__ double after(int i, double carry) const { return carry + sums[i]; }

    __device__ ExactResults results(double carry) const {
        ExactResults r;
#pragma unroll
        for (int i = 0; i < PART; ++i) r.codes[REVERSE ? PART - 1 - i : i] = finish::rounded(result_of(*this, i, carry));
        mark_not_numbers(*this, carry, r.codes);
        return r;
    }
};

struct GroupSums : PlanSums {
    using PlanSums::PlanSums;

    __device__ Results results(double carry) const {
        Results r = rounded_results(*this, carry);
        mark_not_numbers(*this, carry, r.codes);
        return r;
    }
};

// What a lane has.
#if EXACT
typedef ExactPart LanePart;
typedef ExactResults LaneResults;
typedef ExactSums PartSums;
#else
typedef Group LanePart;
typedef Results LaneResults;
typedef GroupSums PartSums;
#endif

}  // namespace tcu::scan
