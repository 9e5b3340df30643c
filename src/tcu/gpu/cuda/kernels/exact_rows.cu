// Exact sums of the rows of an array, each rounded once, with LANES lanes to a row.
//
// As the order is free, a lane takes whole granules of 16 bytes, wherever the row begins; in the first and the last
// of a row, what belongs to other rows is masked.  So no vector is shifted, and nothing is read twice.  A warp asks
// for its next granules before it adds up the present ones.  It keeps the sums of up to 32 rows and rounds them all at
// once, one in each lane.  What the proof (exact/lane_sums.cuh) fails for, the warp adds up again in limbs.
//
// Several warps may share a long row: they meet in limbs, and the last one rounds.
//
// Compiled with ELEMENT (load/array.cuh; LAYOUT ALIGNED), and
//   LANES    1 to 32, a power of two
//   TILES    granules of a lane at a time
//   LOOPS    1: rows of more than LANES · TILES granules; LANES is 32
//   PARTS    1: a row may have several warps; LOOPS is 1
//   PLANNED  1, of 16-bit numbers without PARTS: sums have the bits of a plan of binary64 additions.  What the proof says of a
//            whole row is then that no order rounds; other rows are added up in the plan's
//   AHEAD    1: the next granules are asked for before the present ones are added up
//   THREADS, RESIDENT   of a block, and blocks per multiprocessor that the registers must allow
//   UNROLL   1
//   TERM     VALUE

#include "device/exact/row_sums.cuh"
#if PLANNED
#include "device/reduce/planned_row.cuh"
#endif

using namespace tcu;

#include "generated/exact_rows/ExactRows.inc"

