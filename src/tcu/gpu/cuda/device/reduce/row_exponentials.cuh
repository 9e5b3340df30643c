// Exponentials of a row's numbers less the largest of them, and their sum.

#pragma once

#include "device/elementary/functions.cuh"
#include "device/reduce/rows_in_registers.cuh"

namespace tcu::reduce {

#if WIDE
constexpr Working LOWEST_DIFFERENCE = -746.0;
constexpr int EXPONENTIAL_SCALE = elementary::SCALE_64;
constexpr double EXPONENTIAL_UNIT = 0x1p-80;
#else
constexpr Working LOWEST_DIFFERENCE = -104.0f;
constexpr int EXPONENTIAL_SCALE = elementary::SCALE;
constexpr double EXPONENTIAL_UNIT = 0x1p-44;
#endif

__device__ inline Working exponential(Working difference) {
    return elementary::exp_scaled(not_below(difference, LOWEST_DIFFERENCE));
}

__device__ inline Working not_a_number() { return __uint_as_float(0x7fffffff); }

// The largest number of a row, in all its threads; NaN where there is one.  A pass, the first one; `also(first)` does something
// else with a step's numbers.
template <typename Also>
__device__ inline Working largest_number(OwnNumbers& own, const RowInMemory& row, Also also) {
    Working most = lowest();
    every_step<0>(row, [&](RowIndex first) {
        own.load(row, first);
        most = larger(most, own.largest<OWN>(row, first));
        also(first);
    });
    return largest_of_row(most);
}

// The sum of a row's exponentials, in units of EXPONENTIAL_UNIT, in all its threads.  The second pass; `keep(i, d, e)` gets
// number i of a step less the largest, and the exponential of that, after `also(first)`.
template <typename Also, typename Keep>
__device__ inline double total_of_exponentials(OwnNumbers& own, const RowInMemory& row, Working most, Also also, Keep keep) {
    WholeSum sum;
    every_step<1>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first);
        also(first);
        Terms terms;
        add_terms(terms, row, first, [&](int i, int j) {
            const Working d = minus(own.number(i, j), most), e = exponential(d);
            keep(i * PER_LOAD + j, d, e);
            return e;
        });
        sum.add(terms);
    });
    return total_of_row(sum);
}

}  // namespace tcu::reduce
