// Running sums of rows of any length without gaps between them, where other kernels would leave lanes idle: rows whose
// groups are no power of two, or that begin anywhere.
//
// A block takes a tile: some whole rows, as they lie in memory, that a bulk copy brings to shared memory.  A lane has a
// part of a row, which begins at any element.  Results take the places of numbers, or have a place behind them, and
// leave together.  No block waits for another.  Where a row has several lines, warps take them in turn, and tell each
// other in shared memory what they come to.
//
// In a cycle of a multiprocessor a copy moves 18 bytes (H200, 4.26 TB/s), and in a pass a warp scans 32 groups, 2 KiB
// with results.  So a pass may take 111 cycles of shared memory, and 445 of a scheduler.  Of 16-bit numbers at odd places
// it takes about 80 of the former (bulk copies 16, numbers 16, results 32, shuffles 18), and of the latter 390
// instructions, among which 32 conversions keep their unit busy for 256 cycles: rows of 257, 999 and 4097 numbers of
// bfloat16 have 0.9 of a copy's speed.  All others wait for memory.
//
// What was slower, as shares of a copy's speed (H200):
// - Lanes that have a group each and no more.  Of rows of 17 and 257 numbers, half of the lanes had the one number
//   behind the last whole group: bfloat16 0.55 and 0.47 in place of 0.97 and 0.90, binary32 of 257 0.70 in place of 1.
// - A warp for each row of several lines, with the sums of the lines before in registers.  A line took 1,000 cycles, and
//   few such rows have room: 4097 numbers of binary32 and binary64 0.74 and 0.65 in place of 0.96 and 0.93.
// - Results that were written number by number or word by word, where eight lanes have one bank (scan/any_place.cuh).
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), LAYOUT (ALIGNED), for sm_90 and later, and
//   LEVELS       0: rows of a part; 1: of a line at most; 2: of a chunk; 3: of up to 32 chunks
//   EXACT        1: sums are exact whatever their order is, as those of up to 2^13 numbers of binary16 are
//                (scan/exact_lines.cuh)
//   PART         numbers of a lane: a group's, or those of a row that is shorter; where EXACT, as many as suit the row
//   TAIL         numbers of a row behind its last whole group that no lane has as its part: few, so that the lane of
//                the last group takes them, too
//   EXCLUSIVE, REVERSE
//   UNIT         the bytes, up to 16, of which the beginnings of rows are multiples
//   RESULT_UNIT  the same of the results
//   APART        1: results have a place of their own
//   WARPS        of a block; one where a row has one line
//   RESIDENT     blocks per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/scan/rows.cuh"
#include "device/scan/tile_lines.cuh"

using namespace tcu;

constexpr int SIZE = sizeof(Code), RESULT_SIZE = sizeof(finish::ResultCode);

// Lines of memory are lines of shared memory (load/ring.cuh).  Parts are read with what lies around them.
constexpr int LINE = 128, AROUND = 48;

__device__ constexpr int lines_of_memory(int bytes) { return (bytes + LINE - 1) / LINE * LINE; }

// Where numbers may begin: behind a barrier, and what each line of rows comes to.
__device__ constexpr int end_of_totals(int lines) { return lines_of_memory(8 + 8 * lines); }

// Where results that have a place of their own may begin, and so where numbers have ended.
__device__ constexpr int end_of_numbers(int count, int lines) {
    return end_of_totals(lines) + lines_of_memory(LINE - 1 + count * SIZE + AROUND);
}

// Shared memory of a tile of so many numbers.
__device__ constexpr int bytes_of_tile(int count, int lines) {
    return end_of_numbers(count, lines) + (APART ? LINE + (count * RESULT_SIZE + 15) / 16 * 16 : 0);
}

// Where a lane's part is.
struct TilePlace {
    int at;         // of its first number in the tile, which may lie before the row
    int low, high;  // which of its numbers belong to the row
};

__device__ inline TilePlace place_of(int row, int part, int length) {
    const int offset = REVERSE ? length - (part + 1) * PART : part * PART;
    return {row * length + offset, REVERSE ? max(-offset, 0) : 0, REVERSE ? PART : min(length - offset, PART)};
}

// Of a lane without numbers, which reads what is there.
__device__ inline TilePlace no_place(int at) { return {at, REVERSE ? PART : 0, REVERSE ? PART : 0}; }

__device__ inline void wait_for_warps() {
    if (WARPS > 1)
        __syncthreads();
    else
        __syncwarp();
}

