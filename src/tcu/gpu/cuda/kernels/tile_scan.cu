// Running sums of rows of any length without gaps between them, where other kernels would leave lanes idle: rows whose
// groups are no power of two, or that begin anywhere.
//
// A warp takes a tile: some whole rows, as they lie in memory, that a bulk copy brings to shared memory.  A lane has a
// part of a row, which begins at any element.  Results take the places of numbers, or have a place behind them, and
// leave together.  No warp waits for another.
//
// Compiled with ELEMENT, RESULT (finish/result_code.cuh), LAYOUT (ALIGNED), for sm_90 and later, and
//   LEVELS       0: rows of a part; 1: of a line at most; 2: of a chunk; 3: of up to 32 chunks
//   PART         numbers of a lane: a group's, or those of a row that is shorter; of binary16 in rows of a chunk at
//                most, whose sums are exact, as many as suit the row
//   EXCLUSIVE, REVERSE
//   UNIT         the bytes, up to 16, of which the beginnings of rows are multiples
//   RESULT_UNIT  the same of the results
//   APART        1: results have a place of their own
//   RESIDENT     warps per multiprocessor that the registers must allow

#include "device/load/bulk_copy.cuh"
#include "device/scan/rows.cuh"
#include "device/scan/tile_lines.cuh"

using namespace tcu;

constexpr int SIZE = sizeof(Code), RESULT_SIZE = sizeof(finish::ResultCode);

// Lines of memory are lines of shared memory (load/ring.cuh).  Parts are read with what lies around them.
constexpr int LINE = 128, AROUND = 48;

// Where results that have a place of their own may begin, and so where numbers have ended.
__device__ constexpr int end_of_numbers(int count) { return (2 * LINE - 1 + count * SIZE + AROUND + LINE - 1) / LINE * LINE; }

// Shared memory of a tile of so many numbers.
__device__ constexpr int bytes_of_tile(int count) {
    return end_of_numbers(count) + (APART ? LINE + (count * RESULT_SIZE + 15) / 16 * 16 : 0);
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

extern "C" __global__ void __launch_bounds__(WARP, RESIDENT) tile_scan(const __grid_constant__ scan::Scan p) {
    extern __shared__ uint4 memory[];
    u64* const full = reinterpret_cast<u64*>(memory);
    const int lane = threadIdx.x, length = static_cast<int>(p.length);
    const i64 row0 = static_cast<i64>(blockIdx.x) * p.rows_of_share, first = row0 * p.length;
    const int rows = static_cast<int>(min(p.rows_of_share, p.rows - row0)), count = rows * length;
    const u64 from = reinterpret_cast<u64>(static_cast<const Code*>(p.data) + first);
    char* const numbers = reinterpret_cast<char*>(memory) + LINE + from % LINE;
    if (lane == 0) {
        const int shift = static_cast<int>(from % 16);
        load::prepare(full);
        load::copy_bulk(numbers - shift, reinterpret_cast<const void*>(from - shift), (shift + count * SIZE + 15) / 16 * 16, full);
    }
    finish::ResultCode* const to = static_cast<finish::ResultCode*>(p.out) + first;
    const int result_shift = static_cast<int>(reinterpret_cast<u64>(to) % 16);
    char* const results = APART ? reinterpret_cast<char*>(memory) + end_of_numbers(count) + reinterpret_cast<u64>(to) % LINE
                                : numbers;
    const int parts = (length + PART - 1) / PART;
#if LEVELS <= 1
    // Rows side by side in the lanes.
    const int in_row = LEVELS ? parts : 1, together = WARP / in_row, mine = lane / in_row;
    const scan::LanesOfRow lanes{LEVELS ? lane - mine * in_row : 0, LEVELS ? mine * in_row : lane, in_row};
    const auto place = [&](int pass) -> TilePlace {
        const int row = pass * together + mine;
        if (mine >= together || row >= rows) return {0, 0, 0};
        return place_of(row, lanes.place, length);
    };
    const int passes = (rows + together - 1) / together;
#else
    // A row's lines one after another.
    const scan::LanesOfRow lanes{lane, 0, WARP};
    const int lines = (parts + WARP - 1) / WARP, passes = rows * lines;
    int row = 0, line = 0;
    const auto place = [&](int) -> TilePlace {
        const int part = line * WARP + lane;
        const TilePlace found = part < parts ? place_of(row, part, length) : TilePlace{row * length, 0, 0};
        if (++line == lines) {
            line = 0;
            ++row;
        }
        return found;
    };
    scan::SumOfLines before(lines);
#endif
    __syncwarp();
    load::wait_for_copy(full, 0);
    TilePlace now = place(0);
    scan::LanePart x;
    scan::read_part<UNIT>(numbers + now.at * SIZE, x);
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        TilePlace later = now;
        scan::LanePart next = x;
        if (pass + 1 < passes) {
            later = place(pass + 1);
            scan::read_part<UNIT>(numbers + later.at * SIZE, next);
        }
        scan::LaneResults r;
#if LEVELS <= 1
        scan::scan_part(x, lanes, 0, r);
#else
        before.add(scan::scan_part(x, lanes, before.sum, r));
#endif
        scan::write_part<RESULT_UNIT>(results + now.at * RESULT_SIZE, r, now.low, now.high);
        now = later;
        x = next;
    }
    load::release_to_copies();
    __syncwarp();
    // Numbers that share a granule with those of others are stored one by one.
    const int bytes = count * RESULT_SIZE, head = min(-result_shift & 15, bytes), whole = (bytes - head) / 16 * 16;
    if (lane == 0 && whole) {
        load::start_store(reinterpret_cast<char*>(to) + head, results + head, whole);
        load::commit_stores();
    }
    const finish::ResultCode* const codes = reinterpret_cast<const finish::ResultCode*>(results);
    if (lane < head / RESULT_SIZE) to[lane] = codes[lane];
    const int rest = (head + whole) / RESULT_SIZE + lane;
    if (rest < count) to[rest] = codes[rest];
    if (lane == 0) load::wait_for_stores();
}
