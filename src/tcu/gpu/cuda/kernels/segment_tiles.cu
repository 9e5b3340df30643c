// Running sums within ragged segments, each by the plan of tcu/plan/scan.py.
//
// A warp has some segments that follow each other, and takes as many of them at a time as have room in shared memory: a
// bulk copy brings their numbers there, results take the places of numbers, or have a place behind them, and leave
// together.  No warp waits for another.  Longer segments go to a second launch (segment_chunks.cu).  A segment that is
// invalid (it ends before it begins, or outside the array) is left out.
//
// Compiled with what ragged/running_sums.cuh needs, for sm_90 and later, and
//   APART      1: results have a place of their own
//   RESIDENT   warps per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/ragged/chunk_queue.cuh"
#include "device/ragged/running_sums.cuh"

using namespace tcu;

#include "generated/segment_scans/SegmentTiles.inc"

constexpr int LINE = 128;  // bytes of memory that are lines of shared memory, too (load/ring.cuh)

// How many segments have room together, of up to `most`.  Called by a whole warp.
__device__ inline int fitting(const i64* offsets, i64 begin, int most, i64 room) {
    const int lane = threadIdx.x;
    int low = 0, high = most + 1;
#pragma unroll 1
    while (high - low > 1) {
        const int step = (high - low + WARP - 1) / WARP, at = low + (lane + 1) * step;
        bool fits = at < high;
        if (fits) fits = static_cast<u64>(offsets[at] - begin) <= static_cast<u64>(room);
        const u32 missing = ~__ballot_sync(ALL, fits);
        const int found = missing ? __ffs(missing) - 1 : WARP;
        high = min(high, low + (found + 1) * step);
        low += found * step;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) segment_tiles(const __grid_constant__ SegmentTiles p) {
    extern __shared__ uint4 memory[];
    char* const room = reinterpret_cast<char*>(memory);
    u64* const full = reinterpret_cast<u64*>(room);
    u32* const list = reinterpret_cast<u32*>(room + 16);
    u32* const marks = list + WARP;
    u16* const begins = reinterpret_cast<u16*>(room + p.begins);
    const int lane = threadIdx.x;
    const i64 last = min(blockIdx.x * p.per_warp + p.per_warp, p.segments);
    if (lane == 0) load::prepare(full);
    __syncwarp();
    u32 odd = 0;
    i64 alone = 0;  // segments before this one are taken one by one, as not all of them are valid
#pragma unroll 1
    for (i64 segment = blockIdx.x * p.per_warp; segment < last;) {
        const i64* const offsets = p.offsets + segment;
        const int most = segment < alone ? 1 : static_cast<int>(last - segment);
        const i64 begin = offsets[0], end_of_all = offsets[most];
        int together = most;
        i64 end = end_of_all;
        if (static_cast<u64>(end_of_all - begin) > static_cast<u64>(p.tile)) {
            together = max(fitting(offsets, begin, most - 1, p.tile), 1);
            end = offsets[together];
        }
        const i64 size = end - begin;
        if (begin < 0 || size < 0 || end > p.n) {
            if (together > 1) alone = segment + together;
            else ++segment;
            continue;
        }
        if (size > p.tile) {
            ragged::put_chunks(p.queue, segment, begin, size);
            ++segment;
            continue;
        }
        const int count = static_cast<int>(size);
        const u64 from = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + begin);
        finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + begin;
        char* const numbers = room + p.numbers + from % LINE;
        char* const results = APART ? room + p.results + reinterpret_cast<u64>(to) % LINE : numbers;
        const int shift = static_cast<int>(from % 16);
        if (lane == 0 && count)
            load::copy_bulk(numbers - shift, reinterpret_cast<const void*>(from - shift),
                            (shift + count * ragged::SIZE + 15) / 16 * 16, full);
        if (ragged::MAY_BE_EXACT)
            for (int i = lane; i <= count / 32 + 1; i += WARP) marks[i] = 0;
        __syncwarp();
        bool good = true;
        for (int i = lane; i < together; i += WARP) {
            const i64 first = offsets[i] - begin, behind = offsets[i + 1] - begin;
            good = good && first <= behind && first >= 0 && behind <= count;
            begins[i] = static_cast<u16>(first);
            const i64 mark = REVERSE ? count - behind : first;
            if (ragged::MAY_BE_EXACT && good) atomicOr(&marks[mark / 32], 1u << mark % 32);
        }
        if (lane == 0) begins[together] = static_cast<u16>(count);
        good = __all_sync(ALL, good);
        if (count) {
            load::wait_for_copy(full, odd);
            odd ^= 1;
        }
        if (good && count) {
            ragged::scan_tile({numbers, results, count, together, begins, marks}, list);
            ragged::store_results(to, results, count);
            if (lane == 0) load::wait_for_stores();
        }
        if (good) segment += together;
        else alone = segment + together;
        __syncwarp();
    }
}
