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
// The floor is memory.  Softmax of binary32 reaches 0.93 to 0.96 of copying for rows of 256 to 16384 numbers, and 0.83 of 32768;
// of bfloat16 0.75 to 0.82 for rows of 1000 to 8192, where instructions are the limit: no row goes faster than about 0.85·10^12
// numbers a second.  Rows that are read several times reach 0.4 to 0.5, as PyTorch's (H200).  Softmax of rows
// that a cluster keeps (H100): of binary32 0.81 of copying at 50,257 numbers, 0.93 at 65,536, 0.88 at 131,072, 0.75 at 262,144; of
// bfloat16 0.57, 0.74, 0.66, 0.54, where instructions are the limit, and blocks wait for each other twice a row.
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

#define KEPT (!CODES && !PASSES)  // differences or exponentials, in the numbers' place

#include "generated/exponentials/Exponentials.inc"

extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) exponentials(const __grid_constant__ Exponentials p) {
    begin_row();
    const i64 number = row_number();
    const bool is_there = number < p.rows;
    const RowIndex length = is_there ? static_cast<RowIndex>(p.length) : 0;
    const RowInMemory row(static_cast<const Code*>(p.data) + (is_there ? number * p.stride : 0), length, thread_of_row());
    OwnNumbers own;
    const Working most = largest_number(own, row, [](RowIndex) {});
    const auto keep = [&](int i, Working d, Working e) {
#if KEPT
        own.x[i] = FINISH == LOG_SHARE ? d : e;
#endif
    };
    const double total = total_of_exponentials(own, row, most, [](RowIndex) {}, keep);
    const bool usual = most - most == 0;  // neither NaN nor inf
#if FINISH == LOG
    const double result = usual ? __dadd_rn(most, elementary::log(__dmul_rn(total, EXPONENTIAL_UNIT))) : static_cast<double>(most);
    constexpr finish::Target TARGET = static_cast<finish::Target>(RESULT);
    if (row.at == 0 && is_there) finish::store_rounded(finish::place(p.out, number, TARGET), result, TARGET);
#else
    Working of_row = rounded_real(FINISH == LOG_SHARE ? elementary::log(__dmul_rn(total, EXPONENTIAL_UNIT)) : __ddiv_rn(1.0, total));
    if (!usual) of_row = not_a_number();
    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + (is_there ? number * p.out_stride : 0);
    [[maybe_unused]] Working factor = 1;
#if FINISH == OF_LOG || FINISH == OF_LOG_SHARE
    if (is_there) factor = static_cast<const Working*>(p.factors)[number];
    if (FINISH == OF_LOG && most == lowest()) of_row = 0;
#endif
    [[maybe_unused]] const auto share = [&](Working x) { return times(KEPT ? x : exponential(minus(x, most)), of_row); };
    every_step<2>(row, [&](RowIndex first) {
        if (PASSES) own.load(row, first, LOWEST_CODE);
#if FINISH == SHARE
        store(own, row, out, first, share);
#elif FINISH == LOG_SHARE
        store(own, row, out, first, [&](Working x) { return minus(KEPT ? x : minus(x, most), of_row); });
#elif FINISH == OF_LOG
        store(own, row, out, first, [&](Working x) { return times(factor, share(x)); });
#else
        const GivenCode* const given = static_cast<const GivenCode*>(p.given) + number * p.given_stride;
        Gradients gradients;
        store_at_places(own, row, out, first, [&](RowIndex offset) { gradients.load(given, offset, length); },
                        [&](Working x, int j) { return minus(gradients.number(j), times(share(x), factor)); });
#endif
    });
#endif
}
