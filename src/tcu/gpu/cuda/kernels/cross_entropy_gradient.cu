// The gradients of rows whose losses cross_entropy.cu has: tcu/model/cross_entropy.py says every operation.  Each number is read
// once, and its gradient written once; threads tell each other nothing, so a long row has several blocks, which blockIdx.y numbers.
//
// Compiled with what reduce/rows_in_registers.cuh names.

#include "device/reduce/row_exponentials.cuh"

using namespace tcu;
using namespace tcu::reduce;

#include "generated/cross_entropy/CrossEntropyGradient.inc"

// Whether a row is read before it is known whether it counts: of 1000 numbers of bfloat16 3.51 in place of 3.39 TB/s (H200).
constexpr bool EAGER = WARPS == 1 && !PASSES;

extern "C" __global__ void __launch_bounds__(BLOCK, resident(RESIDENT, BLOCK)) cross_entropy_gradient(const __grid_constant__ CrossEntropyGradient p) {
    const i64 number = row_number();
    if (number >= p.rows) return;
    const i64 target = static_cast<const i64*>(p.targets)[number];
    const bool counts = target != p.ignored, fits = target >= 0 && target < p.length;
    const RowInMemory row(static_cast<const Code*>(p.data) + number * p.stride, static_cast<RowIndex>(p.length), thread_of_row());
    ResultNumber* const out = static_cast<ResultNumber*>(p.out) + number * p.length;
    OwnNumbers own;
    if (EAGER) own.load(row, 0);  // of one step

    // The largest number, 1 / S, the logarithm of the sum, and the gradient of the loss.
    const Working* const parts = static_cast<const Working*>(p.parts) + 4 * number;
    const Working most = parts[0], over = fits ? parts[1] : not_a_number(), given = parts[3];
    const Working factor = times(given, plus(times(rounded_real(p.twice_z_loss), parts[2]), Working(1)));
    const Working less = times(given, rounded_real(p.share)), of_target = times(given, rounded_real(p.kept));
    const auto gradient = [&](Working x) { return fused(times(exponential(minus(x, most)), over), factor, -less); };

    for (RowIndex first = blockIdx.y * STEP; first < row.vectors(); first += gridDim.y * STEP) {
        if (!EAGER && counts) own.load(row, first);
        if (counts) {
            store(row, out, first, [&](int i, int j) { return gradient(own.number(i, j)); });
        } else {
            store(row, out, first, [](int, int) { return Working(0); });
        }
    }
    if (!counts || !fits) return;

    // The thread that has written the target's vector writes the target again.
    const i64 place = target + row.beside, vector = place / PER_LOAD;
    if (vector % ROW_THREADS == row.at && vector / STEP % gridDim.y == blockIdx.y)
        out[target] = rounded_code(minus(gradient(real(row.granules[place])), of_target));
}