constexpr int ROWS = WARP / LANES;  // of a warp at once

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    exact_rows(const __grid_constant__ ExactRows p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    [[maybe_unused]] i64* const limbs = all_limbs[threadIdx.x / WARP];
    const int lane = threadIdx.x % WARP, mine = lane % LANES;
    const finish::Target target = static_cast<finish::Target>(p.target);
    const int groups = static_cast<int>(p.groups);
    const i64 warp = static_cast<i64>(blockIdx.x) * exact::WARPS + threadIdx.x / WARP;
    const i64 base = PARTS ? warp / p.parts : warp * groups * ROWS;  // the warp's first row
    const i64 skipped = PARTS ? warp % p.parts * p.part : 0;
    if (base >= p.rows) return;
    const int length = static_cast<int>(PARTS ? max(min(p.length - skipped, p.part), 0ll) : p.length);
    [[maybe_unused]] const u64 divisor = p.mean ? p.length : 1;
    const int log = ELEMENT == BINARY64 ? exact::EMPTIED_LOG : static_cast<int>(p.log);
    const auto span_of = [&](int group) {
        const i64 row = base + group * ROWS + lane / LANES;
        const bool is_there = group < groups && row < p.rows;
        return exact::Span(static_cast<const Code*>(p.data) + (is_there ? row * p.stride + skipped : 0), is_there ? length : 0);
    };
    // Where a row begins, it may have one granule more.
    const auto granules_of = [&](const exact::Span& span) { return (span.end + PER_LOAD - 1) / PER_LOAD; };

    exact::Parts kept = {0, 0, 1, 0, true};
    exact::RowSum sum;
    exact::Span span = span_of(0);
    int at = mine;
    Vector x[TILES];
#if AHEAD
#pragma unroll
    for (int t = 0; t < TILES; ++t) x[t].words = span.ask(at + t * LANES);
#endif
#pragma unroll 1
    for (int group = 0; group < groups;) {
        const bool is_first = !LOOPS || at == mine;
        const bool is_last = !LOOPS || at - mine + LANES * TILES >= granules_of(span);
        const exact::Span later = is_last ? span_of(group + 1) : span;
        const int next = is_last ? mine : at + LANES * TILES;
        Vector y[TILES];
#pragma unroll
        for (int t = 0; t < TILES; ++t) y[t].words = AHEAD ? later.ask(next + t * LANES) : span.ask(at + t * LANES);
        if (!AHEAD) {
#pragma unroll
            for (int t = 0; t < TILES; ++t) x[t] = y[t];
        }
#pragma unroll
        for (int t = 0; t < TILES; ++t) span.mask(x[t], at + t * LANES);
        if (is_first) sum = exact::RowSum();
        sum.add(x, is_first, log);
        if (is_last) {
            exact::Parts total = sum.total(log);
            if constexpr (ROWS > 1) {
                const int from = lane % ROWS * LANES;
                total.low = __shfl_sync(ALL, total.low, from);
                if (!exact::PLAIN) {
                    total.high = __shfl_sync(ALL, total.high, from);
                    total.shift = __shfl_sync(ALL, total.shift, from);
                }
                if (!ANY_FINITE) total.exponent = __shfl_sync(ALL, total.exponent, from);
                total.proved = __shfl_sync(ALL, static_cast<int>(total.proved), from);
            }
            if (lane / ROWS == group) kept = total;
            ++group;
        }
        span = later;
        at = next;
        if (AHEAD) {
#pragma unroll
            for (int t = 0; t < TILES; ++t) x[t] = y[t];
        }
    }

#if PARTS
    i64* const shared_by_all = p.limbs + base * exact::WORDS;
    if (__shfl_sync(ALL, static_cast<int>(kept.proved), 0)) {
        exact::add_to_limbs(shared_by_all, __shfl_sync(ALL, kept.high, 0), __shfl_sync(ALL, kept.exponent + kept.shift, 0),
                            __shfl_sync(ALL, kept.low, 0), __shfl_sync(ALL, kept.exponent, 0));
    } else {
        exact::sum_in_limbs(static_cast<const Code*>(p.data) + base * p.stride + skipped, length, 1, limbs);
        exact::share_limbs(limbs, shared_by_all);
    }
    __threadfence();
    __syncwarp();
    u32 before = 0;
    if (lane == 0) before = atomicInc(p.arrived + base, static_cast<u32>(p.parts) - 1);
    if (__shfl_sync(ALL, before, 0) != p.parts - 1) return;
    __threadfence();
    exact::take_limbs(shared_by_all, limbs);
    if (lane == 0) exact::store_all_limbs(limbs, divisor, finish::place(p.out, base, target), target);
#elif PLANNED
    const bool is_mine = lane < groups * ROWS && base + lane < p.rows;
    if (is_mine && kept.proved)
        reduce::store_planned(static_cast<double>(kept.low) * exact::power(kept.exponent), p.mean ? p.length : 1,
                              finish::place(p.out, base + lane, target), target);
    for (u32 rest = __ballot_sync(ALL, is_mine && !kept.proved); rest; rest &= rest - 1) {
        const i64 row = base + __ffs(rest) - 1;
        reduce::store_in_order(static_cast<const Code*>(p.data) + row * p.stride, length, 1, static_cast<int>(p.turns),
                               static_cast<int>(p.chunks), p.mean ? p.length : 1, finish::place(p.out, row, target), target);
    }
#else
    const bool is_mine = lane < groups * ROWS && base + lane < p.rows;
    kept.proved &= divisor != 0;
    if (is_mine && kept.proved)
        exact::store_sum(kept, static_cast<u32>(divisor), finish::place(p.out, base + lane, target), target);
    for (u32 rest = __ballot_sync(ALL, is_mine && !kept.proved); rest; rest &= rest - 1) {
        const int who = __ffs(rest) - 1;
        exact::sum_in_limbs(static_cast<const Code*>(p.data) + (base + who) * p.stride, length, 1, limbs);
        if (lane == 0) exact::store_all_limbs(limbs, divisor, finish::place(p.out, base + who, target), target);
        __syncwarp();
    }
#endif
}
