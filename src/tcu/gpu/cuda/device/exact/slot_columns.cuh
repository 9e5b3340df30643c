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
#include "device/finish/result_code.cuh"
#include "device/finish/sixteen_bits.cuh"

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

// The sums of a lane's columns of listed rows.
struct ColumnSums {
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sums[COLUMNS] = {};
    PairRange seen;  // of all columns: one proof for them takes a quarter of the instructions
    int log;
#else
    DoubleSum sums[COLUMNS];
#endif

    // The first of the rows is there already; read(row) gives the others.
    template <typename Read>
    __device__ ColumnSums(const Vector& first, int count, Read read) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) add(first, c);
#pragma unroll 1
        for (int row = 1; row < count; row += ROWS) {
            Vector x[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                x[i].words = make_uint4(0, 0, 0, 0);
                if (row + i < count) x[i] = read(row + i);
            }
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) add(x[i], c);
        }
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
        log = 32 - __clz(count > 1 ? count - 1 : 0);
#endif
    }

#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    __device__ void add(const Vector& x, int c) {
        if (c % 2 == 0) seen.see(x.word[c / 2]);
        sums[c] += moved(x.word[c / 2], c % 2);
    }
    __device__ bool proved(int) const { return seen.fits(log); }
    // Two numbers whose sum it is.
    __device__ double2 pair(int c) const { return {sums[c] * UP, 0}; }
    __device__ bool store_mean(int c, int count, void* out) const {
        store_sum(parts_of(sums[c], seen), count, out, TARGET);
        return true;
    }
#else
    __device__ void add(const Vector& x, int c) { sums[c].add(to_binary64(x.codes[c])); }
    __device__ bool proved(int c) const { return !sums[c].leftover && sums[c].high - sums[c].high == 0; }
    __device__ double2 pair(int c) const { return {sums[c].high, sums[c].low}; }
    __device__ bool store_mean(int c, int count, void* out) const { return store_double_sum(sums[c], count, out, TARGET); }
#endif
};

__device__ __noinline__ void sum_rows_in_limbs(const Code* data, const u32* rows, i64 stride, i64 count, i64* limbs) {
    sum_numbers_in_limbs(count, limbs, [=](i64 i) { return data[rows[i] * stride]; });
}

// Called by a whole warp: of the lanes that have some left, one after another, whole sums of columns in limbs.
__device__ inline void sum_what_is_left(const ListedRows& p, u32 left, i64 slot, i64 column, i64* limbs) {
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 its_slot = __shfl_sync(ALL, slot, who), its_column = __shfl_sync(ALL, column, who);
        const i64 first = p.edges[its_slot], count = p.edges[its_slot + 1] - first;
        for (u32 some = __shfl_sync(ALL, left, who); some; some &= some - 1) {
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

    // Returns the columns without a proof.
    template <typename Read>
    __device__ u32 of(const Vector& first, int count, Read read) {
        u32 left = 0;
        if (count <= 1 || (count == 2 && IS_SAME_FORMAT && !MEAN)) {
            Vector sums = first;
            if constexpr (IS_SAME_FORMAT && !MEAN)
                if (count == 2) add_rounded(sums, read(1));
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
            return 0;
        }
        const ColumnSums own(first, count, read);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            bool done = own.proved(c);
            const double2 sum = own.pair(c);
            if (done && MEAN)
                done = own.store_mean(c, count, &codes[c]);
            else if (done && PLAIN)
                codes[c] = finish::rounded(sum.x);  // the sum of two numbers is not -0
            else if (done)
                store_doubles(sum.x, sum.y, &codes[c], TARGET);
            left |= static_cast<u32>(!done) << c;
        }
        return left;
    }

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

// A slot of many rows, cut into pieces.
__device__ __noinline__ void list_pieces(const ListedRows& p, u32 slot) {
    const i64 count = p.edges[slot + 1] - p.edges[slot];
    const u32 pieces = static_cast<u32>((count + p.most - 1) / p.most), first = atomicAdd(p.items, pieces);
    p.long_slots[atomicAdd(p.longs, 1u)] = {slot, first};
    for (u32 i = 0; i < pieces; ++i) p.pieces[first + i] = {slot, i};
}

}  // namespace tcu::exact
