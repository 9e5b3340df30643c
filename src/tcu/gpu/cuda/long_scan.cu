// Running sums of long rows, by the plan of tcu/plan/scan.py, in one pass over memory: warps with a task each.
//
// A chunk (16 KiB) goes through shared memory: one warp has it copied there, some add up its lines, one hands on what
// they come to, and one the totals of runs of chunks, some look back for what comes before it, a warp for each line scans
// it, results in place of numbers, and one warp has them copied to memory; results that are twice as wide go there from a
// line of shared memory that each of these warps has.  A block has as many chunks under way as shared memory has room for,
// and none waits for another of them.
//
// What matters is how long a chunk's way through a warp is: while one warp loaded and stored, with 2100 cycles of
// instructions, all others waited for it, and with numbers drawn a chunk earlier than needed, all blocks for the
// slowest (H200: 0.74 and 0.66 of a copy's speed in place of 0.78).  And how many warps look back: all look at the same
// few slots, in one place of the second cache, which then answers late.  With 8 warps of each block the speed was 0.80,
// with 4 0.84, with 2 0.86; but who looks back must not be who hands on totals, for which all blocks wait.  And how many
// chunks are under way: 8, 10, 12 and 13 of them took 655, 609, 577 and 569 us for 2^29 numbers.  So a line's totals and
// starts have one place, results leave a buffer without waiting for the next ones, and a number is drawn meanwhile.
//
// Of 2^24 numbers of binary32 (43 us, of which 3 are any launch), 8 us pass until the first results leave, and then a
// block scans a chunk in 0.7 to 1 us: 2 to 3 until it has arrived, 5 until a warp looks back for it, 1 to 2 for that, 1
// until it is scanned, and what others hand on is seen 1 us later.  No faster: less asked for at a time, pauses between
// looks, slots far from the counter of numbers, 6 to 14 chunks under way, two lines of a warp at once (42.2, but 1,067 in
// place of 1,061 us for 2^29), other warps for the levels above (42.3, but 1,088).  Slower: slots of several chunks asked for
// at once (45 to 51), chunks by twos (44.7 to 49), three numbers drawn ahead (45), chunks fetched into the second cache ahead
// of their copies (45 to 50, as reads displace results), and twice as many slots looked at in place of the last run's (48).
//
// Compiled with ELEMENT and RESULT, LAYOUT (ALIGNED: every row begins at a multiple of 16 bytes, in the
// array and in the result, and reversed ones end at one of 32), for sm_90 and later, and
//   EXCLUSIVE, REVERSE
//   LEVELS     of chunks in a row
//   BUFFERS    chunks under way
//   SUMMING    warps that add up: 2, 4 or 8
//   LOOKING    warps that look back
//
// The host fills the structure field by field (tcu/gpu/scans.py): change both together.

#include "bulk.cuh"
#include "line_results.cuh"
#include "scan.cuh"
#if ELEMENT == BINARY16
#include "exact_lines.cuh"
#else
#include "plan_lines.cuh"
#endif

constexpr int ELEMENTS = LINES * WARP * GROUP;  // of a chunk
constexpr int LINE = WARP * GROUP;
constexpr int SCANNING = LINES;  // warps, a line each
constexpr int LOAD = SCANNING + SUMMING + LOOKING, STORE = LOAD + 1, HAND_ON = LOAD + 2;  // and one for runs
constexpr int THREADS = (HAND_ON + 2) * WARP;
static_assert(IN_PLACE || sizeof(ResultCode) == 2 * sizeof(Code), "a lane's results have a place, or are four granules");
constexpr int STORED = ELEMENTS / 4;  // at a time: more than with one store for all (H200: 0.88 and 0.87 of a copy's speed)

static_assert(LOOKING < BUFFERS, "the end is told to a turn of each such warp, in buffers that are empty by then");
// Whoever waits for a turn of a barrier has waited for all before: a turn cannot be told from the next but one.
static_assert(BUFFERS % LOOKING == 0, "a warp that looks back has every turn of its buffers");

// A chunk's numbers: all of a stretch of memory.
struct Chunk {
    i64 row, number;  // in the row
    i64 first;        // element of the row, in memory
    int count;        // elements
    int lines;        // that they fill; 0: there are no more chunks

