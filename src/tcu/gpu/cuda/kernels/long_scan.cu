// Running sums of long rows, by the plan of tcu/plan/scan.py, in one pass over memory.  Each warp of a block has a
// task of its own.
//
// A chunk (16 KiB) goes through shared memory.  One warp has it copied there; some warps add up its lines; one hands
// on the chunk's total; one waits for the carry, the sum of the row before the chunk.  Then one warp for each line
// scans it, with results in place of numbers, and one warp has the results copied to memory.  Results that have another
// width than numbers, or lie otherwise in their granules, go to memory from a line of shared memory that each of the
// scanning warps has.  A block has
// BUFFERS chunks under way, none of which waits for another.  In long rows, one block finds the carries for all
// others (scan/block_carry.cuh); in rows of up to 32 chunks, a warp of each block looks back for them.
//
// All blocks run at the same time.  In long rows blocks take turns: each gets a chunk after all others have had one,
// and loads few chunks at a time.  With more, chunks arrive in another order than that in which they are scanned.
// While blocks drew the numbers of their chunks, blocks far from the counter, which took 1 us to answer, got 27 of
// them where others got 35 (H200, binary32: 2^24 numbers took 40.4 in place of 38.0 us, 2^29 1,067 in place of
// 1,040). In rows of up to 32 chunks, blocks do not wait for all others, so they draw all numbers but the first ones:
// in turns, rows of two chunks took 6 to 10 % longer.
//
// What matters besides is how long each warp works on a chunk.  While one warp both loaded and stored, with 2100
// cycles of instructions, all other warps waited for it; and with numbers drawn a chunk earlier than needed, all
// blocks waited for the slowest (H200: 0.74 and 0.66 of a copy's speed in place of 0.78). So the totals and the
// starts of lines share one place, results leave a buffer without waiting for the next ones, and a number is drawn
// meanwhile.
//
// 2^24 numbers of binary32 take 39 us, a copy 36, and the scan of CUB 52. Any launch takes 3 us.  The first results
// leave after 5 us, and the last ones 3 us after the last numbers have arrived.  In between, memory is as busy as
// with a copy.  A chunk is under way for 6 us: 2 to 3 until it has arrived, 0.5 until its total is handed on, 1 to 2
// until its carry has been found, 1 until that is seen, and 1 until it is scanned and has left.  Without any
// arithmetic, and without waiting for carries, it takes as long.  No faster: 8 warps that add up; one store for a
// chunk.  Slower: numbers that leave the second cache first (0.4 us; with the results, too, 1.1 us); first chunks
// that are prefetched into it (3 us).
//
// Compiled with ELEMENT and RESULT, LAYOUT (ALIGNED), for sm_90 and later, and
//   UNIT       the bytes, up to 16, of which the beginnings of rows, and the ends of reversed ones, are multiples
//   RESULT_UNIT  the same of the results
//   APART      0: results take the places of numbers, from which they differ neither in width nor in how far behind a
//              granule they begin
//   EXCLUSIVE, REVERSE
//   LEVELS     levels of chunks in a row
//   BUFFERS    chunks under way
//   SUMMING    warps that add up: 2, 4 or 8

#include "device/load/bulk_copy.cuh"
#include "device/load/turn.cuh"
#include "device/scan/block_carry.cuh"
#include "device/scan/line_results.cuh"
#if ELEMENT == BINARY16 && UNIT == 16
#include "device/scan/exact_lines.cuh"
#else
#include "device/scan/plan_lines.cuh"
#endif

using namespace tcu;

#if ELEMENT == BINARY16 && UNIT == 16
typedef scan::ExactRunningSums<WARP> RunningSums;
#else
typedef scan::PlanRunningSums<WARP> RunningSums;
#endif

