// The exact sums of the long segments that exact_segments.cu has left.  Warps take parts of them from the work queue,
// and meet in limbs.  The warp that does the last part of a segment rounds the sum.
//
// Compiled with ELEMENT, LAYOUT ALIGNED (load/array.cuh), TILES (granules of a lane at a time), LANES WARP, LOOPS 1,
// THREADS, RESIDENT, UNROLL 1 and TERM VALUE, as exact_rows.cu.

#include "device/exact/row_sums.cuh"
#include "device/ragged/work_queue.cuh"

using namespace tcu;

#include "generated/exact_segments/LongExactSegments.inc"

extern "C" __global__ void __launch_bounds__(THREADS, resident(RESIDENT, THREADS))
    long_exact_segments(const __grid_constant__ LongExactSegments p) {
    __shared__ i64 all_limbs[exact::WARPS][exact::WORDS];
    i64* const limbs = all_limbs[threadIdx.x / WARP];
    ragged::for_each_item_of_warps(p.queue, [&](const ragged::WorkItem& item, u32 number) {
        const i64 part = exact::part_of(item.length), skipped = (number - item.first) * part;
        const int length = static_cast<int>(min(part, item.length - skipped));
        const Code* const from = static_cast<const Code*>(p.data) + item.begin + skipped;
        i64* const shared_by_all = p.limbs + static_cast<i64>(item.place) * exact::WORDS;
        const exact::Parts sum = exact::sum_of_span(exact::Span(from, length));
        if (sum.proved) {
            exact::add_to_limbs(shared_by_all, sum.high, sum.exponent + sum.shift, sum.low, sum.exponent);
        } else {
            exact::sum_in_limbs(from, length, 1, limbs);
            exact::share_limbs(limbs, shared_by_all);
        }
        __threadfence();
        __syncwarp();
        if (!ragged::is_last_for_warp(p.queue, item, exact::parts_of(item.length))) return;
        __threadfence();
        exact::take_limbs(shared_by_all, limbs);
        const finish::Target target = static_cast<finish::Target>(p.target);
        if (threadIdx.x % WARP == 0)
            exact::store_all_limbs(limbs, p.mean ? item.length : 1, finish::place(p.out, item.segment, target), target);
        __syncwarp();
    });
}
