// Running sums of the rows of an array, in one pass over memory, by the plan of tcu/plan/scan.py.
//
// A row is cut into groups of 32 bytes, one for each thread.  32 groups are a line, which a warp holds; 16 lines are
// a chunk, which a block holds.  A block takes a share at a time: a chunk of a long row, or as many short rows as
// fit, where each has a power of two of groups.  It fetches what it will need next.
//
// Compiled with ELEMENT and LAYOUT (load/array.cuh; ALIGNED: every row begins at a multiple of 16 bytes, in the array
// and in the result, and reversed rows consist of whole groups), RESULT (finish/result_code.cuh), and
//   PER_ROW    groups of a row, a power of two up to 512
//   CHUNKED    1: rows have several chunks (PER_ROW is 512)
//   EXCLUSIVE, REVERSE
//   AHEAD      shares that a block adds up before it finishes the first of them
//   STAGES     shares of a block in shared memory; 2 + AHEAD at least
//   RESIDENT   blocks per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/scan/group.cuh"
#include "device/scan/rows.cuh"

using namespace tcu;

#include "generated/scans/BLOCK.inc"
constexpr int WARPS = THREADS / WARP;
constexpr int UNROLL = scan::LINES / WARPS;  // lines of a warp
constexpr int IN_LINE = PER_ROW < WARP ? PER_ROW : WARP;  // groups of a row in a line
[[maybe_unused]] constexpr int IN_CHUNK = PER_ROW / IN_LINE;  // lines of a row in a chunk
[[maybe_unused]] constexpr int ROWS = scan::LINES * WARP / PER_ROW;  // rows of a share
[[maybe_unused]] constexpr int STEP = REVERSE ? -WARP : WARP;  // from line to line of a warp, in groups

// A share: what a block does at a time, a chunk of a row or several rows.
struct Share {
    i64 row, chunk;
    bool flat;  // each warp's lines are whole and lie without gaps, in the array and in the result
};

__device__ inline Share share_of(const scan::Scan& p, u32 number) {
#if CHUNKED
    const u32 row = p.rows == 1 ? 0 : number / static_cast<u32>(p.levels.chunks);
    const i64 chunk = number - row * static_cast<u32>(p.levels.chunks);
    return {row, chunk, (chunk + 1) * scan::LINES * WARP * scan::GROUP <= p.length};
#else
    const i64 row = static_cast<i64>(number) * ROWS;
    const bool dense = PER_ROW >= UNROLL * WARP || (p.stride == p.length && p.out_stride == p.length && !REVERSE);
    return {row, 0, dense && p.length == PER_ROW * scan::GROUP && row + ROWS <= p.rows};
#endif
}

// The place of a thread's group in line u of its warp.
struct GroupPlace {
    i64 row, group;

    __device__ GroupPlace(const Share& share, int u) {
        const int at = threadIdx.x / WARP * UNROLL * WARP + u * WARP + threadIdx.x % WARP;
        row = share.row + at / PER_ROW;
        group = share.chunk * scan::LINES * WARP + at % PER_ROW;
    }
};

// Reads a thread's group in line u of its warp from memory.
__device__ inline scan::Group read(const scan::Scan& p, const Share& share, int u) {
    const GroupPlace at(share, u);
    return scan::read_group(static_cast<const Code*>(p.data) + at.row * p.stride, at.row < p.rows ? p.length : 0, at.group);
}

__device__ inline void store_parts(
    const scan::Scan& p, scan::Exchange& exchange, const GroupPlace& place, const finish::ResultCode (&codes)[scan::GROUP]) {
    constexpr int PIECE = scan::GROUP < scan::Exchange::PIECE ? scan::GROUP : scan::Exchange::PIECE;
    const int lane = threadIdx.x % WARP;
    const i64 row0 = place.row - lane / IN_LINE, group0 = place.group - lane % IN_LINE;
#pragma unroll
    for (int piece = 0; piece < scan::GROUP; piece += PIECE) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECE; ++i) exchange.codes[lane * PIECE + i] = codes[piece + i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PIECE; ++i) {
            const int at = i * WARP + lane, from = at / PIECE;
            const i64 row = row0 + from / IN_LINE;
            const i64 offset = scan::offset_of(p.length, group0 + from % IN_LINE) + piece + at % PIECE;
            if (row < p.rows && offset >= 0 && offset < p.length)
                static_cast<finish::ResultCode*>(p.out)[row * p.out_stride + offset] = exchange.codes[at];
        }
    }
}

