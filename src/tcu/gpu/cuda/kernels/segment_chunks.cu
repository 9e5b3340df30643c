// Running sums within long segments: the chunks that segment_tiles.cu has put in the queue, by the plan of
// tcu/plan/scan.py.
//
// A block takes chunks (16 KiB) in the order of the queue.  One warp has them copied to shared memory and their results
// copied to memory; some add up lines, and scan them, with results in place of numbers; one hands on the chunk's total;
// one finds the sum of the segment before the chunk.  The next chunk's lines are added up first: so what another block
// waits for is there early.  Blocks that added up a chunk when the one before was done kept each other waiting: segments
// of 20,000 numbers of binary16 on average, 1.0 in place of 2.0 TB/s (H200).
//
// Compiled with what ragged/running_sums.cuh needs, for sm_90 and later, and
//   APART      1: results have a place of their own
//   THREADS    of a block
//   STAGES     chunks that have room: 3 or more
//   RESIDENT   blocks per multiprocessor that the registers must allow
// All blocks run at the same time, as they wait for each other.

#include "device/load/turn.cuh"
#include "device/ragged/chunk_queue.cuh"
#include "device/ragged/running_sums.cuh"

using namespace tcu;

#include "generated/segment_scans/SegmentChunks.inc"

constexpr int SCANNING = THREADS / WARP - 3, MOVE = SCANNING, HAND_ON = SCANNING + 1, CARRY = SCANNING + 2;  // warps
constexpr int LINES_OF_WARP = scan::LINES / SCANNING;
static_assert(LINES_OF_WARP * SCANNING == scan::LINES, "warps have the same number of lines");

// A chunk of a segment, and where it lies.
struct QueuedChunk {
    ragged::WorkItem item;
    u32 number;  // of the item

    __device__ u32 chunk() const { return number - item.first; }
    __device__ i64 left() const { return item.length - chunk() * ragged::CHUNK; }
    __device__ bool is_last() const { return left() <= ragged::CHUNK; }
    __device__ int count() const { return static_cast<int>(min(left(), ragged::CHUNK)); }
    __device__ i64 begin() const { return item.begin + (REVERSE ? left() - count() : chunk() * ragged::CHUNK); }
};

struct SegmentChunksMemory {
    // Barriers: a chunk has been copied, its lines have been added up, what comes before it is known, and all is done.
    u64 full[STAGES], summed[STAGES], found[STAGES], done[STAGES];
    QueuedChunk chunks[STAGES];
    double totals[STAGES][scan::LINES];  // of lines
    double carries[STAGES];
};

struct ChunkPlaces {
    const SegmentChunks& p;
    SegmentChunksMemory& room;
    char* stages;
    u32 items;

    __device__ u64 address(const QueuedChunk& c) const {
        return reinterpret_cast<u64>(static_cast<const Code*>(p.data) + c.begin());
    }
    __device__ finish::ResultCode* to(const QueuedChunk& c) const { return static_cast<finish::ResultCode*>(p.out) + c.begin(); }
    __device__ char* numbers(int stage) const { return stages + stage * p.stage + address(room.chunks[stage]) % ragged::LINE; }
    __device__ char* results(int stage) const {
        if (!APART) return numbers(stage);
        return stages + stage * p.stage + p.results + reinterpret_cast<u64>(to(room.chunks[stage])) % ragged::LINE;
    }
    // Waits for a chunk; false: there is none.
    __device__ bool has(const load::Turn<STAGES>& turn) const {
        load::wait_for_copy(&room.full[turn.buffer], turn.odd);
        return room.chunks[turn.buffer].number < items;
    }
};

