// Running sums of long rows, by the plan of tcu/plan/scan.py, in one pass over memory: warps with a task each.
//
// A chunk (16 KiB) goes through shared memory: one warp has it copied there, some add up its lines, one hands on what
// they come to, one waits for what comes before it, a warp for each line scans it, results in place of numbers, and one warp
// has them copied to memory; results that are twice as wide go there from a line of shared memory that each of these warps
// has.  A block has BUFFERS chunks under way, and none waits for another of them.  What comes before chunks one block finds
// for all others (scan/block_carry.cuh); in rows of up to 32 chunks, a warp looks back for it.
//
// All blocks run at the same time.  In long rows, each has a chunk after all others have had one, and few chunks loading at a
// time: with more, chunks arrive in another order than they are scanned in.  While blocks drew the numbers of their chunks,
// those far from the counter, which took 1 us to answer, had 27 of them where others had 35 (H200, binary32: 2^24 numbers
// took 40.4 in place of 38.0 us, 2^29 1,067 in place of 1,040).  In rows of up to 32 chunks, where blocks do not wait for all
// others, they draw all numbers but the first: in turns, rows of two chunks took 6 to 10 % longer.
//
// What matters besides is how long a chunk's way through a warp is: while one warp loaded and stored, with 2100 cycles of
// instructions, all others waited for it, and with numbers drawn a chunk earlier than needed, all blocks for the
// slowest (H200: 0.74 and 0.66 of a copy's speed in place of 0.78).  So a line's totals and starts have one place, results
// leave a buffer without waiting for the next ones, and a number is drawn meanwhile.
//
// 2^24 numbers of binary32 take 39 us, a copy 36, and the scan of CUB 52.  3 us are any launch; the first results leave
// after 5, and the last ones 3 after the last numbers have arrived; in between, memory is as busy as with a copy.  A chunk is
// under way for 6 us: 2 to 3 until it has arrived, 0.5 until its total is handed on, 1 to 2 until what comes before it has
// been found and 1 until that is seen, 1 until it is scanned and has left.  Without any arithmetic, nor waiting for what comes
// before, it takes as long.  No faster: 8 warps that add up, one store for a chunk.  Slower: numbers that leave the second
// cache first (0.4 us, with the results, too, 1.1), first chunks fetched into it beforehand (3).
//
// Compiled with ELEMENT and RESULT, LAYOUT (ALIGNED: every row begins at a multiple of 16 bytes, in the
// array and in the result, and reversed ones are of whole groups), for sm_90 and later, and
//   EXCLUSIVE, REVERSE
//   LEVELS     of chunks in a row
//   BUFFERS    chunks under way
//   SUMMING    warps that add up: 2, 4 or 8

#include "device/load/bulk_copy.cuh"
#include "device/scan/block_carry.cuh"
#include "device/scan/line_results.cuh"
#if ELEMENT == BINARY16
#include "device/scan/exact_lines.cuh"
#else
#include "device/scan/plan_lines.cuh"
#endif

namespace tcu::kernels {

#if ELEMENT == BINARY16
typedef scan::ExactRunningSums<WARP> RunningSums;
#else
typedef scan::PlanRunningSums<WARP> RunningSums;
#endif

constexpr int ELEMENTS = scan::LINES * WARP * scan::GROUP;  // of a chunk
constexpr int LINE = WARP * scan::GROUP;
constexpr int SCANNING = scan::LINES;  // warps, a line each
constexpr int CARRY = SCANNING + SUMMING, LOAD = CARRY + 1, HAND_ON = LOAD + 1, STORE = HAND_ON + 1;
constexpr int WARPS = STORE + 1;
static_assert(scan::IN_PLACE || sizeof(finish::ResultCode) == 2 * sizeof(Code), "a lane's results have a place, or are four granules");
constexpr u32 FINDING = LEVELS > 1;  // blocks that find what comes before chunks, for the others
constexpr u32 WATCHED = 2;  // chunks for which a block looks at a time: 40.3, 40.6 and 41.4 us with 2, 4 and 1
// Chunks of a block that are loading at a time, in long rows: 42.6, 38.7, 38.7, 39.5, 40.1 and 40.9 us with 2, 3, 4, 5, 6 and
// all; with 4, 2^29 numbers take 0.5 % more than with 3, and 2^24 of binary16 4 %.
constexpr int LOADING = BUFFERS < 3 ? BUFFERS : 3;
constexpr int FIRST = 2;  // of them, before other barriers are ready; with 4, binary16 to binary32 33.3 in place of 31.5 us
static_assert(FIRST <= LOADING, "they are asked for at once");
constexpr int STORED = ELEMENTS / 4;  // at a time: more than with one store for all (H200: 0.88 and 0.87 of a copy's speed)

// A chunk's numbers: all of a stretch of memory.
struct RowChunk {
    i64 row;
    u32 number, in_all;  // of the row, and of all rows' chunks
    i64 first;        // element of the row, in memory
    int count;        // elements
    int lines;        // that they fill; 0: there are no more chunks

