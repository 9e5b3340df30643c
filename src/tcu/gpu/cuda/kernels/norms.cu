// Rows over the root of their mean square, rows of mean 0 and variance 1, and rows of norm 1: tcu/model/norms.py says every
// operation.  The sums are of whole numbers, so threads add up what suits them, in any order.
//
// A row has LANES lanes of a warp, or all WARPS of a block or of a cluster of blocks, which keep it in registers: each number is
// read once, and each result written once.  With PASSES it is longer than that, and read once for each step.
//
// The floor is memory.  Norms of binary32 reach 0.93 to 0.94 of copying for rows of 1000 to 8192 numbers; rms_norm of bfloat16
// 0.84 to 0.90, at 32768 only 0.60, where torch.compile's has 0.70; layer_norm of bfloat16 0.6, where instructions are
// the limit.  Rows that are read several times reach 0.35 to 0.5 (H200).  rms_norm of rows that a cluster
// keeps (H100): of binary32 0.80 of copying at 50,257 numbers, 0.92 at 65,536, 0.87 at 131,072, 0.77 at 262,144; of bfloat16 0.56,
// 0.70, 0.67, 0.56.
//
// Compiled with what reduce/rows_in_registers.cuh names, and
//   WEIGHT, BIAS  1: results are multiplied by a number for each place of a row, and one is added then, each step rounded
//   GIVEN  1: results are multiplied by gradients (reduce/gradients.cuh), which have rows of their own
//   FINISH  UNIT: x over the root of the mean square; STANDARD: the same of deviations from the mean; DIRECTION: x over the norm

#include "device/reduce/gradients.cuh"

using namespace tcu;
using namespace tcu::reduce;

#define UNIT 0
#define STANDARD 1
#define DIRECTION 2

#define CENTRED (FINISH == STANDARD)

#include "generated/norms/NORM_LIFTS.inc"
#include "generated/norms/Norms.inc"

// What a row's numbers become: first multiplied by a power of two, then less the mean, in two parts.
struct Deviation {
    Working lift, high = 0, low = 0;

    __device__ Working of(Working x) const {
        const Working lifted = times(x, lift);
        return CENTRED ? minus(minus(lifted, high), low) : lifted;
    }
};

// The factors and terms of a vector's places in a row.
struct Beside {
    Working factors[PER_LOAD], terms[PER_LOAD];

    static __device__ void load(Working (&numbers)[PER_LOAD], const Working* line, RowIndex offset, RowIndex length) {
        constexpr int TOGETHER = 16 / sizeof(Working);
        if constexpr (!PARTIAL) {  // vectors begin at multiples of their length, and lie in the row
#pragma unroll
            for (int j = 0; j < PER_LOAD; j += TOGETHER) {
                const uint4 words = __ldg(reinterpret_cast<const uint4*>(line + offset + j));
                memcpy(numbers + j, &words, sizeof words);
            }
        } else {
#pragma unroll
            for (int j = 0; j < PER_LOAD; ++j)
                numbers[j] = offset + j >= 0 && offset + j < length ? __ldg(line + offset + j) : Working(0);
        }
    }

    __device__ void load(const Norms& p, RowIndex offset) {
        const RowIndex length = static_cast<RowIndex>(p.length);
        if (WEIGHT) load(factors, static_cast<const Working*>(p.weight), offset, length);
        if (BIAS) load(terms, static_cast<const Working*>(p.bias), offset, length);
    }

    __device__ Working of(Working x, int j) const {
        if (WEIGHT) x = times(x, factors[j]);
        return BIAS ? plus(x, terms[j]) : x;
    }
};