constexpr int ELEMENTS = scan::LINES * WARP * scan::GROUP;  // numbers of a chunk
constexpr int LINE = WARP * scan::GROUP;
constexpr int SIZE = sizeof(Code), GROUP_BYTES = sizeof(scan::Group);
// Lines of memory are lines of shared memory (load/ring.cuh), wherever a chunk begins.
constexpr int MEMORY_LINE = 128, MORE = UNIT < 16 ? MEMORY_LINE / GROUP_BYTES : 0;
constexpr int SCANNING = scan::LINES;  // warps that scan, a line each
constexpr int CARRY = SCANNING + SUMMING, LOAD = CARRY + 1, HAND_ON = LOAD + 1, STORE = HAND_ON + 1;
constexpr int WARPS = STORE + 1;
constexpr bool IN_PLACE = !APART;
constexpr int RESULT_SIZE = sizeof(finish::ResultCode), RESULTS = LINE * RESULT_SIZE;  // bytes of a line's results
constexpr u32 FINDING = LEVELS > 1;  // blocks that find carries for the others
constexpr u32 WATCHED = 2;  // chunks for whose carries a block looks at a time: 40.3, 40.6 and 41.4 us with 2, 4 and 1
// Chunks of a block that are loading at a time, in long rows.  With 2, 3, 4, 5, 6 and all it took 42.6, 38.7, 38.7,
// 39.5, 40.1 and 40.9 us.  With 4 in place of 3, 2^29 numbers take 0.5 % more, and 2^24 numbers of binary16 4 %.
constexpr int LOADING = BUFFERS < 3 ? BUFFERS : 3;
// Chunks asked for before other barriers are ready; with 4, binary16 to binary32 takes 33.3 in place of 31.5 us.
constexpr int FIRST = 2;
static_assert(FIRST <= LOADING, "they are asked for at once");
// Numbers in a store; one store for a chunk is slower (H200: 0.87 in place of 0.88 of a copy's speed).
constexpr int STORED = ELEMENTS / 4;

// A chunk's numbers, which lie side by side in memory.
struct RowChunk {
    i64 row;
    u32 number, in_all;  // its number in the row, and in all rows together
    i64 first;           // its first element in memory, counted from the row's begin
    int count;           // elements
    int lines;           // lines that they fill; 0: there are no more chunks

    int shift;           // where the groups begin in their buffer, in bytes

    // Where the elements begin, counted from the first group's.  In the order of the scan, nothing comes before them.
    __device__ int offset() const { return REVERSE ? lines * LINE - count : 0; }

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
    c.shift = UNIT < 16 ? reinterpret_cast<u64>(c.from(p) + (REVERSE ? c.count : 0)) % MEMORY_LINE : 0;
    return c;
}

constexpr u32 SLOTS_OF_LINE = 128 / sizeof(scan::Slot);
constexpr u32 FAR = 4096;  // slots are fetched so many chunks ahead: more than twice as many as are under way

struct LongScanBuffers {
    scan::Group groups[BUFFERS][scan::LINES * WARP + MORE];
    // Of a line each, where results have a place of their own.
    uint4 results[IN_PLACE ? 1 : scan::LINES][IN_PLACE ? 1 : RESULTS / 16 + (RESULT_UNIT < 16)];
    double lines[BUFFERS][scan::LINES];  // each line's total, and then the sum of the chunk before the line
    double carries[BUFFERS];             // the sum of the row before the chunk
    RowChunk chunks[BUFFERS];
    u32 finite[BUFFERS];  // a bit for each line: whether all its numbers are finite
    u64 full[BUFFERS], summed[BUFFERS], found[BUFFERS], done[BUFFERS], empty[BUFFERS];  // barriers

    __device__ char* groups_of(int buffer) { return reinterpret_cast<char*>(groups[buffer]) + chunks[buffer].shift; }
};

// Fetches the slots of a chunk, and of the following ones in the same line of memory, into the second cache.  What
// was read and written has driven them out since the last launch, and the first look at one would wait for memory
// behind all other accesses (H200, 2^29 numbers of binary32: 0.94 of a copy's speed in place of 0.91).
__device__ inline void fetch_slots(const scan::Scan& p, u32 number) {
    if (number >= p.shares) return;
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(scan::total_of_chunk(p, number)));
    if (FINDING) asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(scan::carry_of_chunk(p, number)));
}

// The number of a block's chunk: the first where blocks take turns, the second where it is drawn, after the first
// FIRST chunks.
__device__ inline u32 number_in(int turn) { return blockIdx.x - FINDING + turn * (gridDim.x - FINDING); }
__device__ inline u32 draw(const scan::Scan& p) { return atomicAdd(&p.shared->ticket, 1) + FIRST * gridDim.x; }