// By the warp that moves chunks.
__device__ inline void move_chunks(const ChunkPlaces& places) {
    const SegmentChunks& p = places.p;
    SegmentChunksMemory& room = places.room;
    const int lane = threadIdx.x % WARP;
    const u32 items = places.items;
    const auto load = [&](int stage, u32 number) {
        QueuedChunk next;
        next.number = number;
        if (number < items) next.item = p.queue.items[number];
        room.chunks[stage] = next;
        if (number >= items) {
            load::arrive(&room.full[stage]);
            return;
        }
        const u64 from = places.address(next), shift = from % 16;
        load::copy_bulk(places.numbers(stage) - shift, reinterpret_cast<const void*>(from - shift),
                        static_cast<u32>(shift + next.count() * ragged::SIZE + 15) / 16 * 16, &room.full[stage]);
    };
    // The blocks' first chunks come one after another, then their second ones, and so on: otherwise each block would
    // wait for the second chunk of the one before.
    if (lane == 0)
        for (u32 i = 0; i < STAGES; ++i) load(i, blockIdx.x + i * gridDim.x);
    __syncwarp();
    for (load::Turn<STAGES> turn; places.has(turn); turn.next()) {
        load::wait_for_copy(&room.done[turn.buffer], turn.odd);
        const QueuedChunk& chunk = room.chunks[turn.buffer];
        scan::store_run(places.to(chunk), places.results(turn.buffer), chunk.count());
        __syncwarp();
        if (lane == 0) {
            const u32 number = STAGES * gridDim.x + atomicAdd(p.queue.state + ragged::TICKETS, 1u);
            load::wait_for_stores();
            load(turn.buffer, number);
        }
        __syncwarp();
    }
}

// The sum of a chunk's lines up to each of them; by a whole warp.
__device__ inline double sums_of_lines(const SegmentChunksMemory& room, int stage) {
    const int lane = threadIdx.x % WARP;
    return scan::inclusive<scan::LINES>(room.totals[stage][lane % scan::LINES], lane);
}

__device__ inline void hand_on_chunks(const ChunkPlaces& places) {
    SegmentChunksMemory& room = places.room;
    const int lane = threadIdx.x % WARP;
    for (load::Turn<STAGES> turn; places.has(turn); turn.next()) {
        load::wait_for_copy(&room.summed[turn.buffer], turn.odd);
        const QueuedChunk& chunk = room.chunks[turn.buffer];
        const double lines = sums_of_lines(room, turn.buffer);
        if (lane == scan::LINES - 1 && !chunk.is_last()) ragged::hand_on(places.p.queue, chunk.item.first, chunk.chunk(), lines);
        __syncwarp();
        if (lane == 0) load::arrive(&room.done[turn.buffer]);
    }
}

__device__ inline void find_carries(const ChunkPlaces& places) {
    SegmentChunksMemory& room = places.room;
    const int lane = threadIdx.x % WARP;
    for (load::Turn<STAGES> turn; places.has(turn); turn.next()) {
        load::wait_for_copy(&room.summed[turn.buffer], turn.odd);
        const QueuedChunk& chunk = room.chunks[turn.buffer];
        const double total = __shfl_sync(ALL, sums_of_lines(room, turn.buffer), scan::LINES - 1);
        const double carry =
            ragged::before_chunk(places.p.queue, chunk.item.first, chunk.chunk(), total, chunk.is_last());
        if (lane == 0) {
            room.carries[turn.buffer] = carry;
            load::arrive(&room.found[turn.buffer]);
        }
        __syncwarp();
    }
}

// The lines of a warp in a chunk.
struct ChunkLines {
    int first, count;  // of lines: the warp's first; and numbers of the chunk

    // Where the lane's group of a line begins, which may lie outside the chunk.
    __device__ int offset(int line) const {
        const int group = (first + line) * WARP + static_cast<int>(threadIdx.x) % WARP;
        return REVERSE ? count - (group + 1) * scan::GROUP : group * scan::GROUP;
    }
    __device__ bool has_some(int offset) const { return REVERSE ? offset + scan::GROUP > 0 : offset < count; }
    __device__ void read(const char* numbers, int offset, scan::Group& x) const {
        scan::read_part<ragged::SIZE>(numbers + (has_some(offset) ? offset : 0) * ragged::SIZE, x);
    }
};