    // Where the elements begin in shared memory: so that in the order of the scan there is nothing before them.
    __device__ int offset() const { return REVERSE ? lines * LINE - count : 0; }
    __device__ int whole() const { return count / PER_LOAD * PER_LOAD; }

    __device__ const Code* from(const scan::Scan& p) const {
        return static_cast<const Code*>(p.data) + row * p.stride + first;
    }
};

__device__ inline RowChunk chunk_of(const scan::Scan& p, u32 number) {
    RowChunk c;
    c.row = p.rows == 1 ? 0 : number / static_cast<u32>(p.levels.chunks);
    c.number = number - static_cast<u32>(c.row) * static_cast<u32>(p.levels.chunks);
    c.in_all = number;
    const i64 before = static_cast<i64>(c.number) * ELEMENTS;
    c.count = static_cast<int>(min(p.length - before, static_cast<i64>(ELEMENTS)));
    c.lines = (c.count + LINE - 1) / LINE;
    c.first = REVERSE ? p.length - before - c.count : before;
    return c;
}

constexpr u32 SLOTS_OF_LINE = 128 / sizeof(scan::Slot);
constexpr u32 FAR = 4096;  // chunks before whose turn their slots are fetched: more than twice as many as are under way

struct LongScanBuffers {
    scan::Group groups[BUFFERS][scan::LINES * WARP];
    uint4 results[scan::IN_PLACE ? 1 : scan::LINES][scan::IN_PLACE ? 1 : 4 * WARP];  // a line's, that are twice as wide
    double lines[BUFFERS][scan::LINES];  // what a line comes to, and then what comes before it in the chunk
    double carries[BUFFERS];       // what comes before the chunk
    RowChunk chunks[BUFFERS];
    u32 finite[BUFFERS];  // a bit for each line: whether all its numbers are
    u64 full[BUFFERS], summed[BUFFERS], found[BUFFERS], done[BUFFERS], empty[BUFFERS];  // barriers
};

// The place of a block's next chunk.
struct Turn {
    int buffer = 0;
    u32 odd = 0;

    __device__ void next(int turns = 1) {
        buffer += turns;
        if (buffer >= BUFFERS) {
            buffer -= BUFFERS;
            odd ^= 1;
        }
    }
};

// The slots of a chunk and of those behind it in a line of memory: what is read and written has driven them out of the
// second cache since the last launch, and who looks at one first would wait for memory behind all others (H200, 2^29
// numbers of binary32: 0.94 of a copy's speed in place of 0.91).
__device__ inline void fetch_slots(const scan::Scan& p, u32 number) {
    if (number >= p.shares) return;
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(scan::total_of_chunk(p, number)));
    if (FINDING) asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(scan::carry_of_chunk(p, number)));
}

// The number of a block's chunk: where blocks take turns, and where it is drawn, after the first ones.
__device__ inline u32 number_in(int turn) { return blockIdx.x - FINDING + turn * (gridDim.x - FINDING); }
__device__ inline u32 draw(const scan::Scan& p) { return atomicAdd(&p.shared->ticket, 1) + FIRST * gridDim.x; }

// Has a chunk copied, if there is one, when its buffer is empty; whether there is one.
__device__ inline bool load_chunk(const scan::Scan& p, LongScanBuffers& b, Turn turn, u32 number) {
    const int lane = threadIdx.x % WARP;
    u64* const full = &b.full[turn.buffer];
    if (number >= p.shares) {
        if (lane == 0) {
            b.chunks[turn.buffer].lines = 0;
            load::arrive(full);
        }
        return false;
    }
    if (lane == 0 && number % SLOTS_OF_LINE == 0) fetch_slots(p, number + FAR);
    const RowChunk c = chunk_of(p, number);
    const Code* const from = c.from(p);
    Code* const codes = b.groups[turn.buffer]->codes + c.offset();
    if (c.count % LINE) {  // once in a row
        for (int i = lane; i < c.offset(); i += WARP) codes[i - c.offset()] = 0;
        for (int i = c.whole() + lane; i < c.lines * LINE - c.offset(); i += WARP) codes[i] = i < c.count ? from[i] : 0;
        load::release_to_copies();
        __syncwarp();
    }
    if (lane == 0) {
        b.chunks[turn.buffer] = c;
        load::copy_bulk(codes, from, c.whole() * sizeof(Code), full);
    }
    return true;
}