// Starts the copy of a chunk, if there is one, into a buffer that is empty.  Returns whether there is one.
__device__ inline bool load_chunk(const scan::Scan& p, LongScanBuffers& b, load::Turn<BUFFERS> turn, u32 number) {
    const int lane = threadIdx.x % WARP;
    u64* const full = &b.full[turn.buffer];
    if (number >= p.shares) {
        if (lane == 0) {
            b.chunks[turn.buffer].lines = b.chunks[turn.buffer].shift = 0;  // it is read, though nothing is done with it
            load::arrive(full);
        }
        return false;
    }
    if (lane == 0 && number % SLOTS_OF_LINE == 0) fetch_slots(p, number + FAR);
    const RowChunk c = chunk_of(p, number);
    const Code* const from = c.from(p);
    Code* const codes = reinterpret_cast<Code*>(reinterpret_cast<char*>(b.groups[turn.buffer]) + c.shift) + c.offset();
    // Whole granules are copied.  Each holds at least one element.
    const int past = static_cast<int>(reinterpret_cast<u64>(from) % 16) / SIZE;
    const int copied = (past + c.count + PER_LOAD - 1) / PER_LOAD * PER_LOAD;
    if (c.count % LINE) {  // at most once in a row
        for (int i = lane; i < c.offset() - past; i += WARP) codes[i - c.offset()] = 0;
        for (int i = copied - past + lane; i < c.lines * LINE - c.offset(); i += WARP) codes[i] = 0;
        load::release_to_copies();
        __syncwarp();
    }
    if (lane == 0) {
        b.chunks[turn.buffer] = c;
        load::copy_bulk(codes - past, from - past, copied * SIZE, full);
    }
    return true;
}

// Called before other barriers are ready, which saves 0.3 us.
__device__ inline void load_first_chunks(const scan::Scan& p, LongScanBuffers& b) {
    if (threadIdx.x % WARP == 0)
        for (int i = 0; i < FIRST; ++i) load::prepare(&b.full[i]);
    __syncwarp();
    load::Turn<BUFFERS> turn;
    for (int i = 0; i < FIRST; ++i, turn.next()) load_chunk(p, b, turn, number_in(i));
}

// Starts the copies of the other chunks when buffers are empty.  Whoever waits, waits for chunks of lower numbers,
// which running blocks have.  When there are no more chunks, each buffer is marked so, as some warp waits for each of
// them.
__device__ inline void load_chunks(const scan::Scan& p, LongScanBuffers& b) {
    int ends = 0, turns = FIRST;
    for (int i = 0; i < FIRST; ++i) ends += number_in(i) >= p.shares;
    load::Turn<BUFFERS> turn, loading;
    for (turn.next(FIRST); ends < BUFFERS; ++turns, turn.next()) {
        u32 number = number_in(turns);
        if (FINDING && turns >= LOADING) {
            load::wait_for_copy(&b.full[loading.buffer], loading.odd);
            loading.next();
        }
        if (!FINDING) {
            // The number is drawn while the last results leave the buffer: drawn earlier, it would keep all others
            // waiting for it.
            if (turns >= BUFFERS) load::wait_for_copy(&(IN_PLACE ? b.done : b.empty)[turn.buffer], turn.odd ^ 1);
            if (threadIdx.x % WARP == 0) number = ends == 0 ? draw(p) : ALL;
        }
        if (turns >= BUFFERS) load::wait_for_copy(&b.empty[turn.buffer], turn.odd ^ 1);
        // So no lane still waits for a phase of a barrier that another lane has already begun anew.
        number = __shfl_sync(ALL, number, 0);
        ends += !load_chunk(p, b, turn, number);
    }
}

// Starts the copies of results to memory, and marks their buffers as empty afterwards.
__device__ inline void store_chunks(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    for (load::Turn<BUFFERS> turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const RowChunk c = b.chunks[turn.buffer];
        if (c.lines == 0) break;
        load::wait_for_copy(&b.done[turn.buffer], turn.odd);
        finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + c.row * p.out_stride + c.first;
        const finish::ResultCode* const codes =
            reinterpret_cast<const finish::ResultCode*>(b.groups_of(turn.buffer) + c.offset() * SIZE);
        // Those that share a granule with others are stored one by one.
        const int head = UNIT < 16 ? min(static_cast<int>(-reinterpret_cast<u64>(to) % 16) / SIZE, c.count) : 0;
        const int end = head + (c.count - head) / PER_LOAD * PER_LOAD;
        if (lane < head) to[lane] = codes[lane];
        if (end + lane < c.count) to[end + lane] = codes[end + lane];
        __syncwarp();
        if (lane == 0) {
            // Of what all warps have written, which may not have reached the copy engine yet (PTX ISA, 8.9.5).
            load::release_to_copies();
            for (int i = head; i < end; i += STORED)
                load::start_store(to + i, codes + i, min(STORED, end - i) * sizeof(finish::ResultCode));
            load::commit_stores();
            load::wait_for_stores();
            load::arrive(&b.empty[turn.buffer]);
        }
    }
}

