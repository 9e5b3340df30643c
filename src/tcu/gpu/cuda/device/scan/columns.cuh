// Neighbouring columns of a thread that makes running sums down them: their numbers in a row, and their results.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), EXCLUSIVE and LAYOUT.
//
// A kernel's group of columns has `read`, which gives all its rows (Row) and says whether their numbers can be moved,
// `number`, one number of any kind, `is_whole`, whether all its columns exist, and `store`, which rounds and writes the
// results of a row.

#pragma once

#include "device/scan/numbers.cuh"

namespace tcu::scan {

constexpr int GRANULE = 16, SECTOR = 32;  // bytes: of a copy, and of memory that is read and written together
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
        return finish::rounded_pair(values[0], values[1]);
    else if constexpr (MOVES)
        return rounded_one(values[0]);
    else
        return finish::rounded(values[0]);
}

// The results of a row that lie side by side have one store, or two.
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

// The results of a row that lie STEP apart, of those columns that exist.  Two 16-bit ones are rounded at once, as one
// alone takes a branch where it is a bfloat16.
template <int STEP, int WIDTH>
__device__ inline void store_apart(finish::ResultCode* to, const double (&values)[WIDTH], int columns) {
    constexpr bool PAIRS = MOVES && sizeof(finish::ResultCode) == 2 && WIDTH > 1;
#pragma unroll
    for (int c = 0; c < WIDTH; c += PAIRS ? 2 : 1) {
        const auto codes = rounded_codes<PAIRS>(values + c);
        if (c < columns) to[c * STEP] = static_cast<finish::ResultCode>(codes);
        if (PAIRS && c + 1 < columns) to[(c + 1) * STEP] = static_cast<finish::ResultCode>(codes >> 16);
    }
}

// The totals of a group.  Returns whether its numbers can be moved.
template <typename ColumnsOfGroup, int WIDTH>
__device__ inline bool add_up(const ColumnsOfGroup& group, double (&totals)[WIDTH]) {
    typename ColumnsOfGroup::Row x[GROUP];
    if (group.read(x)) {
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            totals[c] = x[0].number(c);
#pragma unroll
            for (int i = 1; i < GROUP; ++i) totals[c] += x[i].number(c);
            if (MOVES) totals[c] *= UP;
        }
        return true;
    }
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) {
        totals[c] = group.number(0, c);
#pragma unroll 1
        for (int i = 1; i < GROUP; ++i) totals[c] += group.number(i, c);
    }
    return false;
}

// Writes the results of a group's numbers, where `carry` is the sum before it, which is never -0: of all rows, or of
// `left`.  Makes of `sums` the totals, divided by UP where MOVES.  Returns whether no result is a NaN.
template <bool WHOLE, typename ColumnsOfGroup, int WIDTH>
__device__ inline bool write_rows(const ColumnsOfGroup& group, const typename ColumnsOfGroup::Row (&x)[GROUP],
                                  finish::ResultCode* to, i64 stride, int left, const double (&carry)[WIDTH],
                                  double (&sums)[WIDTH]) {
    double values[WIDTH];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        double earlier[WIDTH];
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            earlier[c] = i ? values[c] : carry[c];
            sums[c] = i ? sums[c] + x[i].number(c) : x[i].number(c);
            values[c] = MOVES ? fma(sums[c], UP, carry[c]) : carry[c] + sums[c];
        }
        if (WHOLE || i < left) group.template store<WHOLE>(to, EXCLUSIVE ? earlier : values);
        to += stride;
    }
    bool is_number = true;  // a NaN anywhere would have made the last value NaN
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) is_number &= values[c] == values[c];
    return is_number;
}

// As write_rows.  Returns false where numbers or results are of other kinds.  Without a branch in each row, the
// additions of rows overlap.
template <typename ColumnsOfGroup, int WIDTH>
__device__ inline bool write_plain(const ColumnsOfGroup& group, finish::ResultCode* to, i64 stride, int left,
                                   const double (&carry)[WIDTH], double (&sums)[WIDTH]) {
    typename ColumnsOfGroup::Row x[GROUP];
    bool is_plain = group.read(x);
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) is_plain &= carry[c] - carry[c] == 0;
    if (!is_plain) return false;
    if (left >= GROUP && group.is_whole()) return write_rows<true>(group, x, to, stride, left, carry, sums);
    return write_rows<false>(group, x, to, stride, left, carry, sums);
}

