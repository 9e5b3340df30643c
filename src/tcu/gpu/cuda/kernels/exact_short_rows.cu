// Exact sums of rows of a few numbers, each rounded once: a lane has UNROLL whole rows.
//
// Rows that lie one after another are read 16 bytes at a time, a lane's rows being neighbours, and their sums go out
// through shared memory, so that lanes write neighbouring words.  Others are read number by number, a lane's rows 32
// apart.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), and
//   LENGTH   of a row
//   UNROLL   rows of a lane
//   DENSE    1: rows lie one after another; UNROLL is as many numbers as 16 bytes have.  From Hopper on those of few rows
//            alone, as exact_tile_rows.cu takes the others
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   TERM     VALUE

#include "device/exact/lane_sums.cuh"

using namespace tcu;

#include "generated/exact_rows/ExactShortRows.inc"

__device__ inline exact::Parts sum_of(const Code (&codes)[LENGTH], exact::LaneSum& sum) {
    constexpr int LOG = exact::logarithm(2 * LENGTH - 1);
#if ELEMENT == BINARY16 || ELEMENT == BFLOAT16
    exact::PairRange seen;
#pragma unroll
    for (int i = 0; i < LENGTH; i += 2) {
        const u32 word = codes[i] | (i + 1 < LENGTH ? static_cast<u32>(codes[i + 1]) << 16 : 0);
        seen.see(word);
        sum += moved(word, 0);
        if (i + 1 < LENGTH) sum += moved(word, 1);
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
    sum.begin(window, LOG);
#pragma unroll
    for (int i = 0; i < LENGTH; ++i) sum.add(codes[i]);
    sum.empty(window, LOG);
    return sum.parts(window, LOG, top);
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
    const auto row_of = [&](int u) { return first + (DENSE ? lane * UNROLL + u : u * WARP + lane); };
    Code codes[UNROLL][LENGTH];
    const bool all_are_there = row_of(UNROLL - 1) < p.rows;
    if (DENSE && all_are_there && reinterpret_cast<u64>(data) % 16 == 0) {
        const uint4* const from = reinterpret_cast<const uint4*>(data + row_of(0) * LENGTH);
        Vector x[UNROLL * LENGTH / PER_LOAD];
#pragma unroll
        for (int i = 0; i < UNROLL * LENGTH / PER_LOAD; ++i) x[i].words = __ldg(from + i);
#pragma unroll
        for (int i = 0; i < UNROLL * LENGTH; ++i) codes[i / LENGTH][i % LENGTH] = x[i / PER_LOAD].codes[i % PER_LOAD];
    } else {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int i = 0; i < LENGTH; ++i)
                codes[u][i] = row_of(u) < p.rows ? data[row_of(u) * p.stride + i] : Code(0);
    }
#if DENSE
    __shared__ u64 all_results[exact::WARPS][UNROLL * WARP];
    void* const results = all_results[threadIdx.x / WARP];
#endif
    u32 left = 0;  // rows without a proof
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        exact::LaneSum sum = {};
        const exact::Parts parts = sum_of(codes[u], sum);
        if (row_of(u) >= p.rows) continue;
        if (!parts.proved) left |= 1 << u;
#if DENSE
        void* const out = finish::place(results, lane * UNROLL + u, target);
#else
        void* const out = finish::place(p.out, row_of(u), target);
#endif
        if (parts.proved) exact::store_lane_sum(sum, parts, p.mean ? LENGTH : 1, out, target);
    }
#if DENSE
    __syncwarp();
    const int rows = static_cast<int>(min(p.rows - first, static_cast<i64>(UNROLL * WARP)));
    finish::copy_results(results, finish::place(p.out, first, target), rows, target);
    __syncwarp();
#endif
    for (u32 rest = __ballot_sync(ALL, left != 0); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        const i64 begin = __shfl_sync(ALL, row_of(0), who);
        for (u32 some = __shfl_sync(ALL, left, who); some; some &= some - 1) {
            const i64 row = begin + (__ffs(some) - 1) * (DENSE ? 1 : WARP);
            exact::sum_in_limbs(data + row * p.stride, LENGTH, 1, limbs);
            if (lane == 0) exact::store_all_limbs(limbs, p.mean ? LENGTH : 1, finish::place(p.out, row, target), target);
            __syncwarp();
        }
    }
}