    // Where the elements begin in shared memory: so that in the order of the scan there is nothing before them.
    __device__ int offset() const { return REVERSE ? lines * LINE - count : 0; }
    __device__ int whole() const { return count / PER_LOAD * PER_LOAD; }

    __device__ const Code* from(const Scan& p) const {
        return static_cast<const Code*>(p.data) + row * p.stride + first;
    }
};

__device__ inline Chunk chunk_of(const Scan& p, u32 number) {
    Chunk c;
    c.row = p.rows == 1 ? 0 : number / static_cast<u32>(p.levels.chunks);
    c.number = number - static_cast<u32>(c.row) * static_cast<u32>(p.levels.chunks);
    const i64 before = c.number * ELEMENTS;
    c.count = static_cast<int>(min(p.length - before, static_cast<i64>(ELEMENTS)));
    c.lines = (c.count + LINE - 1) / LINE;
    c.first = REVERSE ? p.length - before - c.count : before;
    return c;
}

constexpr int KNOWN = 4;
constexpr u32 SLOTS_OF_LINE = 128 / sizeof(Slot);
constexpr u32 FAR = 4096;  // chunks before whose turn their slots are fetched: twice as many as are under way

struct Buffers {
    Group groups[BUFFERS][LINES * WARP];
    uint4 results[IN_PLACE ? 1 : LINES][IN_PLACE ? 1 : 4 * WARP];  // a line's, that are twice as wide
    double lines[BUFFERS][LINES];  // what a line comes to, and then what comes before it in the chunk
    double carries[BUFFERS];       // what comes before the chunk
    Chunk chunks[BUFFERS];
    Slot known[KNOWN];  // what comes before 2^10 chunks, each half beside their number
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
__device__ inline void fetch_slots(const Scan& p, u32 number) {
    if (number >= p.shares) return;
    const u32 chunks = static_cast<u32>(p.levels.chunks), row = p.rows == 1 ? 0 : number / chunks;
#pragma unroll
    for (int level = 0; level < LEVELS; ++level) {
        const Run run(p.slots, p.levels, level, row, number - row * chunks);
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(run.slots + run.place));
    }
}

__device__ inline u32 draw(const Scan& p) { return atomicAdd(&p.shared->ticket, 1); }

// Draws chunks as buffers are done, and has them copied when they are empty.  Whoever waits, waits for chunks of lower
// numbers, which running blocks have drawn; to draw one earlier than it is needed keeps all others waiting for it.
// Lane 0 has drawn the first one.
__device__ inline void load_chunks(const Scan& p, Buffers& b, u32 first) {
    const int lane = threadIdx.x % WARP;
    int turns = 0;
    Turn turn;
    for (int ends = 0; ends <= LOOKING; turn.next(), ++turns) {
        u32 number = turns ? ALL : first;
        if (turns >= BUFFERS) wait_for_copy(&(IN_PLACE ? b.done : b.empty)[turn.buffer], turn.odd ^ 1);
        if (turns > 0 && ends == 0 && lane == 0) number = draw(p);
        // Drawn while the last results leave the buffer.
        if (IN_PLACE && turns >= BUFFERS) wait_for_copy(&b.empty[turn.buffer], turn.odd ^ 1);
        number = __shfl_sync(ALL, number, 0);
        u64* const full = &b.full[turn.buffer];
        if (number >= p.shares) {
            ++ends;
            if (lane == 0) {
                b.chunks[turn.buffer].lines = 0;
                arrive(full);
            }
            continue;
        }
        if (lane == 0 && number % SLOTS_OF_LINE == 0) fetch_slots(p, number + FAR);
        const Chunk c = chunk_of(p, number);
        const Code* const from = c.from(p);
        Code* const codes = b.groups[turn.buffer]->codes + c.offset();
        if (c.count % LINE) {  // once in a row
            for (int i = lane; i < c.offset(); i += WARP) codes[i - c.offset()] = 0;
            for (int i = c.whole() + lane; i < c.lines * LINE - c.offset(); i += WARP)
                codes[i] = i < c.count ? from[i] : 0;
            release_to_copies();
            __syncwarp();
        }
        if (lane == 0) {
            b.chunks[turn.buffer] = c;
            copy_bulk(codes, from, c.whole() * sizeof(Code), full);
        }
    }
}

