// Exact sums of the columns of rows that an index sends to a slot.
//
// Compiled with
//   COLUMNS  of a lane: what it loads at once, up to 16 bytes
//   ROWS     loads of a lane in flight
//   RESULT   the format of the results, as finish::Target numbers them
//   MEAN     1: the sums are divided by the numbers of rows

#pragma once

#include "device/exact/double_sum.cuh"
#include "device/exact/lane_sums.cuh"
#include "device/finish/rounded_pair.cuh"

namespace tcu::exact {

#include "generated/index_sums/ListedPiece.inc"
#include "generated/index_sums/ListedRows.inc"

constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);
constexpr bool IS_SAME_FORMAT = RESULT == ELEMENT;  // both are numbered alike

// The sums of one number each: -0 is 0, and a NaN has the bits of all.
__device__ inline void make_sums(Vector& x) {
    constexpr Code SIGN = static_cast<Code>(1) << (8 * sizeof(Code) - 1), INFINITE = static_cast<Code>(FIELDS) << FRACTION;
    if constexpr (sizeof(Code) == 2) {
        // Two numbers at a time: their highest bits tell what is no zero, and what is above inf.
        constexpr u32 SIGNS = 0x80008000, ABOVE = static_cast<u32>(SIGN - 1 - INFINITE) * 0x10001u;
        u32 nans = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 digits = x.word[i] & ~SIGNS;
            x.word[i] &= ~SIGNS | (digits + ~SIGNS);
            nans |= digits + ABOVE;
        }
        if (!(nans & SIGNS)) return;
    }
#pragma unroll
    for (int i = 0; i < PER_LOAD; ++i) {
        const Code digits = x.codes[i] & (SIGN - 1);
        x.codes[i] = digits > INFINITE ? SIGN - 1 : digits == 0 ? 0 : x.codes[i];
    }
}

// Adds two numbers of each column, rounded once: binary32 has more than twice the digits of 16-bit numbers, and two more, so that
// rounding to it first changes nothing (Figueroa, ACM SIGNUM Newsletter 30(3), 1995).
__device__ inline void add_rounded(Vector& x, const Vector& y) {
#pragma unroll
    for (int i = 0; i < PER_LOAD; i += sizeof(Code) == 2 ? 2 : 1) {
        if constexpr (sizeof(Code) == 2)
            x.word[i / 2] = finish::rounded_pair(__fadd_rn(to_binary32(x.codes[i]), to_binary32(y.codes[i])),
                                                 __fadd_rn(to_binary32(x.codes[i + 1]), to_binary32(y.codes[i + 1])));
        else if constexpr (sizeof(Code) == 4)
            x.codes[i] = __float_as_uint(__fadd_rn(__uint_as_float(x.codes[i]), __uint_as_float(y.codes[i])));
        else
            x.codes[i] = __double_as_longlong(__dadd_rn(__longlong_as_double(x.codes[i]), __longlong_as_double(y.codes[i])));
    }
}

// The first of the rows is there already; read(row) gives the others, in their order.
template <typename Sums, typename Read>
__device__ inline void add_rows(Sums& sums, const Vector& first, int count, Read read) {
    sums.add(first);
#pragma unroll 1
    for (int row = 1; row < count; row += ROWS) {
        Vector x[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            x[i].words = make_uint4(0, 0, 0, 0);
            if (row + i < count) x[i] = read(row + i);
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) sums.add(x[i]);
    }
}

#if ELEMENT != BINARY64
// A lane's columns of listed rows, in one number of binary64 each, and whether that is exact: a proof for all columns together, by
// the largest and the smallest number.
struct PlainSums {
    double sums[COLUMNS] = {};
#if ELEMENT == BINARY32
    u32 largest = 0;              // of codes with the sign bit set, less one: so zero stands apart
    int smallest = 0x7fffffff;

    __device__ void add(const Vector& x) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const u32 code = (x.word[c] | 0x80000000) - 1;
            largest = max(largest, code);
            smallest = min(smallest, static_cast<int>(code));
            sums[c] += to_binary64(x.codes[c]);
        }
    }
    __device__ bool fit(int log) const {
        return largest < (0x80000000 | static_cast<u32>(FIELDS) << FRACTION) - 1 &&
               largest - static_cast<u32>(smallest) <= static_cast<u32>(52 - FRACTION - log) << FRACTION;
    }
    __device__ double number(int c) const { return sums[c]; }
    __device__ bool store_mean(int c, int count, void* out) const { return store_double_sum({sums[c], 0}, count, out, TARGET); }