// Before other barriers are ready: 0.3 us earlier.
__device__ inline void load_first_chunks(const scan::Scan& p, LongScanBuffers& b) {
    if (threadIdx.x % WARP == 0)
        for (int i = 0; i < FIRST; ++i) load::prepare(&b.full[i]);
    __syncwarp();
    Turn turn;
    for (int i = 0; i < FIRST; ++i, turn.next()) load_chunk(p, b, turn, number_in(i));
}

// Has the other chunks copied when buffers are empty.  Whoever waits, waits for chunks of lower numbers, which running
// blocks have.  When there are no more, each buffer is told so, as somebody waits for each.
__device__ inline void load_chunks(const scan::Scan& p, LongScanBuffers& b) {
    int ends = 0, turns = FIRST;
    for (int i = 0; i < FIRST; ++i) ends += number_in(i) >= p.shares;
    Turn turn, loading;
    for (turn.next(FIRST); ends < BUFFERS; ++turns, turn.next()) {
        u32 number = number_in(turns);
        if (FINDING && turns >= LOADING) {
            load::wait_for_copy(&b.full[loading.buffer], loading.odd);
            loading.next();
        }
        if (!FINDING) {
            // Drawn while the last results leave the buffer: a number drawn earlier keeps all others waiting for it.
            if (turns >= BUFFERS) load::wait_for_copy(&(scan::IN_PLACE ? b.done : b.empty)[turn.buffer], turn.odd ^ 1);
            if (threadIdx.x % WARP == 0) number = ends == 0 ? draw(p) : ALL;
        }
        if (turns >= BUFFERS) load::wait_for_copy(&b.empty[turn.buffer], turn.odd ^ 1);
        number = __shfl_sync(ALL, number, 0);  // no lane waits for a turn of a barrier that another one has begun anew
        ends += !load_chunk(p, b, turn, number);
    }
}

// Has results copied to memory, and says which buffers are empty.
__device__ inline void store_chunks(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    for (Turn turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const RowChunk c = b.chunks[turn.buffer];
        if (c.lines == 0) break;
        load::wait_for_copy(&b.done[turn.buffer], turn.odd);
        finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + c.row * p.out_stride + c.first;
        const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(b.groups[turn.buffer]->codes);
        if (c.whole() + lane < c.count) to[c.whole() + lane] = codes[c.whole() + lane];
        __syncwarp();
        if (lane == 0) {
            load::release_to_copies();  // what all warps have written: it may be anywhere on the way to the copy (PTX ISA, 8.9.5)
            for (int i = 0; i < c.whole(); i += STORED)
                load::start_store(to + i, codes + c.offset() + i, min(STORED, c.whole() - i) * sizeof(finish::ResultCode));
            load::commit_stores();
            load::wait_for_stores();
            load::arrive(&b.empty[turn.buffer]);
        }
    }
}

// The sums of EACH lines from number `lowest` on, some of which are not there, in the lanes of sums_of_lines.
template <int EACH>
__device__ __noinline__ double sums_of_few(const scan::Group* groups, int lowest, int lines) {
    double sum = 0;
    for (int i = 0; i < EACH; ++i) {
        const int line = lowest + i;
        const double one = line >= 0 && line < lines ? scan::sums_of_lines<1>(groups + line * WARP) : 0;
        if (scan::line_of_lane<EACH>(threadIdx.x % WARP) == i) sum = one;
    }
    return sum;
}

__device__ inline void add_up_lines(LongScanBuffers& b, int warp) {
    constexpr int EACH = scan::LINES / SUMMING;
    const int lane = threadIdx.x % WARP, first = warp * EACH;
    for (Turn turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines;
        if (lines == 0) return;
        const int lowest = REVERSE ? lines - first - EACH : first;
        const scan::Group* const groups = b.groups[turn.buffer];
        const double sum = lowest >= 0 && lowest + EACH <= lines ? scan::sums_of_lines<EACH>(groups + lowest * WARP)
                                                                 : sums_of_few<EACH>(groups, lowest, lines);
        const int line = scan::line_of_lane<EACH>(lane);
        b.lines[turn.buffer][first + (REVERSE ? EACH - 1 - line : line)] = sum;
        __syncwarp();
        if (lane == 0) load::arrive(&b.summed[turn.buffer]);
    }
}

__device__ inline bool is_finite(double v) { return (__double2hiint(v) & 0x7ff00000) != 0x7ff00000; }