extern "C" __global__ void __launch_bounds__(WARPS* WARP, RESIDENT) tile_scan(const __grid_constant__ scan::Scan p) {
    extern __shared__ uint4 memory[];
    u64* const full = reinterpret_cast<u64*>(memory);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, length = static_cast<int>(p.length);
    const i64 row0 = static_cast<i64>(blockIdx.x) * p.rows_of_share, first = row0 * p.length;
    const int rows = static_cast<int>(min(p.rows_of_share, p.rows - row0)), count = rows * length;
    // Of a row.
    const int parts = TAIL ? length / PART : (length + PART - 1) / PART, lines = (parts + WARP - 1) / WARP;
    const int totals_of_tile = LEVELS > 1 ? static_cast<int>(p.rows_of_share) * lines : 0;
    const u64 from = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + first);
    char* const numbers = reinterpret_cast<char*>(memory) + end_of_totals(totals_of_tile) + from % LINE;
    if (threadIdx.x == 0) {
        const int shift = static_cast<int>(from % 16);
        load::prepare(full);
        load::copy_bulk(numbers - shift, reinterpret_cast<const void*>(from - shift), (shift + count * SIZE + 15) / 16 * 16, full);
    }
    finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + first;
    const int result_shift = static_cast<int>(reinterpret_cast<u64>(to) % 16);
    char* const results = APART ? reinterpret_cast<char*>(memory) + end_of_numbers(count, totals_of_tile) +
                                      reinterpret_cast<u64>(to) % LINE
                                : numbers;
    wait_for_warps();
    load::wait_for_copy(full, 0);
#if LEVELS <= 1
    // Rows side by side in the lanes.
    const int in_row = LEVELS ? parts : 1, together = WARP / in_row, mine = lane / in_row;
    const scan::LanesOfRow lanes{LEVELS ? lane - mine * in_row : 0, LEVELS ? mine * in_row : lane, in_row};
    const int passes = (rows + together - 1) / together;
#pragma unroll 1
    for (int pass = warp; pass < passes; pass += WARPS) {
        const int row = pass * together + mine;
        const bool is_any = mine < together && row < rows;
        const TilePlace now = is_any ? place_of(row, lanes.place, length) : no_place(0);
        scan::LanePart x;
        scan::read_part<UNIT>(numbers + now.at * SIZE, x);
        const scan::PartSums sums(x);
        const double all = lanes.inclusive(sums.total());
        // Zero is added so that no result is -0.
        const scan::LaneResults r = sums.results(lanes.exclusive(all) + 0.0);
        const bool is_whole = now.low == 0 && now.high == PART;
        const scan::Around around = RESULT_UNIT == 2 ? lanes.around(r, is_whole) : scan::Around();
        scan::write_part<RESULT_UNIT>(results + now.at * RESULT_SIZE, r, now.low, now.high, around);
        if (TAIL && is_any && lanes.place == in_row - 1)
            scan::scan_tail(numbers, results, row * length + (REVERSE ? 0 : length - TAIL), all);
    }
#else
    // A row's lines one after another.
    double* const totals = reinterpret_cast<double*>(memory) + 1;
    const scan::LanesOfRow lanes{lane, 0, WARP};
    const int passes = rows * lines;
    int row = 0, line = warp;
#pragma unroll 1
    for (int pass = warp; pass - warp < passes; pass += WARPS, line += WARPS) {
        while (line >= lines) {
            line -= lines;
            ++row;
        }
        const int part = line * WARP + lane;
        TilePlace now = no_place(0);
        if (pass < passes) now = part < parts ? place_of(row, part, length) : no_place(row * length);
        scan::LanePart x;
        scan::read_part<UNIT>(numbers + now.at * SIZE, x);
        const scan::PartSums sums(x);
        const double all = lanes.inclusive(sums.total());
        if (pass < passes && lane == WARP - 1) totals[pass] = all;
        wait_for_warps();
        if (pass >= passes) continue;
        const double start = scan::sum_before(totals + (pass - line), line);
        const scan::LaneResults r = sums.results(start + lanes.exclusive(all) + 0.0);
        const bool is_whole = now.low == 0 && now.high == PART;
        const scan::Around around = RESULT_UNIT == 2 ? lanes.around(r, is_whole) : scan::Around();
        scan::write_part<RESULT_UNIT>(results + now.at * RESULT_SIZE, r, now.low, now.high, around);
        if (TAIL && line == lines - 1) {
            const double before = parts % WARP ? start + __shfl_sync(ALL, all, (parts - 1) % WARP)
                                               : scan::sum_before(totals + (pass - line), lines);
            if (lane == 0) scan::scan_tail(numbers, results, row * length + (REVERSE ? 0 : length - TAIL), before);
        }
    }
#endif
    load::release_to_copies();
    wait_for_warps();
    // Numbers that share a granule with those of others are stored one by one.
    const int bytes = count * RESULT_SIZE, head = min(-result_shift & 15, bytes), whole = (bytes - head) / 16 * 16;
    if (threadIdx.x == 0 && whole) {
        load::start_store(reinterpret_cast<char*>(to) + head, results + head, whole);
        load::commit_stores();
    }
    const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(results);
    const int thread = threadIdx.x, rest = (head + whole) / RESULT_SIZE + thread;
    if (thread < head / RESULT_SIZE) to[thread] = codes[thread];
    if (rest < count) to[rest] = codes[rest];
    if (threadIdx.x == 0) load::wait_for_stores();
}