#define STAGED (BULK && LAYOUT == ALIGNED)

#if STAGED
// Stores a line; `to` is the place of this lane's results.
__device__ inline void store_whole(finish::ResultCode* to, scan::Exchange& exchange,
                                   const finish::ResultCode (&codes)[scan::GROUP]) {
    constexpr int BYTES = scan::GROUP * sizeof(finish::ResultCode), GRANULES = BYTES < 16 ? 1 : BYTES / 16;
    union {
        finish::ResultCode codes[scan::GROUP];
        uint2 half;
        uint4 granules[GRANULES];
    } r;
#pragma unroll
    for (int i = 0; i < scan::GROUP; ++i) r.codes[i] = codes[i];
    if (BYTES == 8) *reinterpret_cast<uint2*>(to) = r.half;
    if (BYTES == 16) *reinterpret_cast<uint4*>(to) = r.granules[0];
    if (BYTES <= 16) return;
    const int lane = threadIdx.x % WARP;
    uint4* line = reinterpret_cast<uint4*>(to - (REVERSE ? WARP - 1 - lane : lane) * scan::GROUP);
#pragma unroll
    for (int piece = 0; piece < GRANULES; piece += 2) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int granule = 2 * (REVERSE ? WARP - 1 - lane : lane) + i;
            // So that neighbours lie in different banks.
            exchange.granules[granule ^ granule / 8 % 2] = r.granules[(piece + i) % GRANULES];
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int granule = i * WARP + lane;
            line[granule / 2 * GRANULES + piece + granule % 2] = exchange.granules[granule ^ granule / 8 % 2];
        }
    }
}
#endif

// Where the groups come from.  Shares that lie in memory without gaps are fetched ahead, a warp's lines at a time.
// The others are read when they are needed.
struct ShareSource {
#if STAGED
    scan::Group (*lines)[WARPS][UNROLL * WARP];  // of each stage
    u64 (*arrived)[WARPS];
    u32 odd = 0;  // for each stage, the parity of the copy that arrives next

    __device__ explicit ShareSource(void* memory) {
        lines = static_cast<scan::Group(*)[WARPS][UNROLL * WARP]>(memory);
        arrived = reinterpret_cast<u64(*)[WARPS]>(lines + STAGES);
        if (threadIdx.x % WARP == 0)
            for (int stage = 0; stage < STAGES; ++stage) load::prepare(&arrived[stage][threadIdx.x / WARP]);
        __syncwarp();
    }

    // Fetches a share into a stage, whose old contents every lane must have read.
    __device__ void fetch(int stage, const scan::Scan& p, u32 number) {
        __syncwarp();
        if (number >= p.shares || threadIdx.x % WARP) return;
        const Share share = share_of(p, number);
        if (!share.flat) return;
        const GroupPlace at(share, REVERSE ? UNROLL - 1 : 0);
        const i64 first = at.row * p.stride + scan::offset_of(p.length, at.group + (REVERSE ? WARP - 1 : 0));
        const int warp = threadIdx.x / WARP;
        load::copy_bulk(lines[stage][warp], static_cast<const Code*>(p.data) + first, sizeof(lines[0][0]),
                        &arrived[stage][warp]);
    }

    __device__ void wait(int stage, const Share& share) {
        if (!share.flat) return;
        load::wait_for_copy(&arrived[stage][threadIdx.x / WARP], odd >> stage & 1);
        odd ^= 1 << stage;
    }

    // This thread's group in line 0 of its warp, of a flat share.
    __device__ const scan::Group* first(int stage) const {
        const int lane = threadIdx.x % WARP;
        return lines[stage][threadIdx.x / WARP] + (REVERSE ? UNROLL * WARP - 1 - lane : lane);
    }
#else
    __device__ explicit ShareSource(void*) {}
    __device__ void fetch(int, const scan::Scan&, u32) {}
    __device__ void wait(int, const Share&) {}
#endif
};

