// Rows over the root of their mean square, rows of mean 0 and variance 1, and rows of norm 1: tcu/model/norms.py says every
// operation.  The sums are of whole numbers, so threads add up what suits them, in any order.
//
// A row has LANES lanes of a warp, or all WARPS of a block or of a cluster of blocks, which keep it in registers: each number is
// read once, and each result written once.  With PASSES it is longer than that, and read once for each step.
//
// The floor is memory, and of 16 bits instructions: 4.2 TB/s of copying leave 31 for a number; rms_norm has about 15, layer_norm 25.
// Of copying's rate rms_norm reaches 0.95 to 0.99 for rows of 256 to 131,072 numbers, but 0.91 of 16,384 of bfloat16; of 50,257 0.92 of
// bfloat16 and 0.85 of binary32; layer_norm of binary32 0.97 to 0.99 up to 8192, 0.85 of 32,768 and 0.72 of 131,072, of bfloat16 0.86 to
// 0.93 up to 8192, 0.73 of 16,384, 0.87 of 32,768 and 0.78 of 131,072.  Longer rows, which are read several times, reach 0.35 to 0.5 (H200).
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
#define APART (sizeof(Code) == 2)  // whether rows that are not multiplied have a text of their own
#define MAY_LIFT (ELEMENT != BINARY16)  // whose numbers are between the ends, or 0

#include "generated/norms/NORM_LIFTS.inc"
#include "generated/norms/Norms.inc"

// What a row's numbers become: first multiplied by a power of two, where LIFTED, then less the mean, in two parts.
template <bool LIFTED>
struct Deviation {
    Working lift, high = 0, low = 0;

    __device__ Working lifted(Working x) const { return LIFTED ? times(x, lift) : x; }
    __device__ Working of(Working x) const { return CENTRED ? minus(minus(lifted(x), high), low) : lifted(x); }
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

// With CODES centred numbers are converted again from here on: converted ones take twice the registers, and rows of 32,768 numbers of
// bfloat16 spilled 116 words.  Norms that are not centred spill more words with this than without.
__device__ inline void forget_numbers(OwnNumbers& own) {
#if CODES && CENTRED
#pragma unroll
    for (Vector& v : own.v)
#pragma unroll
        for (u32& word : v.word) word = warp::opaque(word);
#endif
}

// The sum of terms of the row's numbers.
template <int WHICH, int PASS, typename Term>
__device__ inline WholeSum sum_of_row(OwnNumbers& own, const RowInMemory& row, Term term) {
    WholeSum sum;
    every_step<PASS>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first);
        forget_numbers(own);
        Terms terms;
        add_terms(terms, row, first, [&](int i, int j) { return term(own.number(i, j)); });
        sum.add(terms);
    });
    return whole_sum_of_row<WHICH>(sum);
}

// What is known of a row's numbers: the largest, the largest with its sign turned, and the exponent of what multiplies them.
struct Ends {
    Working most, least;
    int lift;
    double eps;
    bool usual;  // neither NaN nor inf

    __device__ Working largest() const { return CENTRED ? larger(most, least) : most; }
};