__device__ inline void hand_on_chunks(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = scan::launch_of(p);
    for (Turn turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        if (b.chunks[turn.buffer].lines == 0) return;
        scan::Slot* const own = scan::total_of_chunk(p, b.chunks[turn.buffer].in_all);
        load::wait_for_copy(&b.summed[turn.buffer], turn.odd);
        const double line = b.lines[turn.buffer][lane % scan::LINES], sum = scan::inclusive<scan::LINES>(line, lane);
        if (lane == scan::LINES - 1) scan::hand_on(own, sum, launch);
        const double earlier = scan::exclusive<scan::LINES>(sum, lane);
        const u32 finite = __ballot_sync(ALL, is_finite(line));
        if (lane < scan::LINES) b.lines[turn.buffer][lane] = earlier;
        if (lane == 0) b.finite[turn.buffer] = finite;
        __syncwarp();
        if (lane == 0) load::arrive(&b.found[turn.buffer]);
    }
}

// Looks for what comes before chunks of rows that have no more than a run of them.  Two warps that take turns are no faster
// (H200, rows of two chunks: binary32 1,040 in place of 1,034 us, binary16 to binary32 844 in place of 813).
__device__ inline void look_back(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = scan::launch_of(p);
    for (Turn turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        if (b.chunks[turn.buffer].lines == 0) return;
        const scan::LevelRun own(p.slots, p.levels, 0, b.chunks[turn.buffer].row, b.chunks[turn.buffer].number);
        scan::Slot here = {};
        if (lane < own.place) here = scan::glance(own.slots + lane);
        const double carry = scan::before_in_run(own, here, launch);
        if (lane == 0) {
            b.carries[turn.buffer] = carry;
            load::arrive(&b.found[turn.buffer]);
        }
    }
}

// Waits for what another block finds to come before chunks: each lane for those of one buffer.
__device__ inline void take_carries(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = scan::launch_of(p);
    u32 own = lane < BUFFERS ? lane : ALL, odd = 0;  // the turn whose carry the lane takes
    bool waits = false;
    const scan::Slot* slot = nullptr;
    for (;;) {
        const u32 oldest = __reduce_min_sync(ALL, own);
        if (oldest == ALL) return;
        if (own >= oldest + WATCHED) continue;
        if (!waits && load::has_arrived(&b.full[lane], odd)) {
            waits = b.chunks[lane].lines != 0;
            if (!waits) own = ALL;
            slot = scan::carry_of_chunk(p, b.chunks[lane].in_all);
        }
        if (!waits) continue;
        const scan::Slot seen = scan::glance(slot);
        if (!scan::is_there(seen, launch)) continue;
        b.carries[lane] = scan::number_of(seen);
        load::arrive(&b.found[lane]);
        waits = false;
        odd ^= 1;
        own += BUFFERS;
    }
}

// A lane's results that are twice as wide as numbers, to their place in a line of them in shared memory.
__device__ inline void put_wide(uint4* line, const finish::ResultCode (&codes)[scan::GROUP]) {
    union {
        finish::ResultCode codes[scan::GROUP];
        uint4 granules[4];
    } r;
#pragma unroll
    for (int i = 0; i < scan::GROUP; ++i) r.codes[i] = codes[i];
    const int lane = threadIdx.x % WARP;
    uint4* const own = line + (REVERSE ? WARP - 1 - lane : lane) * 4;
    // Each pair of lanes begins with another granule, so that eight lanes together have all banks.
    const int turned = lane / 2 % 4;
    uint4 once[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) once[i] = turned & 1 ? r.granules[(i + 1) % 4] : r.granules[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) own[(i + turned) % 4] = turned & 2 ? once[(i + 2) % 4] : once[i];
}

// A line's results, to memory, whatever its numbers are, of which elements `first` to `below` - 1 from the lane's first one
// on are there; not inline, so that it takes no registers.
__device__ __noinline__ void store_any_line(finish::ResultCode* to, const scan::Group* at, double start, int first, int below) {
    finish::ResultCode codes[scan::GROUP];
    scan::any_results_of<WARP>(*at, start, codes);
    for (int i = 0; i < scan::GROUP; ++i)
        if (first <= i && i < below) to[i] = codes[i];
}

