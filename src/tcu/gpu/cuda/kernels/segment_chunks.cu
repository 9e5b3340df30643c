// Running sums within long segments: the chunks that segment_tiles.cu has put in the queue, by the plan of
// tcu/plan/scan.py.
//
// A block takes a chunk (16 KiB) at a time, in the order of the queue, so that what it waits for is always under way: the
// totals of the segment's chunks before.
//
// Compiled with what ragged/running_sums.cuh needs, for sm_90 and later, and
//   APART      1: results have a place of their own
//   THREADS    of a block: a warp has the same number of lines as others
//   RESIDENT   blocks per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/ragged/chunk_queue.cuh"
#include "device/ragged/running_sums.cuh"

using namespace tcu;

#include "generated/segment_scans/SegmentChunks.inc"

constexpr int WARPS = THREADS / WARP, LINES_OF_WARP = scan::LINES / WARPS;
constexpr int LINE = 128;  // bytes of memory that are lines of shared memory, too (load/ring.cuh)

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segment_chunks(const __grid_constant__ SegmentChunks p) {
    extern __shared__ uint4 memory[];
    __shared__ u64 full;
    __shared__ double totals[scan::LINES];
    __shared__ double carried;
    __shared__ u32 next;
    char* const room = reinterpret_cast<char*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 items = ragged::items_on(p.queue);
    if (threadIdx.x == 0) {
        load::prepare(&full);
        next = atomicAdd(p.queue.state + ragged::TICKETS, 1u);
    }
    __syncthreads();
    u32 odd = 0, number = next;
#pragma unroll 1
    while (number < items) {
        const ragged::WorkItem item = p.queue.items[number];
        const u32 chunk = number - item.first;
        const i64 before = chunk * ragged::CHUNK, left = item.length - before;
        const int count = static_cast<int>(min(left, ragged::CHUNK));
        const i64 begin = item.begin + (REVERSE ? left - count : before);
        const u64 from = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + begin);
        finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + begin;
        char* const numbers = room + from % LINE;
        char* const results = APART ? room + p.results + reinterpret_cast<u64>(to) % LINE : numbers;
        u32 ticket = 0;
        if (threadIdx.x == 0) {
            const int shift = static_cast<int>(from % 16);
            load::copy_bulk(numbers - shift, reinterpret_cast<const void*>(from - shift),
                            (shift + count * ragged::SIZE + 15) / 16 * 16, &full);
            ticket = atomicAdd(p.queue.state + ragged::TICKETS, 1u);
        }
        // Where a lane's group is, and which of its numbers are the chunk's.
        const auto offset_of = [&](int line) {
            const int group = line * WARP + lane;
            return REVERSE ? count - (group + 1) * scan::GROUP : group * scan::GROUP;
        };
        const auto has_some = [&](int offset) { return REVERSE ? offset + scan::GROUP > 0 : offset < count; };
        load::wait_for_copy(&full, odd);
        odd ^= 1;
        double sums[LINES_OF_WARP];
#pragma unroll
        for (int i = 0; i < LINES_OF_WARP; ++i) {
            const int offset = offset_of(warp * LINES_OF_WARP + i);
            scan::Group x;
            scan::read_part<ragged::SIZE>(numbers + (has_some(offset) ? offset : 0) * ragged::SIZE, x);
            sums[i] = scan::total(x);
        }
        const double line_sum = scan::tree_of_lines(sums);
        if (lane < LINES_OF_WARP) totals[warp * LINES_OF_WARP + scan::line_of_lane<LINES_OF_WARP>(lane)] = line_sum;
        __syncthreads();
        const double lines = scan::inclusive<scan::LINES>(totals[lane % scan::LINES], lane);
        const double before_lines = scan::exclusive<scan::LINES>(lines, lane);
        if (warp == 0) {
            const double total = __shfl_sync(ALL, lines, scan::LINES - 1);
            const double sum = ragged::before_chunk(p.queue, item.first, chunk, total, left <= ragged::CHUNK);
            if (lane == 0) {
                carried = sum;
                next = ticket;
            }
        }
        __syncthreads();
        const double carry = carried;
#pragma unroll 1
        for (int i = 0; i < LINES_OF_WARP; ++i) {
            const int line = warp * LINES_OF_WARP + i, offset = offset_of(line);
            const double start = carry + __shfl_sync(ALL, before_lines, line);
            scan::Group x;
            scan::read_part<ragged::SIZE>(numbers + (has_some(offset) ? offset : 0) * ragged::SIZE, x);
            scan::Results r;
            scan::scan_part(x, scan::LanesOfRow{lane, 0, WARP}, start, r);
            const int low = max(-offset, 0), high = min(count - offset, scan::GROUP);
            if (has_some(offset))
                ragged::write_group(results + offset * ragged::RESULT_SIZE, r, low, high);
        }
        number = next;
        load::release_to_copies();
        __syncthreads();
        if (warp == 0) {
            ragged::store_results(to, results, count);
            if (lane == 0) load::wait_for_stores();
            __syncwarp();
        }
    }
    ragged::leave(p.queue);
}
