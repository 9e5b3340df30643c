// One level of the variants two-mma and recurrence: each warp reduces a group of numbers to one number, which the
// next level takes (tcu/plan/variants.py).
//
// Compiled with the macros of mma/chains.cuh.  The host fills the structure field by field (tcu/gpu/variants.py):
// change both together.

#include "device/finish/store.cuh"
#include "device/mma/chains.cuh"

using namespace tcu;

struct ChainLevel {
    load::Array x;
    void* results;  // one for each group, rounded to the format of the elements
    void* out;      // the last level writes here and not to `results`; else null
    double divisor;
    i64 groups;
    i64 stored;  // whether the last level, too, rounds to the format of the elements
    i64 target;
};

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