__device__ inline void scan_lines(const scan::Scan& p, LongScanBuffers& b, int line) {
    const int lane = threadIdx.x % WARP;
    for (Turn turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines, last = REVERSE ? lines - 1 - line : line;
        // Where there is no such line, another one or none is looked at, and nothing becomes of it.
        const int place = REVERSE ? (max(last, 0) + 1) * WARP - 1 - lane : last * WARP + lane;
        scan::Group* const at = b.groups[turn.buffer] + place;
        const RunningSums running(*at);  // before the wait for what comes before
        if (__any_sync(ALL, lines == 0)) break;
        load::wait_for_copy(&b.found[turn.buffer], turn.odd);
        const double start = b.carries[turn.buffer] + b.lines[turn.buffer][line];
        const bool is_plain = __all_sync(ALL, is_finite(start) && b.finite[turn.buffer] >> line & 1);
        if constexpr (scan::IN_PLACE) {
            if (line < lines) {
                if (is_plain)
                    scan::put(running, at, start);
                else
                    scan::scan_any<WARP>(at, start);
            }
            __syncwarp();
            if (lane == 0) load::arrive(&b.done[turn.buffer]);
        } else {
            const RowChunk c = b.chunks[turn.buffer];
            const int first = place * scan::GROUP - c.offset();  // of the chunk's elements, the lane's first one in memory
            finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + c.row * p.out_stride + c.first + first;
            const bool is_whole = first >= 0 && first + scan::GROUP <= c.count;
            __syncwarp();
            if (__all_sync(ALL, is_plain && is_whole && line < lines)) {
                if (lane == 0) load::arrive(&b.empty[turn.buffer]);  // all that is needed is in registers
                finish::ResultCode codes[scan::GROUP];
                scan::results_of(running, start, codes);
                load::wait_for_stores();  // of the line before: the lane that has started them
                __syncwarp();
                put_wide(b.results[line], codes);
                load::release_to_copies();
                __syncwarp();
                if (lane == (REVERSE ? WARP - 1 : 0)) {
                    load::start_store(to, b.results[line], sizeof(b.results[line]));
                    load::commit_stores();
                }
            } else {
                if (line < lines) store_any_line(to, at, start, -first, c.count - first);
                __syncwarp();
                if (lane == 0) load::arrive(&b.empty[turn.buffer]);
            }
        }
    }
    if (!scan::IN_PLACE) load::wait_for_stores();  // memory is the block's until they have left it
}

// By all warps, one thread of each: the threads of one would take turns, 50 barriers 1 us (H200, 2^24 numbers of binary32: 43.2
// in place of 45.2 us).
__device__ inline void prepare_barriers(LongScanBuffers& b, int warp) {
    if (threadIdx.x % WARP != 0) return;
#pragma unroll 1
    for (int i = warp; i < BUFFERS; i += WARPS) {
        if (i >= FIRST) load::prepare(&b.full[i]);  // the others are
        load::prepare(&b.summed[i], SUMMING);
    }
#pragma unroll 1
    for (int i = WARPS - 1 - warp; i < BUFFERS; i += WARPS) {
        load::prepare(&b.found[i], 2);
        load::prepare(&b.done[i], scan::LINES);
        load::prepare(&b.empty[i], scan::IN_PLACE ? 1 : scan::LINES);
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) long_scan(const __grid_constant__ scan::Scan p) {
    extern __shared__ uint4 memory[];
    LongScanBuffers& b = *reinterpret_cast<LongScanBuffers*>(memory);
    const int warp = threadIdx.x / WARP;
    const bool finds = LEVELS > 1 && blockIdx.x == 0;
    if (warp == LOAD && !finds) load_first_chunks(p, b);
    prepare_barriers(b, warp);
    __syncthreads();
    if (warp < SCANNING) {
        // These warps have nothing to do yet, and the others all the more: before the barrier, it would take 1 us.
        const u32 step = SLOTS_OF_LINE * SCANNING * WARP;
        for (u32 i = SLOTS_OF_LINE * threadIdx.x + step * blockIdx.x; i < FAR; i += step * gridDim.x) fetch_slots(p, i);
    }
#if LEVELS > 1
    static_assert(sizeof(scan::Known<WARPS>) <= sizeof(b.groups), "it has the chunks' memory");
    if (finds)
        scan::find_carries(p, *reinterpret_cast<scan::Known<WARPS>*>(b.groups));
    else
#endif
    if (warp < SCANNING) {
        scan_lines(p, b, warp);
    } else if (warp < SCANNING + SUMMING) {
        add_up_lines(b, warp - SCANNING);
    } else if (warp == CARRY) {
        if (FINDING)
            take_carries(p, b);
        else
            look_back(p, b);
    } else if (warp == LOAD) {
        load_chunks(p, b);
    } else if (warp == HAND_ON) {
        hand_on_chunks(p, b);
    } else if (warp == STORE && scan::IN_PLACE) {
        store_chunks(p, b);
    }
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) {
        p.shared->ticket = 0;
        p.shared->launch += 1;
    }
}

}  // namespace tcu::kernels
