// Losses of rows with a class each: tcu/model/cross_entropy.py says every operation.  Rows lie in registers and are added up as
// those of softmax are (exponentials.cu): each number is read once, with PASSES twice.
//
// A row that does not count is not read.  To read short ones before their classes are known took no less time (H200).
//
// Compiled with what reduce/rows_in_registers.cuh names, of which STRAIGHT is 0, and
//   SMOOTH  1: the mean of the losses of all classes has a share

#include "device/reduce/row_exponentials.cuh"

using namespace tcu;
using namespace tcu::reduce;

static_assert(!STRAIGHT);

#include "generated/cross_entropy/CrossEntropy.inc"

extern "C" __global__ void __launch_bounds__(BLOCK, resident(RESIDENT, BLOCK)) cross_entropy(const __grid_constant__ CrossEntropy p) {
    begin_row();
    const i64 number = row_to_read(p.rows), target = static_cast<const i64*>(p.targets)[number];
    const bool counts = target != p.ignored, fits = target >= 0 && target < p.length;
    const RowInMemory row(
        static_cast<const Code*>(p.data) + number * p.stride, counts ? static_cast<RowIndex>(p.length) : 0, thread_of_row());
    OwnNumbers own;
    Code of_class = 0;
    const auto find_class = [&](RowIndex first) {
        if (first == 0 && row.at == 0 && counts && fits) of_class = row.granules[row.beside + target];
    };

#if SMOOTH
    Working least = lowest();  // with its sign turned
    const Working most = largest_number(own, row, [&](RowIndex first) {
        least = larger(least, own.largest<TURNED>(row, first));
        find_class(first);
    });
#else
    const Working most = largest_number(own, row, find_class);
#endif

#if SMOOTH
    const Working distance = minus(most, -largest_of_row<1>(least));
    const bool is_finite = distance - distance == 0;
    const int shift = EXPONENTIAL_SCALE - max(is_finite ? exponent_of(distance) : 0, 0);
    const Working unit = rounded_real(power_of_two(shift));
    WholeSum deviations;
    const auto add_deviations = [&](RowIndex first) {
        Terms terms;
        add_terms(terms, row, first, [&](int i, int j) { return times(minus(own.number(i, j), most), unit); });
        deviations.add(terms);
    };
#else
    const auto add_deviations = [](RowIndex) {};
#endif
    const double total = total_of_exponentials(own, row, most, add_deviations, [](int, Working, Working) {});
#if SMOOTH
    const double sum = total_of_row<1>(deviations);
    const double mean = is_finite ? __dmul_rn(__ddiv_rn(sum, static_cast<double>(p.length)), power_of_two(-shift)) : -distance;
#endif

    if (row.at != 0 || !has_row(p.rows)) return;
    const bool usual = most - most == 0;  // neither NaN nor inf
    const double logs = usual ? elementary::log(__dmul_rn(total, EXPONENTIAL_UNIT)) : not_a_number();
    const Working over = usual ? rounded_real(__ddiv_rn(1.0, total)) : not_a_number();
    const Working all = usual ? rounded_real(__dadd_rn(most, logs)) : most;
    Working loss = not_a_number();
    if (counts && fits) loss = -minus(minus(real(of_class), most), rounded_real(logs));
#if SMOOTH
    loss = plus(times(loss, rounded_real(p.kept)), times(-rounded_real(__dsub_rn(mean, logs)), rounded_real(p.smoothing)));
#endif
    if (p.z_loss != 0) loss = plus(loss, times(times(all, all), rounded_real(p.z_loss)));
    static_cast<ResultNumber*>(p.out)[number] = counts ? rounded_code(loss) : 0;
    ResultNumber* const parts = static_cast<ResultNumber*>(p.parts) + 3 * number;
    parts[0] = rounded_code(most);
    parts[1] = rounded_code(over);
    parts[2] = rounded_code(all);
}
