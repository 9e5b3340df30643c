// One level of the variants two-mma and recurrence: each warp reduces a group of numbers to one number, which the
// next level takes (tcu/plan/variants.py).
//
// Compiled with the macros of mma/chains.cuh.

#include "device/finish/store.cuh"
#include "device/mma/chains.cuh"

using namespace tcu;

#include "generated/variants/ChainLevel.inc"

extern "C" __global__ void __launch_bounds__(THREADS) level(const __grid_constant__ ChainLevel p) {
    const i64 group = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    if (group >= p.groups) return;  // the same for all lanes of a warp
    const auto number = mma::sum_of_group(p.x, group);
    if (threadIdx.x % WARP != 0) return;
    const Code code = mma::operand_code(number);
    if (p.out == nullptr) {
        static_cast<Code*>(p.results)[group] = code;
        return;
    }
    double total = p.stored ? to_binary64(code) : number;
    if (p.divisor != 1) total /= p.divisor;
    finish::store_rounded(p.out, total, static_cast<finish::Target>(p.target));
}