__device__ inline void add_up(const ChunkPlaces& places, int stage, int warp) {
    SegmentChunksMemory& room = places.room;
    const int lane = threadIdx.x % WARP;
    const ChunkLines own = {warp * LINES_OF_WARP, room.chunks[stage].count()};
    const char* const numbers = places.numbers(stage);
    double sums[LINES_OF_WARP];
#pragma unroll
    for (int i = 0; i < LINES_OF_WARP; ++i) {
        scan::Group x;
        own.read(numbers, own.offset(i), x);
        sums[i] = scan::total(x);
    }
    const double sum = scan::tree_of_lines(sums);
    if (lane < LINES_OF_WARP) room.totals[stage][own.first + scan::line_of_lane<LINES_OF_WARP>(lane)] = sum;
    __syncwarp();
    if (lane == 0) load::arrive(&room.summed[stage]);
}

__device__ inline void scan_lines(const ChunkPlaces& places, const load::Turn<STAGES>& turn, int warp) {
    SegmentChunksMemory& room = places.room;
    const int stage = turn.buffer, lane = threadIdx.x % WARP;
    const ChunkLines own = {warp * LINES_OF_WARP, room.chunks[stage].count()};
    const char* const numbers = places.numbers(stage);
    char* const results = places.results(stage);
    load::wait_for_copy(&room.found[stage], turn.odd);
    const double before = scan::exclusive<scan::LINES>(sums_of_lines(room, stage), lane), carry = room.carries[stage];
#pragma unroll 2
    for (int i = 0; i < LINES_OF_WARP; ++i) {
        const double start = carry + __shfl_sync(ALL, before, own.first + i);
        const int offset = own.offset(i);
        scan::Group x;
        own.read(numbers, offset, x);
        scan::Results r;
        ragged::scan_group(x, scan::LanesOfRow{lane, 0, WARP}, start, r);
        const int low = max(-offset, 0), high = min(own.count - offset, scan::GROUP);
        if (own.has_some(offset)) scan::write_part<ragged::RESULT_SIZE>(results + offset * ragged::RESULT_SIZE, r, low, high, scan::Around());
    }
    load::release_to_copies();
    __syncwarp();
    if (lane == 0) load::arrive(&room.done[stage]);
}

__device__ inline void scan_chunks(const ChunkPlaces& places, int warp) {
    load::Turn<STAGES> turn;
    if (!places.has(turn)) return;
    add_up(places, turn.buffer, warp);
    for (bool more = true; more;) {
        load::Turn<STAGES> ahead = turn;
        ahead.next();
        more = places.has(ahead);
        if (more) add_up(places, ahead.buffer, warp);
        scan_lines(places, turn, warp);
        turn = ahead;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) segment_chunks(const __grid_constant__ SegmentChunks p) {
    extern __shared__ uint4 memory[];
    __shared__ SegmentChunksMemory room;
    const ChunkPlaces places = {p, room, reinterpret_cast<char*>(memory), ragged::items_on(p.queue)};
    const int warp = threadIdx.x / WARP;
    if (threadIdx.x == 0)
        for (int stage = 0; stage < STAGES; ++stage) {
            load::prepare(&room.full[stage]);
            load::prepare(&room.summed[stage], SCANNING);
            load::prepare(&room.found[stage]);
            load::prepare(&room.done[stage], SCANNING + 1);
        }
    __syncthreads();
    if (warp < SCANNING)
        scan_chunks(places, warp);
    else if (warp == MOVE)
        move_chunks(places);
    else if (warp == HAND_ON)
        hand_on_chunks(places);
    else if (warp == CARRY)
        find_carries(places);
    __syncthreads();
    ragged::leave(p.queue);
}