#else
    PairRange seen;

    __device__ void add(const Vector& x) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (c % 2 == 0) seen.see(x.word[c / 2]);
            // Conversions have a unit of their own.  With every other number converted, the integer unit has less to do: 0.98 of
            // the time.
            sums[c] += c % 2 ? moved(x.word[c / 2], 1) : to_binary64(x.codes[c]);
        }
    }
    __device__ bool fit(int log) const { return seen.fits(log); }
    __device__ double number(int c) const { return c % 2 ? sums[c] * UP : sums[c]; }
    __device__ bool store_mean(int c, int count, void* out) const {
        store_sum(parts_of(c % 2 ? sums[c] : sums[c] / UP, seen), count, out, TARGET);
        return true;
    }
#endif
    __device__ bool proved(int count) const { return fit(32 - __clz(count > 1 ? count - 1 : 0)); }
};
#endif

#if ELEMENT == BINARY32 || ELEMENT == BINARY64
// The same in two numbers of binary64 each.  They take 13 operations of binary64 a number: those of binary32, of which a
// multiprocessor reads 4.5 a clock, took all that it does.
struct DoubleSums {
    DoubleSum sums[COLUMNS];

    __device__ void add(const Vector& x) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sums[c].add(to_binary64(x.codes[c]));
    }
    __device__ bool proved(int c) const { return !sums[c].leftover && sums[c].high - sums[c].high == 0; }
};
#endif

// Stores two numbers for each column of a piece of a slot, whose sum is that of the piece; NaN where there is no proof.  again(row)
// reads any row once more.
template <typename Read, typename Again>
__device__ inline void store_pairs(double* to, const Vector& first, int count, Read read, Again again) {
    double2* const pairs = reinterpret_cast<double2*>(to);
    const double2 unknown = {__longlong_as_double(~0ll), 0};
#if ELEMENT != BINARY64
    PlainSums plain;
    add_rows(plain, first, count, read);
    const bool is_proved = plain.proved(count);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) pairs[c] = is_proved ? double2{plain.number(c), 0} : unknown;
    if (is_proved || PLAIN) return;
#endif
#if ELEMENT == BINARY32 || ELEMENT == BINARY64
    DoubleSums sums;
    if constexpr (ELEMENT == BINARY32) add_rows(sums, again(0), count, again);
    else add_rows(sums, first, count, read);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) pairs[c] = sums.proved(c) ? double2{sums.sums[c].high, sums.sums[c].low} : unknown;
#endif
}

__device__ __noinline__ void sum_rows_in_limbs(const Code* data, const u32* rows, i64 stride, i64 count, i64* limbs) {
    sum_numbers_in_limbs(count, limbs, [=](i64 i) { return data[rows[i] * stride]; });
}

// What a lane has left of a slot that is cut into pieces; otherwise a bit for each column without a proof.
constexpr u32 IS_LONG = 1u << 31;

// Called by a whole warp.
__device__ inline void list_pieces(const ListedRows& p, u32 slot) {
    const u32 lane = threadIdx.x % WARP, pieces = static_cast<u32>((p.edges[slot + 1] - p.edges[slot] + p.most - 1) / p.most);
    u32 first = 0;
    if (lane == 0) {
        first = atomicAdd(p.items, pieces);
        p.long_slots[atomicAdd(p.longs, 1u)] = {slot, first};
    }
    first = __shfl_sync(ALL, first, 0);
    for (u32 i = lane; i < pieces; i += WARP) p.pieces[first + i] = {slot, i};
}