// A group in shared memory.  Half of the lanes read the second granule first: the first granules of neighbouring
// lanes lie in only half of the banks.
__device__ inline scan::Group staged(const scan::Group* at) {
    const int flip = threadIdx.x / 4 % 2;
    const uint4 a = at->words[flip], b = at->words[1 - flip];
    scan::Group x;
    x.words[0] = flip ? b : a;
    x.words[1] = flip ? a : b;
    return x;
}

// The sums of a thread's groups in a share.
__device__ inline void add_up(const ShareSource& source, int stage, const scan::Scan& p, const Share& share,
                              double (&sums)[UNROLL]) {
#if STAGED
    if (share.flat) {
        const scan::Group* at = source.first(stage);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) sums[u] = scan::total(staged(at + u * STEP));
        return;
    }
#endif
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) sums[u] = scan::total(read(p, share, u));
}

// Scans a thread's groups and writes the results.  Every lane of the warp must call this.
__device__ inline void finish_share(
    const ShareSource& source, int stage, const scan::Scan& p, const Share& share, const double (&before)[UNROLL]) {
    __shared__ scan::Exchange exchanges[WARPS];
    scan::Exchange& exchange = exchanges[threadIdx.x / WARP];
    finish::ResultCode codes[scan::GROUP];
#if STAGED
    if (share.flat) {
        const scan::Group* from = source.first(stage);
        const GroupPlace at(share, 0);
        finish::ResultCode* to =
            static_cast<finish::ResultCode*>(p.out) + at.row * p.out_stride + scan::offset_of(p.length, at.group);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            scan::scanned(staged(from + u * STEP), before[u], codes);
            store_whole(to + u * STEP * scan::GROUP, exchange, codes);
        }
        return;
    }
#endif
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        scan::scanned(read(p, share, u), before[u], codes);
        store_parts(p, exchange, GroupPlace(share, u), codes);
    }
}

#if PER_ROW <= 64
// Rows that fit into a warp's lines: no warp waits for another.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) scan(const __grid_constant__ scan::Scan p) {
    static_assert(UNROLL == 2, "a row has one line or two");
    extern __shared__ uint4 memory[];
    ShareSource source(memory);
    const int lane = threadIdx.x % WARP;
    int stage = 0;
    u32 ahead = blockIdx.x;
    for (int i = 0; i < STAGES - 1; ++i, ahead += gridDim.x) source.fetch(i, p, ahead);