// The sum of terms of the row's numbers.
template <int WHICH, int PASS, typename Term>
__device__ inline WholeSum sum_of_row(OwnNumbers& own, const RowInMemory& row, Term term) {
    WholeSum sum;
    every_step<PASS>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first, 0);
        Terms terms;
        each(own, row, first, [&](Working x) { terms.add(term(x)); });
        sum.add(terms);
    });
    return whole_sum_of_row<WHICH>(sum);
}

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) norms(const __grid_constant__ Norms p) {
    begin_row();
    const i64 number = row_number();
    const bool is_there = number < p.rows;
    const RowIndex length = is_there ? static_cast<RowIndex>(p.length) : 0;
    const RowInMemory row(static_cast<const Code*>(p.data) + (is_there ? number * p.stride : 0), length, thread_of_row());
    const double count = static_cast<double>(p.length);
    OwnNumbers own;

    // The largest number, and the largest with its sign turned.
    Working most = CENTRED ? lowest() : 0, least = lowest();
    every_step<0>(row, [&](RowIndex first) {
        own.load(row, first, 0);
        each(own, row, first, [&](Working x) {
            most = larger(most, CENTRED ? x : fabs(x));
            if (CENTRED) least = larger(least, -x);
        });
    });
    most = largest_of_row<0>(most);
    if (CENTRED) least = largest_of_row<1>(least);
    const Working largest = CENTRED ? larger(most, least) : most;
    const bool usual = largest - largest == 0;  // neither NaN nor inf

    const int exponent = usual ? max(exponent_of(largest), LOWEST) : 0;
    const bool is_small = usual && exponent < SMALL && largest > 0, is_large = usual && exponent > LARGE;
    const int lift = is_small ? p.up : is_large ? DOWN : 0;
    const double eps = is_small ? p.eps_up : is_large ? p.eps_down : p.eps;
    Deviation deviation;
    deviation.lift = rounded_real(power_of_two(lift));
    Working distance = times(largest, deviation.lift);
#if CENTRED
    const int scale = SCALE - max(exponent_of(usual ? distance : 0), LOWEST);
    const Working unit = rounded_real(power_of_two(scale));
    WholeSum sum = sum_of_row<0, 1>(own, row, [&](Working x) { return times(times(x, deviation.lift), unit); });
    const double mean = __dmul_rn(__ddiv_rn(sum.value(), count), power_of_two(-scale));
    const Working high = rounded_real(mean);
#if WIDE
    sum.take_off(times(high, unit), p.length);
    deviation.low = __dmul_rn(__ddiv_rn(sum.value(), count), power_of_two(-scale));
#else
    deviation.low = rounded_real(__dsub_rn(mean, high));
#endif
    deviation.high = high;
    distance = larger(fabs(deviation.of(most)), fabs(deviation.of(-least)));
#endif
    const int half = SCALE / 2 - max(exponent_of(usual ? distance : 0), LOWEST);
    const Working root = rounded_real(power_of_two(half));
    const WholeSum squares = sum_of_row<1, CENTRED + 1>(own, row, [&](Working x) {
        const Working scaled = times(deviation.of(x), root);
        return times(scaled, scaled);
    });
    const double mean_square = FINISH == DIRECTION ? squares.value() : __ddiv_rn(squares.value(), count);
    const double square = __dmul_rn(__dmul_rn(mean_square, power_of_two(-half)), power_of_two(-half));
    const double divisor = FINISH == DIRECTION ? fmax(__dsqrt_rn(square), eps) : __dsqrt_rn(__dadd_rn(square, eps));
    Working over = rounded_real(__ddiv_rn(1.0, divisor));
    if (!usual) over = CENTRED || largest != largest ? __uint_as_float(0x7fffffff) : 0;

    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + (is_there ? number * p.out_stride : 0);
    every_step<CENTRED + 2>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first, 0);
#if GIVEN
        const GivenCode* const given = static_cast<const GivenCode*>(p.given) + number * p.given_stride;
        Gradients gradients;
        store_at_places(own, row, out, first, [&](RowIndex offset) { gradients.load(given, offset, length); },
                        [&](Working x, int j) { return times(gradients.number(j), times(deviation.of(x), over)); });
#elif WEIGHT || BIAS
        Beside beside;
        store_at_places(own, row, out, first, [&](RowIndex offset) { beside.load(p, offset); },
                        [&](Working x, int j) { return beside.of(times(deviation.of(x), over), j); });
#else
        store(own, row, out, first, [&](Working x) { return times(deviation.of(x), over); });
#endif
    });
}