// Has results copied to memory, and says which buffers are empty.
__device__ inline void store_chunks(const Scan& p, Buffers& b) {
    const int lane = threadIdx.x % WARP;
    for (Turn turn;; turn.next()) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        const Chunk c = b.chunks[turn.buffer];
        if (c.lines == 0) break;
        wait_for_copy(&b.done[turn.buffer], turn.odd);
        ResultCode* const to = static_cast<ResultCode*>(p.out) + c.row * p.out_stride + c.first;
        const ResultCode* const codes = reinterpret_cast<const ResultCode*>(b.groups[turn.buffer]->codes);
        if (c.whole() + lane < c.count) to[c.whole() + lane] = codes[c.whole() + lane];
        __syncwarp();
        if (lane == 0) {
            release_to_copies();  // what all warps have written: it may be anywhere on the way to the copy (PTX ISA, 8.9.5)
            for (int i = 0; i < c.whole(); i += STORED)
                start_store(to + i, codes + c.offset() + i, min(STORED, c.whole() - i) * sizeof(ResultCode));
            commit_stores();
            wait_for_stores();
            arrive(&b.empty[turn.buffer]);
        }
    }
}

// The sums of EACH lines from number `lowest` on, some of which are not there, in the lanes of sums_of_lines.
template <int EACH>
__device__ __noinline__ double sums_of_few(const Group* groups, int lowest, int lines) {
    double sum = 0;
    for (int i = 0; i < EACH; ++i) {
        const int line = lowest + i;
        const double one = line >= 0 && line < lines ? sums_of_lines<1>(groups + line * WARP) : 0;
        if (line_of_lane<EACH>(threadIdx.x % WARP) == i) sum = one;
    }
    return sum;
}

__device__ inline void add_up_lines(Buffers& b, int warp) {
    constexpr int EACH = LINES / SUMMING;
    const int lane = threadIdx.x % WARP, first = warp * EACH;
    for (Turn turn;; turn.next()) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines;
        if (lines == 0) return;
        const int lowest = REVERSE ? lines - first - EACH : first;
        const Group* const groups = b.groups[turn.buffer];
        const double sum = lowest >= 0 && lowest + EACH <= lines ? sums_of_lines<EACH>(groups + lowest * WARP)
                                                                 : sums_of_few<EACH>(groups, lowest, lines);
        const int line = line_of_lane<EACH>(lane);
        b.lines[turn.buffer][first + (REVERSE ? EACH - 1 - line : line)] = sum;
        __syncwarp();
        if (lane == 0) arrive(&b.summed[turn.buffer]);
    }
}

// What comes before chunk j of a row on the levels from 2 on: alike for 2^10 chunks, of which a block has some, and found
// once for them.
__device__ inline double before_runs(const Scan& p, Buffers& b, i64 row, i64 j, u32 launch) {
    if (LEVELS <= 2) return 0;
    const u32 key = static_cast<u32>(row * p.levels.runs[2] + (j >> 10));
    volatile u64* const known = &b.known[key % KNOWN].high;
    const u64 high = known[0], low = known[1], tag = static_cast<u64>(key) << 32;
    if (__all_sync(ALL, high >> 32 == key && low >> 32 == key))
        return __longlong_as_double(high << 32 | (low & ALL));
    const int lane = threadIdx.x % WARP;
    double carry = 0;
#pragma unroll
    for (int level = LEVELS - 1; level >= 2; --level) {
        const Run run(p.slots, p.levels, level, row, j);
        const bool is_earlier = lane < run.place - 1;
        Slot seen = {};
        if (is_earlier) seen = glance(run.slots + lane);
        // The total that is handed on last is added up here, too: else all blocks would wait for the one that does (H200,
        // 2^24 numbers of binary32: 44.2 in place of 44.8 us).
        double total = 0;
        if (run.place) {
            const Run last(p.slots, p.levels, level - 1, row, (j >> 5 * level << 5 * level) - 1);
            total = total_of_run(last.slots, glance(last.slots + lane), launch);
        }
        if (is_earlier) total = wait_for(run.slots + lane, seen, launch);
        __syncwarp();
        carry += before_place(total, run.place);
    }
    if (lane == 0) {
        const u64 bits = __double_as_longlong(carry);
        known[0] = tag | bits >> 32;
        known[1] = tag | (bits & ALL);
    }
    return carry;
}

