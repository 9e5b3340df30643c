// The sums of the long segments that segments.cu has left: blocks take chunks of them, and the block that
// does a segment's last chunk adds up their numbers, by the plan of sum.cu.
//
// Compiled with ELEMENT, LAYOUT SHIFTED (array.cuh), THREADS, CHAIN, UNROLL, RESIDENT and TERM VALUE, as sum.cu.

#include "long_segments.cuh"
#include "plan_loads.cuh"
#include "sum.cuh"

constexpr int GROUP = CHAIN * THREADS * PER_LOAD;  // numbers that a block loads at a time

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) long_segments(const __grid_constant__ LongSegments p) {
    const Target target = static_cast<Target>(p.target);
    for_each_item(p.list, [&](const Item& item, u32 number) {
        Sum sum;
        sum.x.data = static_cast<const Code*>(p.data) + item.begin;
        sum.x.n = item.length;
        sum.loads = loads_of(item.length, GROUP);
        const i64 chunks = chunks_of(item.length, GROUP);
        double total = chunk_sum(sum, sum.x, number - item.first);
        if (chunks > 1) {
            if (threadIdx.x == 0) publish(p.list.slots + number, total);
            if (!is_last(p.list, item, chunks)) return;
            total = sum_of_chunks<THREADS>(p.list.slots + item.first, chunks);
        }
        if (threadIdx.x != 0) return;
        if (p.mean) total /= static_cast<double>(item.length);
        store_rounded(place(p.out, item.segment, target), total, target);
    });
}
