// The exact sums of the long segments that exact_segments.cu has left.  Blocks take chunks from the work queue.  The
// block that does the last chunk of a segment rounds the sum.
//
// Compiled with ELEMENT, LAYOUT SHIFTED (load/array.cuh), THREADS (those of a chunk), UNROLL, RESIDENT and TERM
// VALUE, as exact.cu.

#include "device/exact/segment_chunks.cuh"
#include "device/exact/values.cuh"
#include "device/ragged/work_queue.cuh"

using namespace tcu;

static_assert(THREADS == exact::CHUNK_THREADS);

#include "generated/exact_segments/LongExactSegments.inc"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    long_exact_segments(const __grid_constant__ LongExactSegments p) {
    __shared__ i64 own[exact::WORDS];
    ragged::for_each_item(p.queue, [&](const ragged::WorkItem& item, u32 number) {
        for (int i = threadIdx.x; i < exact::WORDS; i += THREADS) own[i] = 0;
        __syncthreads();
        exact::ExactSum sum;
        sum.x.data = static_cast<const Code*>(p.data) + item.begin;
        sum.x.n = item.length;
        sum.loads = exact::exact_loads_of(item.length);
        exact::add_whole_chunk(sum, number - item.first, own);
        __syncthreads();
        const i64 chunks = exact::exact_chunks_of(item.length);
        if (chunks > 1) {
            i64* const limbs = p.limbs + static_cast<i64>(item.place) * exact::WORDS;
            for (int i = threadIdx.x; i < exact::WORDS; i += THREADS)
                if (own[i]) atomicAdd(reinterpret_cast<u64*>(limbs + i), static_cast<u64>(own[i]));
            if (!ragged::is_last(p.queue, item, chunks)) return;
            for (int i = threadIdx.x; i < exact::WORDS; i += THREADS)
                own[i] = static_cast<i64>(__ldcg(reinterpret_cast<const u64*>(limbs + i)));
            __syncthreads();
        }
        const finish::Target target = static_cast<finish::Target>(p.target);
        if (threadIdx.x == 0)
            exact::store_all_limbs(own, p.mean ? item.length : 1, finish::place(p.out, item.segment, target), target);
    });
}