// LIFTED: some row of the warp is multiplied by another power of two than 1.  All others are spared the multiplications: an eighth of
// the instructions of rows of mean 0 and variance 1.
template <bool LIFTED>
__device__ inline void store_norms(OwnNumbers& own, const RowInMemory& row, const Norms& p, i64 number, const Ends& ends) {
    const double count = static_cast<double>(p.length);
    const bool usual = ends.usual;
    Deviation<LIFTED> deviation;
    deviation.lift = rounded_real(power_of_two(ends.lift));
    const Working largest = ends.largest();
    Working distance = deviation.lifted(largest);
#if CENTRED
    const int scale = SCALE - max(exponent_of(usual ? distance : 0), LOWEST);
    const Working unit = rounded_real(power_of_two(scale));
    WholeSum sum = sum_of_row<0, 1>(own, row, [&](Working x) { return times(deviation.lifted(x), unit); });
    const double mean = __dmul_rn(__ddiv_rn(sum.value(), count), power_of_two(-scale));
    const Working high = rounded_real(mean);
#if WIDE
    sum.take_off(times(high, unit), p.length);
    deviation.low = __dmul_rn(__ddiv_rn(sum.value(), count), power_of_two(-scale));
#else
    deviation.low = rounded_real(__dsub_rn(mean, high));
#endif
    deviation.high = high;
    distance = larger(fabs(deviation.of(ends.most)), fabs(deviation.of(-ends.least)));
#endif
    const int half = SCALE / 2 - max(exponent_of(usual ? distance : 0), LOWEST);
    const Working root = rounded_real(power_of_two(half));
    const WholeSum squares = sum_of_row<1, CENTRED + 1>(own, row, [&](Working x) {
        const Working scaled = times(deviation.of(x), root);
        return times(scaled, scaled);
    });
    const double mean_square = FINISH == DIRECTION ? squares.value() : __ddiv_rn(squares.value(), count);
    const double square = __dmul_rn(__dmul_rn(mean_square, power_of_two(-half)), power_of_two(-half));
    const double divisor = FINISH == DIRECTION ? fmax(__dsqrt_rn(square), ends.eps) : __dsqrt_rn(__dadd_rn(square, ends.eps));
    Working over = rounded_real(__ddiv_rn(1.0, divisor));
    if (!usual) over = CENTRED || largest != largest ? __uint_as_float(0x7fffffff) : 0;

    if (!has_row(p.rows)) return;
    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + number * p.out_stride;
    every_step<CENTRED + 2>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first);
        forget_numbers(own);
        const auto norm = [&](int i, int j) { return times(deviation.of(own.number(i, j)), over); };
#if GIVEN
        const GivenCode* const given = static_cast<const GivenCode*>(p.given) + number * p.given_stride;
        Gradients gradients;
        store_at_places(row, out, first, [&](RowIndex offset) { gradients.load(given, offset, row.length); },
                        [&](int i, int j) { return times(gradients.number(j), norm(i, j)); });
#elif WEIGHT || BIAS
        Beside beside;
        store_at_places(row, out, first, [&](RowIndex offset) { beside.load(p, offset); },
                        [&](int i, int j) { return beside.of(norm(i, j), j); });
#else
        store(row, out, first, norm);
#endif
    });
}

extern "C" __global__ void __launch_bounds__(BLOCK, resident(RESIDENT, BLOCK)) norms(const __grid_constant__ Norms p) {
    begin_row();
    const i64 number = row_to_read(p.rows);
    const RowInMemory row(static_cast<const Code*>(p.data) + number * p.stride, static_cast<RowIndex>(p.length), thread_of_row());
    OwnNumbers own;
    Ends ends = {CENTRED ? lowest() : 0, lowest()};
    every_step<0>(row, [&](RowIndex first) {
        own.load(row, first);
        ends.most = larger(ends.most, own.largest<CENTRED ? OWN : NONE>(row, first));
        if (CENTRED) ends.least = larger(ends.least, own.largest<TURNED>(row, first));
    });
    ends.most = largest_of_row<0>(ends.most);
    if (CENTRED) ends.least = largest_of_row<1>(ends.least);

    const Working largest = ends.largest();
    ends.usual = largest - largest == 0;
    const int exponent = ends.usual ? max(exponent_of(largest), LOWEST) : 0;
    const bool is_small = ends.usual && exponent < SMALL && largest > 0, is_large = ends.usual && exponent > LARGE;
    ends.lift = is_small ? p.up : is_large ? DOWN : 0;
    ends.eps = is_small ? p.eps_up : is_large ? p.eps_down : p.eps;
    if (!APART || (MAY_LIFT && __any_sync(ALL, is_small || is_large)))
        store_norms<true>(own, row, p, number, ends);
    else
        store_norms<false>(own, row, p, number, ends);
}
