// The sums of the long segments that segments.cu has left.  Blocks take chunks from the work queue.  The block that
// does the last chunk of a segment adds up the chunks' numbers, by the plan of sum.cu.
//
// Compiled with ELEMENT, LAYOUT SHIFTED (load/array.cuh), THREADS, CHAIN, UNROLL, RESIDENT and TERM VALUE, as sum.cu.

#include "device/ragged/long_segments.cuh"
#include "device/ragged/plan_chunks.cuh"
#include "device/reduce/chunk.cuh"

using namespace tcu;

constexpr int GROUP = CHAIN * THREADS * PER_LOAD;  // numbers that a block loads at a time

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    long_segments(const __grid_constant__ ragged::LongSegments p) {
    const finish::Target target = static_cast<finish::Target>(p.target);
    ragged::for_each_item(p.queue, [&](const ragged::WorkItem& item, u32 number) {
        reduce::Sum sum;
        sum.x.data = static_cast<const Code*>(p.data) + item.begin;
        sum.x.n = item.length;
        sum.loads = ragged::loads_of(item.length, GROUP);
        const i64 chunks = ragged::chunks_of(item.length, GROUP);
        double total = reduce::chunk_sum(sum, sum.x, number - item.first);
        if (chunks > 1) {
            if (threadIdx.x == 0) grid::publish(p.queue.slots + number, total);
            if (!ragged::is_last(p.queue, item, chunks)) return;
            total = grid::sum_of_chunks<THREADS>(p.queue.slots + item.first, chunks);
        }
        if (threadIdx.x != 0) return;
        if (p.mean) total /= static_cast<double>(item.length);
        finish::store_rounded(finish::place(p.out, item.segment, target), total, target);
    });
}
