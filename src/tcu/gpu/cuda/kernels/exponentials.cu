// Softmax, its logarithm, and the logarithm of the sum of exponentials, of rows: tcu/model/exponentials.py says every
// operation.  The sum is one of whole numbers, so threads add up what suits them, in any order.  And the gradients of the two
// logarithms, which are made of the softmax (tcu/surfaces/torch/row_derivatives.py): each product is of binary32.
//
// A row has LANES lanes of a warp, or all WARPS of a block or of a cluster of blocks, which keep it in registers: each number is
// read once, and each result written once.  With PASSES it is longer than that, and read three times.
//
// Vectors are whole granules of 16 bytes of memory, wherever the row begins; elements beside it count as -inf, whose
// exponentials are 0.
//
// The floor is memory, and of 16 bits instructions: 4.2 TB/s of copying leave 31 for a number of softmax, which has about 22, and
// reading leaves 14 of 19 to 22.  Of copying's rate softmax reaches, of bfloat16, 0.95 to 0.98 for rows of up to 8192 numbers, and where a
// cluster keeps a row 0.80 of 16,384, 0.73 of 32,768 and 0.64 of 131,072; of binary32 0.95 to 0.99, of 50,257 numbers 0.90.  The
// logarithms of sums of bfloat16 reach 0.54 to 0.65 up to 131,072 numbers, of 50,257 0.49; of binary32 0.93 to 1.05 up to 16,384, 0.79 of
// 131,072.  Longer rows, which are read several times, reach 0.4 to 0.5 (H200).
//
// What a thread does once for a row counts: 32 numbers have 560 instructions of their own, and had 250 besides.  Where threads do not ask
// whether their row is there, and one address serves all of a row's loads, it is 130: softmax of 8192 numbers of bfloat16 took 132 us
// in place of 147 (H200).
//
// Compiled with what reduce/rows_in_registers.cuh names, and
//   FINISH  SHARE: e / S; LOG_SHARE: its logarithm; LOG: m + log S, a number for each row;
//           OF_LOG: e / S times a number of each row, 0 times it where all of a row is -inf;
//           OF_LOG_SHARE: gradients (reduce/gradients.cuh), which have rows of their own, less that

#include "device/finish/store.cuh"
#include "device/reduce/gradients.cuh"
#include "device/reduce/row_exponentials.cuh"

using namespace tcu;
using namespace tcu::reduce;

#define SHARE 0
#define LOG_SHARE 1
#define LOG 2
#define OF_LOG 3
#define OF_LOG_SHARE 4

#define KEPT (FINISH != LOG && !CODES && !PASSES)  // differences or exponentials

#include "generated/exponentials/Exponentials.inc"

extern "C" __global__ void __launch_bounds__(BLOCK, resident(RESIDENT, BLOCK)) exponentials(const __grid_constant__ Exponentials p) {
    begin_row();
    const i64 number = row_to_read(p.rows);
    const RowIndex length = static_cast<RowIndex>(p.length);
    const RowInMemory row(static_cast<const Code*>(p.data) + number * p.stride, length, thread_of_row());
    OwnNumbers own;
    const Working most = largest_number(own, row, [](RowIndex) {});
    [[maybe_unused]] Working kept[COUNT];
    const auto keep = [&](int i, Working d, Working e) {
        if (KEPT) kept[i] = FINISH == LOG_SHARE ? d : e;
    };
    const double total = total_of_exponentials(own, row, most, [](RowIndex) {}, keep);
    const bool usual = most - most == 0;  // neither NaN nor inf
    if (!has_row(p.rows)) return;
#if FINISH == LOG
    if (row.at != 0) return;
    const double result = usual ? __dadd_rn(most, elementary::log(__dmul_rn(total, EXPONENTIAL_UNIT))) : static_cast<double>(most);
    constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);
    finish::store_rounded(finish::place(p.out, number, TARGET), result, TARGET);
#else
    Working of_row = rounded_real(FINISH == LOG_SHARE ? elementary::log(__dmul_rn(total, EXPONENTIAL_UNIT)) : __ddiv_rn(1.0, total));
    if (!usual) of_row = not_a_number();
    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + number * p.out_stride;
#if FINISH == OF_LOG || FINISH == OF_LOG_SHARE
    const Working factor = static_cast<const Working*>(p.factors)[number];
    if (FINISH == OF_LOG && most == lowest()) of_row = 0;
#endif
    [[maybe_unused]] const auto difference = [&](int i, int j) { return minus(own.number(i, j), most); };
    [[maybe_unused]] const auto share = [&](int i, int j) {
        return times(KEPT ? kept[i * PER_LOAD + j] : exponential(difference(i, j)), of_row);
    };
    every_step<2>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first);
#if FINISH == SHARE
        store(row, out, first, share);
#elif FINISH == LOG_SHARE
        store(row, out, first, [&](int i, int j) { return minus(KEPT ? kept[i * PER_LOAD + j] : difference(i, j), of_row); });
#elif FINISH == OF_LOG
        store(row, out, first, [&](int i, int j) { return times(factor, share(i, j)); });
#else
        const GivenCode* const given = static_cast<const GivenCode*>(p.given) + number * p.given_stride;
        Gradients gradients;
        store_at_places(row, out, first, [&](RowIndex offset) { gradients.load(given, offset, length); },
                        [&](int i, int j) { return minus(gradients.number(j), times(share(i, j), factor)); });
#endif
    });
#endif
}