// The number of this launch, in slots.
__device__ inline u32 launch_of(const Scan& p) {
    u32 launches = 0;
    if (threadIdx.x % WARP == 0) launches = launches_before(p.shared);
    return __shfl_sync(ALL, launches, 0) + 1;
}

__device__ inline bool is_finite(double v) { return (__double2hiint(v) & 0x7ff00000) != 0x7ff00000; }

__device__ inline void hand_on_chunks(const Scan& p, Buffers& b) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = launch_of(p);
    for (Turn turn;; turn.next()) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        if (b.chunks[turn.buffer].lines == 0) return;
        const Run own(p.slots, p.levels, 0, b.chunks[turn.buffer].row, b.chunks[turn.buffer].number);
        wait_for_copy(&b.summed[turn.buffer], turn.odd);
        const double line = b.lines[turn.buffer][lane % LINES], sum = inclusive<LINES>(line, lane);
        if (lane == LINES - 1) hand_on(own.slots + own.place, sum, launch);
        const double earlier = exclusive<LINES>(sum, lane);
        const u32 finite = __ballot_sync(ALL, is_finite(line));
        if (lane < LINES) b.lines[turn.buffer][lane] = earlier;
        if (lane == 0) b.finite[turn.buffer] = finite;
        __syncwarp();
        if (lane == 0) arrive(&b.found[turn.buffer]);
    }
}

// Waits for chunks of other blocks, where a run ends: all that this keeps waiting waits for those chunks anyway.
__device__ inline void hand_on_all_runs(const Scan& p, Buffers& b) {
    const u32 launch = launch_of(p);
    for (Turn turn;; turn.next()) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        if (b.chunks[turn.buffer].lines == 0) return;
        const i64 row = b.chunks[turn.buffer].row, chunk = b.chunks[turn.buffer].number;
        __syncwarp();
        if (threadIdx.x % WARP == 0) arrive(&b.found[turn.buffer]);
        hand_on_runs(p.slots, p.levels, row, chunk, launch);
    }
}

__device__ inline void look_back(const Scan& p, Buffers& b, int first) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = launch_of(p);
    Turn turn;
    for (turn.next(first);; turn.next(LOOKING)) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        if (b.chunks[turn.buffer].lines == 0) return;
        const i64 row = b.chunks[turn.buffer].row, chunk = b.chunks[turn.buffer].number;
        const Run own(p.slots, p.levels, 0, row, chunk);
        // Asked for on both levels before one is waited for.
        Slot here = {}, above = {};
        if (lane < own.place) here = glance(own.slots + lane);
        double carry = 0;
        if (LEVELS > 1) {
            const Run runs(p.slots, p.levels, 1, row, chunk);
            if (lane < runs.place) above = glance(runs.slots + lane);
            carry = before_runs(p, b, row, chunk, launch) + before_in_run(runs, above, launch);
        }
        carry += before_in_run(own, here, launch);
        if (lane == 0) {
            b.carries[turn.buffer] = carry;
            arrive(&b.found[turn.buffer]);
        }
    }
}

// A lane's results that are twice as wide as numbers, to their place in a line of them in shared memory.
__device__ inline void put_wide(uint4* line, const ResultCode (&codes)[GROUP]) {
    union {
        ResultCode codes[GROUP];
        uint4 granules[4];
    } r;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) r.codes[i] = codes[i];
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
__device__ __noinline__ void store_any_line(ResultCode* to, const Group* at, double start, int first, int below) {
    ResultCode codes[GROUP];
    any_results_of<WARP>(*at, start, codes);
    for (int i = 0; i < GROUP; ++i)
        if (first <= i && i < below) to[i] = codes[i];
}

