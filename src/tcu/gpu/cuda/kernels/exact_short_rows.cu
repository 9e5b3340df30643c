// Exact sums of rows of a few numbers, each rounded once: a lane has whole rows, number by number, UNROLL of them at a
// time, 32 apart.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), and
//   LENGTH   of a row
//   UNROLL   rows of a lane
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   TERM     VALUE

#include "device/exact/lane_sums.cuh"

using namespace tcu;

#include "generated/exact_rows/ExactShortRows.inc"

__device__ inline exact::Parts sum_of(const Code (&codes)[LENGTH]) {
    constexpr int LOG = exact::logarithm(2 * LENGTH - 1);
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    double sum = 0;
    exact::PairRange seen;
#pragma unroll
    for (int i = 0; i < LENGTH; i += 2) {
        const u32 word = codes[i] | (i + 1 < LENGTH ? static_cast<u32>(codes[i + 1]) << 16 : 0);
        seen.see(word);
        sum += exact::moved(word, 0);
        if (i + 1 < LENGTH) sum += exact::moved(word, 1);
    }
    const int top = max(seen.top(0), seen.top(1)), bottom = min(seen.bottom(0), seen.bottom(1));
    const bool proved = exact::fits(top, bottom, LOG, 53);
    const int exponent = exact::last_bit(bottom == exact::FIELDS ? 1 : bottom);
    return {0, proved ? exact::integer_of(sum, exponent) : 0, 1, exponent, proved};
#else
    Vector x[(LENGTH + PER_LOAD - 1) / PER_LOAD] = {};
    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) {
        x[i / PER_LOAD].codes[i % PER_LOAD] = codes[i];
        largest = max(largest, exact::magnitude_of(x[i / PER_LOAD], i % PER_LOAD));
    }
    const int top = exact::field_of(largest), window = exact::Cut::clamped(exact::window_of(top, 0), LOG);
    exact::Cut cut;
    cut.begin(window, LOG);
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) cut.add(codes[i]);
    cut.empty(window, LOG);
    return cut.parts(window, LOG, top);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    exact_short_rows(const __grid_constant__ ExactShortRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    i64* const limbs = all_limbs[threadIdx.x / WARP];
    const int lane = threadIdx.x % WARP;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const i64 first = (static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP) * UNROLL * WARP;
    const Code* const data = static_cast<const Code*>(p.data);
    Code codes[UNROLL][LENGTH];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int i = 0; i < LENGTH; ++i) {
            const i64 row = first + u * WARP + lane;
            codes[u][i] = row < p.rows ? data[row * p.stride + i] : Code(0);
        }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const i64 begin = first + u * WARP;
        const exact::Parts sum = sum_of(codes[u]);
        if (begin + lane < p.rows && sum.proved)
            exact::store_sum(sum, p.mean ? LENGTH : 1, finish::place(p.out, begin + lane, target), target);
        for (u32 rest = __ballot_sync(ALL, !sum.proved); rest; rest &= rest - 1) {
            const i64 row = begin + __ffs(rest) - 1;
            exact::sum_in_limbs(data + row * p.stride, LENGTH, 1, limbs);
            if (lane == 0) exact::store_all_limbs(limbs, p.mean ? LENGTH : 1, finish::place(p.out, row, target), target);
            __syncwarp();
        }
    }
}
