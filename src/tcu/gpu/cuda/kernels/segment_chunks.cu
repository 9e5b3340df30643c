// Running sums within long segments: the chunks that segment_tiles.cu has put in the queue, by the plan of
// tcu/plan/scan.py.
//
// A block takes a chunk (16 KiB) at a time, in the order of the queue, so that what it waits for is always under way: the
// totals of the segment's chunks before.  While it waits, its next chunk is copied to shared memory.
//
// Compiled with what ragged/running_sums.cuh needs, for sm_90 and later, and
//   APART      1: results have a place of their own
//   THREADS    of a block: two warps or more, which have the same number of lines
//   STAGES     chunks that have room: 1 or 2
//   RESIDENT   blocks per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/ragged/chunk_queue.cuh"
#include "device/ragged/running_sums.cuh"

using namespace tcu;

#include "generated/segment_scans/SegmentChunks.inc"

constexpr int WARPS = THREADS / WARP, LINES_OF_WARP = scan::LINES / WARPS;
constexpr int LINE = 128;  // bytes of memory that are lines of shared memory, too (load/ring.cuh)

// A chunk of a segment, and where it lies.
struct QueuedChunk {
    ragged::WorkItem item;
    u32 number;  // of the item

    __device__ u32 chunk() const { return number - item.first; }
    __device__ i64 left() const { return item.length - chunk() * ragged::CHUNK; }
    __device__ int count() const { return static_cast<int>(min(left(), ragged::CHUNK)); }
    __device__ i64 begin() const { return item.begin + (REVERSE ? left() - count() : chunk() * ragged::CHUNK); }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segment_chunks(const __grid_constant__ SegmentChunks p) {
    extern __shared__ uint4 memory[];
    __shared__ u64 full[STAGES];
    __shared__ double totals[scan::LINES];
    __shared__ double carried;
    __shared__ QueuedChunk chunks[STAGES];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 items = ragged::items_on(p.queue);
    const auto room_of = [&](int stage) { return reinterpret_cast<char*>(memory) + stage * p.stage; };
    const auto address_of = [&](const QueuedChunk& c) {
        return reinterpret_cast<u64>(static_cast<const Code*>(p.data) + c.begin());
    };
    const bool loads = warp == WARPS - 1 && lane == 0;
    u32 ticket = 0;
    // The next chunk's way to shared memory.
    const auto load = [&](int stage) {
        QueuedChunk next;
        next.number = ticket;
        if (ticket < items) {
            next.item = p.queue.items[ticket];
            const u64 from = address_of(next), shift = from % 16;
            load::copy_bulk(room_of(stage) + from % LINE - shift, reinterpret_cast<const void*>(from - shift),
                            static_cast<u32>(shift + next.count() * ragged::SIZE + 15) / 16 * 16, &full[stage]);
        }
        chunks[stage] = next;
        ticket = atomicAdd(p.queue.state + ragged::TICKETS, 1u);
    };
    if (loads) {
        for (int stage = 0; stage < STAGES; ++stage) load::prepare(&full[stage]);
        ticket = atomicAdd(p.queue.state + ragged::TICKETS, 1u);
        load(0);
    }
    __syncthreads();
    u32 odd = 0;
#pragma unroll 1
    for (int stage = 0; chunks[stage].number < items;) {
        const QueuedChunk now = chunks[stage];
        const int count = now.count();
        finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + now.begin();
        char* const numbers = room_of(stage) + address_of(now) % LINE;
        char* const results = APART ? room_of(stage) + p.results + reinterpret_cast<u64>(to) % LINE : numbers;
        // Where a lane's group of a line is.
        const auto offset_of = [&](int line) {
            const int group = line * WARP + lane;
            return REVERSE ? count - (group + 1) * scan::GROUP : group * scan::GROUP;
        };
        const auto has_some = [&](int offset) { return REVERSE ? offset + scan::GROUP > 0 : offset < count; };
        load::wait_for_copy(&full[stage], odd >> stage & 1);
        odd ^= 1u << stage;
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
        const int next = STAGES - 1 - stage;
        if (warp == 0) {
            const double total = __shfl_sync(ALL, lines, scan::LINES - 1);
            const double sum =
                ragged::before_chunk(p.queue, now.item.first, now.chunk(), total, now.left() <= ragged::CHUNK);
            if (lane == 0) carried = sum;
        } else if (STAGES > 1 && loads) {
            load::wait_for_stores();
            load(next);
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
            if (has_some(offset)) ragged::write_group(results + offset * ragged::RESULT_SIZE, r, low, high);
        }
        load::release_to_copies();
        __syncthreads();
        if (warp == WARPS - 1) ragged::store_results(to, results, count);
        if (STAGES == 1) {
            __syncthreads();
            if (loads) {
                load::wait_for_stores();
                load(stage);
            }
            __syncthreads();
        }
        stage = next;
    }
    if (loads) load::wait_for_stores();
    ragged::leave(p.queue);
}