// For any numbers of a column: writes its results, and returns the total.
template <typename ColumnsOfGroup>
__device__ __noinline__ double scan_any(ColumnsOfGroup group, finish::ResultCode* to, i64 stride, int left, double carry, int c) {
    double sum = 0, value = carry;
#pragma unroll 1
    for (int i = 0; i < left; ++i) {
        const double number = group.number(i, c), earlier = value;
        sum = i ? sum + number : number;
        value = carry + sum;
        const double result = EXCLUSIVE ? earlier : value;
        to[i * stride] = result != result ? finish::not_a_number() : finish::rounded(result);
    }
    return sum;
}

// Where results take the places of numbers: gives NaNs among those of a column the code of results.
template <typename ColumnsOfGroup>
__device__ __noinline__ void name_nans(ColumnsOfGroup group, int c) {
#pragma unroll 1
    for (int i = 0; i < GROUP; ++i) {
        const double value = group.number(i, c);
        if (value != value) *group.place_of_result(i, c) = finish::not_a_number();
    }
}

// The numbers of a row that a thread has, of columns that lie side by side, BESIDE at a time.
template <int UNIT, int BESIDE>
struct StagedNumbers {
    RowNumbers<BESIDE> parts[UNIT / BESIDE];

    __device__ double number(int c) const { return parts[c / BESIDE].number(c % BESIDE); }
    __device__ double value(int c) const { return to_binary64(parts[c / BESIDE].code(c % BESIDE)); }
};

// Of a group of UNIT columns, BESIDE of which lie side by side.
template <int UNIT, int BESIDE = UNIT>
struct RowsBeside {
    typedef StagedNumbers<UNIT, BESIDE> Row;
};

// A thread's group of UNIT columns in shared memory, whose rows lie PITCH bytes apart: columns side by side where rows
// are aligned; else STEP columns apart, and each row begins where it does in its BEGINS bytes.  Row i has the place of row
// i ^ key.
template <int UNIT, int STEP, int PITCH, int BEGINS = 16>
struct StagedGroup {
    static constexpr bool WHOLE_ROWS = LAYOUT == ALIGNED;
    static constexpr int BESIDE = WHOLE_ROWS ? UNIT : 1;
    typedef StagedNumbers<UNIT, BESIDE> Row;

    const char* rows;
    u32 skew, step;  // where rows begin anywhere: the address of the first, and bytes from one to the next
    int columns;     // that exist
    int key = 0;

    __device__ int begin(int i) const { return static_cast<int>((skew + i * step) % BEGINS); }
    __device__ const Code* row(int i) const {
        return reinterpret_cast<const Code*>(rows + (i ^ key) * PITCH + (WHOLE_ROWS ? 0 : begin(i)));
    }

    // Where a column is in a row.
    __device__ static int place(int c) { return WHOLE_ROWS ? c : c * STEP; }
    __device__ double number(int i, int c) const { return to_binary64(row(i)[place(c)]); }

    // So many rows from one on.
    template <int COUNT>
    __device__ void read_rows(Row (&x)[COUNT], int first) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int part = 0; part < UNIT / BESIDE; ++part)
                x[i].parts[part] = *reinterpret_cast<const RowNumbers<BESIDE>*>(row(first + i) + part * STEP);
    }

    // All rows.  Returns whether their numbers can be moved.
    __device__ bool read(Row (&x)[GROUP]) const {
        u32 found = 0;
        read_rows(x, 0);
#pragma unroll
        for (int i = 0; i < GROUP; ++i)
#pragma unroll
            for (int part = 0; part < UNIT / BESIDE; ++part) x[i].parts[part].look_for_others(found);
        return !MOVES || !found_others(found);
    }

    __device__ bool is_whole() const { return WHOLE_ROWS || columns == UNIT; }

    template <bool WHOLE>
    __device__ void store(finish::ResultCode* to, const double (&values)[UNIT]) const {
        if constexpr (WHOLE_ROWS)
            scan::store(to, values);
        else
            store_apart<STEP>(to, values, WHOLE ? UNIT : columns);
    }

    // Where results take the places of numbers.
    __device__ finish::ResultCode* place_of_result(int i, int c) const {
        return reinterpret_cast<finish::ResultCode*>(const_cast<Code*>(row(i))) + place(c);
    }
    __device__ void put(int i, const double (&values)[UNIT]) const { store<true>(place_of_result(i, 0), values); }
    __device__ void name_nans(int c) const { scan::name_nans(*this, c); }
};

}  // namespace tcu::scan