#pragma unroll 1
    for (u32 number = blockIdx.x; number < p.shares; number += gridDim.x, ahead += gridDim.x) {
        const Share share = share_of(p, number);
        source.fetch((stage + STAGES - 1) % STAGES, p, ahead);
        source.wait(stage, share);
        double sums[UNROLL];
        add_up(source, stage, p, share, sums);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) sums[u] = scan::inclusive<IN_LINE>(sums[u], lane);
        const double line = __shfl_sync(ALL, sums[0], WARP - 1);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) sums[u] = scan::exclusive<IN_LINE>(sums[u], lane);
        if (IN_CHUNK == 2) sums[1] = line + sums[1];
        finish_share(source, stage, p, share, sums);
        stage = (stage + 1) % STAGES;
    }
}
#else
// Rows of many lines.  A block adds up a share and hands on its total.  It finishes the share AHEAD shares later,
// when the total of what comes before it has been handed on, too.  While memory is busy, that takes some
// microseconds.
constexpr int FETCHED = STAGES - AHEAD - 1;        // shares that are being fetched
[[maybe_unused]] constexpr int RING = STAGES + 2;  // places for the shares' numbers
static_assert(FETCHED >= 1, "2 + AHEAD stages at least");

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) scan(const __grid_constant__ scan::Scan p) {
    extern __shared__ uint4 memory[];
    ShareSource source(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __shared__ double totals[2][scan::LINES];
#if CHUNKED
    // Blocks draw the numbers of their shares, so that they wait only for running blocks.
    __shared__ u32 drawn[RING], launches;
    __shared__ double chunks[scan::MAX_LEVELS], before[AHEAD + 1][scan::LINES];
    if (threadIdx.x == 0) {
        launches = scan::launches_before(p.shared);
        for (int i = 0; i <= FETCHED; ++i) drawn[i] = atomicAdd(&p.shared->ticket, 1);
    }
    __syncthreads();
    const u32 launch = launches + 1;
    const auto number = [&](int i) { return drawn[i % RING]; };
#else
    static_assert(AHEAD == 0, "there is nothing to wait for");
    const auto number = [&](int i) { return blockIdx.x + i * gridDim.x; };
#endif
    for (int i = 0; i < FETCHED; ++i) source.fetch(i, p, number(i));
    double lanes[AHEAD + 1][UNROLL];
#pragma unroll 1
    for (int turn = -AHEAD; turn < 0 || number(turn) < p.shares; ++turn) {
        const int summed = turn + AHEAD;
        const bool any = number(summed) < p.shares;
        const Share share = share_of(p, number(summed)), finished = share_of(p, turn < 0 ? 0 : number(turn));
        source.fetch((summed + FETCHED) % STAGES, p, number(summed + FETCHED));
#if CHUNKED
        // Asked for here, and needed only after the sums: what others have handed on, one warp for each level, and
        // the number of one more share.  (A warp of its own for all this took longer than all the others together.)
        const bool looks = turn >= 0 && warp >= 1 && warp <= p.levels.count;
        const scan::LevelRun run(p.slots, p.levels, looks ? warp - 1 : 0, finished.row, finished.chunk);
        scan::Slot seen;
        if (looks && lane < run.place) seen = scan::glance(run.slots + lane);
        u32 drawing;
        if (threadIdx.x == THREADS - 1) drawing = atomicAdd(&p.shared->ticket, 1);
#endif
        double sums[UNROLL] = {};
        if (any) {
            source.wait(summed % STAGES, share);
            add_up(source, summed % STAGES, p, share, sums);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const double sum = scan::inclusive<WARP>(sums[u], lane);
            lanes[AHEAD][u] = scan::exclusive<WARP>(sum, lane);
            if (lane == WARP - 1) totals[summed % 2][warp * UNROLL + u] = sum;
        }
        __syncthreads();
        double starts[UNROLL];
#if CHUNKED
        if (warp == 0) {
            const double sum = scan::inclusive<scan::LINES>(totals[summed % 2][lane % scan::LINES], lane);
            if (any && lane == scan::LINES - 1) {
                const scan::LevelRun own(p.slots, p.levels, 0, share.row, share.chunk);
                scan::hand_on(own.slots + own.place, sum, launch);
            }
            const double earlier = scan::exclusive<scan::LINES>(sum, lane);
            if (lane < scan::LINES) before[summed % (AHEAD + 1)][lane] = earlier;
        }
        if (looks) {
            const double sum = scan::before_in_run(run, seen, launch);
            if (lane == 0) chunks[warp - 1] = sum;
        }
        if (warp == WARPS - 1) {
            if (lane == WARP - 1) drawn[(summed + FETCHED + 1) % RING] = drawing;
            // This comes one turn after the share's own total was handed on, because a warp that waits here keeps its
            // block waiting.
            const u32 earlier = summed > 0 ? number(summed - 1) : static_cast<u32>(p.shares);
            if (earlier < p.shares) {
                const Share last = share_of(p, earlier);
                scan::hand_on_runs(p.slots, p.levels, last.row, last.chunk, launch);
            }
        }
        __syncthreads();
        double carry = 0;
        for (int level = static_cast<int>(p.levels.count) - 1; level >= 0; --level) carry += chunks[level];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            starts[u] = carry + before[(summed + 1) % (AHEAD + 1)][warp * UNROLL + u] + lanes[0][u];
#else
        const double line = scan::exclusive<IN_CHUNK>(scan::inclusive<IN_CHUNK>(totals[summed % 2][lane % scan::LINES],
                                                                                lane), lane);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) starts[u] = __shfl_sync(ALL, line, warp * UNROLL + u) + lanes[0][u];
#endif
        if (turn >= 0) finish_share(source, turn % STAGES, p, finished, starts);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) lanes[i][u] = lanes[i + 1][u];
    }
#if CHUNKED
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) {
        p.shared->ticket = 0;
        p.shared->launch = launch;
    }
#endif
}
#endif