// Called by a whole warp: for each lane that has something left, lists its slot's pieces, or adds up whole columns in limbs.
__device__ inline void do_what_is_left(const ListedRows& p, u32 left, i64 slot, i64 column, i64* limbs) {
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 its_slot = __shfl_sync(ALL, slot, who), its_column = __shfl_sync(ALL, column, who);
        u32 some = __shfl_sync(ALL, left, who);
        if (some & IS_LONG) {
            list_pieces(p, static_cast<u32>(its_slot));
            continue;
        }
        const i64 first = p.edges[its_slot], count = p.edges[its_slot + 1] - first;
        for (; some; some &= some - 1) {
            const i64 at = its_column + (__ffs(some) - 1);
            const Code* const data = static_cast<const Code*>(p.data) + at;
            const u32* const rows = p.rows + first;
            const i64 stride = p.stride;
            sum_rows_in_limbs(data, rows, stride, count, limbs);
            if (threadIdx.x % WARP == 0)
                store_all_limbs(limbs, MEAN ? count : 1, finish::place(p.out, its_slot * p.columns + at, TARGET), TARGET);
            __syncwarp();
        }
    }
}

// Results of neighbouring columns, which are stored at once.
union SlotResults {
    finish::ResultCode codes[COLUMNS];
    u64 wide[(COLUMNS * sizeof(finish::ResultCode) + 7) / 8];
    u32 words[(COLUMNS * sizeof(finish::ResultCode) + 3) / 4];

    // Returns the columns without a proof, a bit for each.  again(row) reads any row once more.
    template <typename Read, typename Again>
    __device__ u32 of(const Vector& first, int count, Read read, Again again) {
        if (count <= 1 || (count == 2 && IS_SAME_FORMAT && !MEAN)) {
            Vector second;
            if (count == 2) second = read(1);
            of_few(first, second, count);
            return 0;
        }
#if ELEMENT != BINARY64
        PlainSums plain;
        add_rows(plain, first, count, read);
        if (plain.proved(count)) return round(plain, count);
#endif
#if ELEMENT == BINARY32 || ELEMENT == BINARY64
        DoubleSums sums;
        if constexpr (ELEMENT == BINARY32) add_rows(sums, again(0), count, again);
        else add_rows(sums, first, count, read);
        return round(sums, count);
#else
        return (1u << COLUMNS) - 1;
#endif
    }

    // Of one row, of none, or of two in their own format.
    __device__ void of_few(Vector sums, const Vector& second, int count) {
        if constexpr (IS_SAME_FORMAT && !MEAN)
            if (count == 2) add_rounded(sums, second);
        if constexpr (IS_SAME_FORMAT) make_sums(sums);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (MEAN && count == 0)
                codes[c] = finish::not_a_number();
            else if constexpr (IS_SAME_FORMAT)
                codes[c] = static_cast<finish::ResultCode>(sums.codes[c]);
            else
                finish::store_rounded(&codes[c], to_binary64(sums.codes[c]), TARGET);
        }
    }

#if ELEMENT != BINARY64
    __device__ u32 round(const PlainSums& sums, int count) {
        u32 left = 0;
        if constexpr (!MEAN && sizeof(finish::ResultCode) == 2 && COLUMNS % 2 == 0) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 2) words[c / 2] = finish::rounded_pair(sums.number(c), sums.number(c + 1));
        } else {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if constexpr (MEAN) left |= static_cast<u32>(!sums.store_mean(c, count, &codes[c])) << c;
                else codes[c] = finish::rounded(sums.number(c));  // which is not -0
            }
        }
        return left;
    }
#endif
#if ELEMENT == BINARY32 || ELEMENT == BINARY64
    __device__ u32 round(const DoubleSums& given, int count) {
        u32 left = 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const DoubleSum& sum = given.sums[c];
            bool is_done = given.proved(c);
            if (is_done && MEAN)
                is_done = store_double_sum(sum, count, &codes[c], TARGET);
            else if (is_done)
                store_doubles(sum.high, sum.low, &codes[c], TARGET);
            left |= static_cast<u32>(!is_done) << c;
        }
        return left;
    }
#endif

    __device__ void store(void* to) const {
        constexpr int STORED = COLUMNS * sizeof(finish::ResultCode);
        if constexpr (STORED % 16 == 0) {
#pragma unroll
            for (int i = 0; i < STORED / 16; ++i) static_cast<ulonglong2*>(to)[i] = ulonglong2{wide[2 * i], wide[2 * i + 1]};
        } else if constexpr (STORED == 8) {
            *static_cast<u64*>(to) = wide[0];
        } else if constexpr (STORED == 4) {
            *static_cast<u32*>(to) = words[0];
        } else {
            *static_cast<finish::ResultCode*>(to) = codes[0];
        }
    }
};

}  // namespace tcu::exact