// The sums of EACH lines from number `lowest` on, some of which do not exist, in the lanes that sums_of_lines would
// use.
template <int EACH>
__device__ __noinline__ double sums_of_few(const char* groups, int lowest, int lines) {
    double sum = 0;
    for (int i = 0; i < EACH; ++i) {
        const int line = lowest + i;
        const double one = line >= 0 && line < lines ? scan::sums_of_lines<1, UNIT>(groups + line * WARP * GROUP_BYTES) : 0;
        if (scan::line_of_lane<EACH>(threadIdx.x % WARP) == i) sum = one;
    }
    return sum;
}

__device__ inline void add_up_lines(LongScanBuffers& b, int warp) {
    constexpr int EACH = scan::LINES / SUMMING;
    const int lane = threadIdx.x % WARP, first = warp * EACH;
    for (load::Turn<BUFFERS> turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines;
        if (lines == 0) return;
        const int lowest = REVERSE ? lines - first - EACH : first;
        const char* const groups = b.groups_of(turn.buffer);
        const double sum = lowest >= 0 && lowest + EACH <= lines
                               ? scan::sums_of_lines<EACH, UNIT>(groups + lowest * WARP * GROUP_BYTES)
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
    for (load::Turn<BUFFERS> turn;; turn.next()) {
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

// Looks for the carries of chunks in rows of up to 32 chunks.  Two warps that take turns are no faster (H200, rows of
// two chunks: binary32 1,040 in place of 1,034 us, binary16 to binary32 844 in place of 813).
__device__ inline void look_back(const scan::Scan& p, LongScanBuffers& b) {
    const int lane = threadIdx.x % WARP;
    const u32 launch = scan::launch_of(p);
    for (load::Turn<BUFFERS> turn;; turn.next()) {
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

// Waits for the carries that another block finds; each lane waits for those of one buffer.
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

// Puts a lane's results, which are twice as wide as numbers, into their places in a line in shared memory.
__device__ inline void put_wide(uint4* own, const scan::Results& results) {
    union {
        scan::Results results;
        uint4 granules[4];
    } r;
    r.results = results;
    const int lane = threadIdx.x % WARP;
    // Each pair of lanes begins with another granule, so that eight lanes together use all banks.
    const int turned = lane / 2 % 4;
    uint4 once[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) once[i] = turned & 1 ? r.granules[(i + 1) % 4] : r.granules[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) own[(i + turned) % 4] = turned & 2 ? once[(i + 2) % 4] : once[i];
}

// Puts the results of a whole line into shared memory, and has them copied from there.  `to` is the place of this lane's.
__device__ inline void store_line(finish::ResultCode* to, uint4* line, const scan::Results& r) {
    const int lane = threadIdx.x % WARP, place = (REVERSE ? WARP - 1 - lane : lane) * scan::GROUP;
    finish::ResultCode* const first = to - place;
    const int shift = RESULT_UNIT < 16 ? static_cast<int>(reinterpret_cast<u64>(first) % 16) : 0;
    char* const results = reinterpret_cast<char*>(line) + shift;
    char* const own = results + place * RESULT_SIZE;
    if constexpr (RESULT_UNIT == 16 && RESULT_SIZE == 2 * SIZE)
        put_wide(reinterpret_cast<uint4*>(own), r);
    else
        scan::write_words<RESULT_UNIT>(own, r.word);
    load::release_to_copies();
    __syncwarp();
    // Those that share a granule with others are stored one by one.
    const int head = -shift & 15, whole = (RESULTS - head) / 16 * 16;
    if (lane == (REVERSE ? WARP - 1 : 0)) {
        load::start_store(reinterpret_cast<char*>(first) + head, results + head, whole);
        load::commit_stores();
    }
    if (RESULT_UNIT == 16) return;
    const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(results);
    const int rest = (head + whole) / RESULT_SIZE + lane;
    if (lane < head / RESULT_SIZE) first[lane] = codes[lane];
    if (rest < LINE) first[rest] = codes[rest];
}

// Stores the results of a line, for any numbers.  Counted from the lane's first element, elements `first` to `below`
// - 1 exist.  Not inline, so that it takes no registers from the usual way.
__device__ __noinline__ void store_any_line(finish::ResultCode* to, const char* at, double start, int first, int below) {
    finish::ResultCode codes[scan::GROUP];
    scan::any_results_of<WARP>(scan::group_at<UNIT>(at), start, codes);
    for (int i = 0; i < scan::GROUP; ++i)
        if (first <= i && i < below) to[i] = codes[i];
}

__device__ inline void scan_lines(const scan::Scan& p, LongScanBuffers& b, int line) {
    const int lane = threadIdx.x % WARP;
    for (load::Turn<BUFFERS> turn;; turn.next()) {
        load::wait_for_copy(&b.full[turn.buffer], turn.odd);
        const int lines = b.chunks[turn.buffer].lines, last = REVERSE ? lines - 1 - line : line;
        // If there is no such line, another line or none is read, and its results are not stored.
        const int place = REVERSE ? (max(last, 0) + 1) * WARP - 1 - lane : last * WARP + lane;
        char* const at = b.groups_of(turn.buffer) + place * GROUP_BYTES;
        const RunningSums running(scan::group_at<UNIT>(at));  // computed before the wait for the carry
        if (__any_sync(ALL, lines == 0)) break;
        load::wait_for_copy(&b.found[turn.buffer], turn.odd);
        const double start = b.carries[turn.buffer] + b.lines[turn.buffer][line];
        const bool is_plain = __all_sync(ALL, is_finite(start) && b.finite[turn.buffer] >> line & 1);
        if constexpr (IN_PLACE) {
            if (line < lines) {
                if (is_plain)
                    scan::put<UNIT>(running, at, start);
                else
                    scan::scan_any<WARP, UNIT>(at, start);
            }
            __syncwarp();
            if (lane == 0) load::arrive(&b.done[turn.buffer]);
        } else {
            const RowChunk c = b.chunks[turn.buffer];
            // The lane's first element in memory, counted from the chunk's.
            const int first = place * scan::GROUP - c.offset();
            finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + c.row * p.out_stride + c.first + first;
            const bool is_whole = first >= 0 && first + scan::GROUP <= c.count;
            __syncwarp();
            if (__all_sync(ALL, is_plain && is_whole && line < lines)) {
                if (lane == 0) load::arrive(&b.empty[turn.buffer]);  // all that is needed is in registers
                const scan::Results r = scan::rounded_results(running, running.carry(start));
                load::wait_for_stores();  // of the line before: the lane that has started them
                __syncwarp();
                store_line(to, b.results[line], r);
            } else {
                if (line < lines) store_any_line(to, at, start, -first, c.count - first);
                __syncwarp();
                if (lane == 0) load::arrive(&b.empty[turn.buffer]);
            }
        }
    }
    if (!IN_PLACE) load::wait_for_stores();  // the block must not end before the stores have read its shared memory
}

// Called by all warps; one thread of each prepares some barriers.  One thread alone takes 1 us for 50 barriers (H200,
// 2^24 numbers of binary32: 43.2 in place of 45.2 us).
__device__ inline void prepare_barriers(LongScanBuffers& b, int warp) {
    if (threadIdx.x % WARP != 0) return;
#pragma unroll 1
    for (int i = warp; i < BUFFERS; i += WARPS) {
        if (i >= FIRST) load::prepare(&b.full[i]);  // the others are ready
        load::prepare(&b.summed[i], SUMMING);
    }
#pragma unroll 1
    for (int i = WARPS - 1 - warp; i < BUFFERS; i += WARPS) {
        load::prepare(&b.found[i], 2);
        load::prepare(&b.done[i], scan::LINES);
        load::prepare(&b.empty[i], IN_PLACE ? 1 : scan::LINES);
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
        // These warps have nothing to do yet; the other warps have.  Before the barrier, this would take 1 us.
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
    } else if (warp == STORE && IN_PLACE) {
        store_chunks(p, b);
    }
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(&p.shared->left, gridDim.x - 1) == gridDim.x - 1) {
        p.shared->ticket = 0;
        p.shared->launch += 1;
    }
}