__device__ inline void scan_lines(const Scan& p, Buffers& b, int line) {
    const int lane = threadIdx.x % WARP;
    for (Turn turn;; turn.next()) {
        wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines, last = REVERSE ? lines - 1 - line : line;
        // Where there is no such line, another one or none is looked at, and nothing becomes of it.
        const int place = REVERSE ? (max(last, 0) + 1) * WARP - 1 - lane : last * WARP + lane;
        Group* const at = b.groups[turn.buffer] + place;
        const Running<WARP> running(*at);  // before the wait for what comes before
        if (__any_sync(ALL, lines == 0)) break;
        wait_for_copy(&b.found[turn.buffer], turn.odd);
        const double start = b.carries[turn.buffer] + b.lines[turn.buffer][line];
        const bool is_plain = __all_sync(ALL, is_finite(start) && b.finite[turn.buffer] >> line & 1);
        if constexpr (IN_PLACE) {
            if (line < lines) {
                if (is_plain)
                    put(running, at, start);
                else
                    scan_any<WARP>(at, start);
            }
            __syncwarp();
            if (lane == 0) arrive(&b.done[turn.buffer]);
        } else {
            const Chunk c = b.chunks[turn.buffer];
            const int first = place * GROUP - c.offset();  // of the chunk's elements, the lane's first one in memory
            ResultCode* const to = static_cast<ResultCode*>(p.out) + c.row * p.out_stride + c.first + first;
            const bool is_whole = first >= 0 && first + GROUP <= c.count;
            __syncwarp();
            if (__all_sync(ALL, is_plain && is_whole && line < lines)) {
                if (lane == 0) arrive(&b.empty[turn.buffer]);  // all that is needed is in registers
                ResultCode codes[GROUP];
                results_of(running, start, codes);
                wait_for_stores();  // of the line before: the lane that has started them
                __syncwarp();
                put_wide(b.results[line], codes);
                release_to_copies();
                __syncwarp();
                if (lane == (REVERSE ? WARP - 1 : 0)) {
                    start_store(to, b.results[line], sizeof(b.results[line]));
                    commit_stores();
                }
            } else {
                if (line < lines) store_any_line(to, at, start, -first, c.count - first);
                __syncwarp();
                if (lane == 0) arrive(&b.empty[turn.buffer]);
            }
        }
    }
    if (!IN_PLACE) wait_for_stores();  // memory is the block's until they have left it
}

// By all warps, one thread of each: the threads of one would take turns, 50 barriers 1 us (H200, 2^24 numbers of binary32: 43.2
// in place of 45.2 us).
__device__ inline void prepare_barriers(Buffers& b, int warp) {
    if (threadIdx.x % WARP != 0) return;
#pragma unroll 1
    for (int i = warp; i < BUFFERS; i += THREADS / WARP) {
        prepare(&b.full[i]);
        prepare(&b.summed[i], SUMMING);
    }
#pragma unroll 1
    for (int i = THREADS / WARP - 1 - warp; i < BUFFERS; i += THREADS / WARP) {
        prepare(&b.found[i], LEVELS > 1 ? 3 : 2);
        prepare(&b.done[i], LINES);
        prepare(&b.empty[i], IN_PLACE ? 1 : LINES);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) long_scan(const __grid_constant__ Scan p) {
    extern __shared__ uint4 memory[];
    Buffers& b = *reinterpret_cast<Buffers*>(memory);
    const int warp = threadIdx.x / WARP;
    // Asked for before the barriers are ready.
    u32 first = ALL;
    if (threadIdx.x == LOAD * WARP) first = draw(p);
    if (threadIdx.x < KNOWN) b.known[threadIdx.x].high = b.known[threadIdx.x].low = ~0ull;  // no chunks' number
    prepare_barriers(b, warp);
    __syncthreads();
    if (warp < SCANNING) {
        // These warps have nothing to do yet, and the others all the more: before the barrier, it would take 1 us.
        const u32 step = SLOTS_OF_LINE * SCANNING * WARP;
        for (u32 i = SLOTS_OF_LINE * threadIdx.x + step * blockIdx.x; i < FAR; i += step * gridDim.x) fetch_slots(p, i);
        scan_lines(p, b, warp);
    } else if (warp < SCANNING + SUMMING)
        add_up_lines(b, warp - SCANNING);
    else if (warp < LOAD)
        look_back(p, b, warp - SCANNING - SUMMING);
    else if (warp == LOAD)
        load_chunks(p, b, first);
    else if (warp == HAND_ON)
        hand_on_chunks(p, b);
    else if (warp == STORE) {
        if (IN_PLACE) store_chunks(p, b);
    } else if (LEVELS > 1)
        hand_on_all_runs(p, b);
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) {
        p.shared->ticket = 0;
        p.shared->launch += 1;
    }
}
